"""Dashboards and alerts name only what is exported, and docs/observability.md tells of all that can be seen.

The page's tables of metrics are those of the code: here for what is declared, in
`tests/integration/telemetry/test_documented_metrics.py` for the pages of real processes.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import promql_parser as promql
import pytest
import yaml

from stoker.agent.loop.metrics import SyncMetrics
from stoker.controller.status import events
from stoker.controller.status.metrics import ControllerMetrics
from stoker.dashboard.metrics import DashboardMetrics as DashboardMeter
from stoker.domain.clock import SystemClock
from stoker.domain.reasons import ConditionType, Reason
from stoker.reverser.metrics import ReverserMetrics as ReverserMeter
from stoker.telemetry.log_shipper import LogShipper
from stoker.telemetry.metrics import DeclaredMetric, Metrics
from stoker.telemetry.runtime import RuntimeMetrics
from stoker.telemetry.syslog import SyslogAddress
from stoker.webhooks.admission.pod_review import PodInjector
from stoker.webhooks.admission.routes import routes
from stoker.webhooks.receiver.responses import WebhookCounter
from stoker_testkit.docs_checks.documented_metrics import documented, family_names

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "stoker"
PAGE = (ROOT / "docs" / "observability.md").read_text()
TROUBLE = (ROOT / "docs" / "troubleshooting.md").read_text()
TABLES = documented(PAGE)
COMPONENTS = ("Controller", "Agent", "Audit by syslog", "Webhook", "Dashboard", "Reverser")

# What Prometheus adds to a series of a pod, and what a histogram has besides its own labels.
FROM_THE_TARGET = {"instance", "pod", "le"}
FROM_THE_LIBRARY = {"process_resident_memory_bytes": frozenset[str]()}
INTERVAL = {"$__rate_interval": "5m"}

Json = dict[str, Any]


class Query(NamedTuple):
    """One expression, and its place."""

    place: str
    text: str


def dashboards() -> dict[str, Json]:
    return {file.name: json.loads(file.read_text()) for file in sorted((CHART / "dashboards").glob("*.json"))}


def rules() -> list[Json]:
    files = sorted((CHART / "rules").glob("*.yaml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> Iterator[Query]:
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield Query(f"{name}: {panel['title']} {target['refId']}", target["expr"])
    yield from (Query(rule["alert"], rule["expr"]) for rule in rules())


def variables() -> Iterator[Query]:
    """What fills the lists of a dashboard: `label_values(selector, label)`."""
    for name, dashboard in dashboards().items():
        for one in dashboard["templating"]["list"]:
            if one["type"] == "query":
                found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["definition"])
                assert found, one
                assert one["query"]["query"] == one["definition"]
                yield Query(f"{name}: ${one['name']}", f"count by ({found[2]}) ({found[1]})")


def parsed(query: Query) -> promql.Expr:
    text = query.text
    for variable, value in INTERVAL.items():
        text = text.replace(variable, value)
    try:
        return promql.parse(text)
    except ValueError as error:
        pytest.fail(f"{query.place}: {error}")


def labels_of(metric: str) -> set[str] | None:
    """The labels that a series of this name may have, over all processes that export it."""
    tables = [{one.name: one for one in table} for table in TABLES.values()]
    families = [table[name] for table in tables for name in family_names(metric) if name in table]
    if not families:
        return set(FROM_THE_LIBRARY[metric]) if metric in FROM_THE_LIBRARY else None
    histogram = metric not in {one.name for one in families}
    assert all((one.type == "histogram") is histogram for one in families), f"{metric} is no series"
    return {label for one in families for label in one.labels}


def wrong_names(query: Query) -> list[str]:
    """What an expression asks for and no process has."""
    wrong: list[str] = []
    known: set[str] = set(FROM_THE_TARGET)
    asked: set[str] = set()

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            labels = labels_of(node.name or "")
            if labels is None:
                wrong.append(f"{query.place}: no process exports {node.name}")
                return
            known.update(labels)
            strange = {one.name for one in node.matchers.matchers} - labels - FROM_THE_TARGET
            wrong.extend(f"{query.place}: {node.name} has no label {label}" for label in sorted(strange))
        elif isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            asked.update(node.modifier.labels)
        elif isinstance(node, promql.BinaryExpr) and node.modifier is not None and node.modifier.matching:
            asked.update(node.modifier.matching.labels)

    promql.walk(parsed(query), visit)
    return [*wrong, *(f"{query.place}: nothing has a label {label}" for label in sorted(asked - known))]


@pytest.mark.parametrize("query", [*queries(), *variables()], ids=lambda query: query.place)
def test_an_expression_can_be_read_and_asks_only_for_what_is_exported(query: Query) -> None:
    assert wrong_names(query) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ignition_sync_gateway_synced", "no process exports ignition_sync_gateway_synced"),
        ("ignition_sync_sync_duration_seconds", "ignition_sync_sync_duration_seconds is no series"),
        ("ignition_sync_gateways_synced_bucket", "ignition_sync_gateways_synced_bucket is no series"),
        ('ignition_sync_gateways_synced{resource="a"}', "has no label resource"),
        ("sum by (resource) (ignition_sync_gateways_synced)", "nothing has a label resource"),
        ("sum(", "here: "),
    ],
)
def test_a_wrong_name_would_be_noticed(text: str, message: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception), match=re.escape(message)):
        assert wrong_names(Query("here", text)) == []


def test_the_specified_dashboard_has_its_three_panels() -> None:
    dashboard = dashboards()["dashboard.json"]
    assert dashboard["title"] == "Ignition Sync Operator"
    panels = {one["title"]: [target["expr"] for target in one["targets"]] for one in dashboard["panels"]}
    assert list(panels) == ["Sync Status by Gateway", "Sync Duration Trend", "Webhook Received Rate"]
    assert panels["Sync Status by Gateway"] == [
        "ignition_sync_gateways_synced / ignition_sync_gateways_discovered"
    ]
    assert all("ignition_sync_sync_duration_seconds" in expr for expr in panels["Sync Duration Trend"])
    assert panels["Webhook Received Rate"] == ["rate(ignition_sync_webhook_received_total[5m])"]


def test_dashboards_can_be_distinguished_and_ask_for_their_data_source() -> None:
    loaded = dashboards()
    assert set(loaded) == {"dashboard.json", "fleet.json", "gateway.json", "reverser.json"}
    for key in ("uid", "title"):
        assert len({dashboard[key] for dashboard in loaded.values()}) == len(loaded)
    for name, dashboard in loaded.items():
        assert dashboard["templating"]["list"][0]["type"] == "datasource", name
        ids = [panel["id"] for panel in dashboard["panels"]]
        assert len(ids) == len(set(ids)), name
        for panel in (one for one in dashboard["panels"] if one["type"] != "row"):
            assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
            references = [target["refId"] for target in panel["targets"]]
            assert len(references) == len(set(references)), panel["title"]
        assert f"| `{name}` | {dashboard['title']} |" in PAGE


def test_panels_do_not_overlap() -> None:
    for name, dashboard in dashboards().items():
        taken: dict[tuple[int, int], str] = {}
        for panel in dashboard["panels"]:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24, (name, panel["title"])
            for cell in ((at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])):
                assert taken.setdefault(cell, panel["title"]) == panel["title"], name


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_is_wrong_and_where_help_is(rule: Json) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Stoker[A-Za-z]+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule.get("for", "1m") == promql.display_duration(promql.parse_duration(rule.get("for", "1m")))
    noted = rule["annotations"]
    assert noted.keys() == {"summary", "description", "runbook_url"}
    anchor = f"docs/troubleshooting.md#{rule['alert'].lower()}"
    assert noted["runbook_url"] == anchor
    assert f"\n### {rule['alert']}\n\n" in TROUBLE
    # A label that the expression sums away would be empty in the sentence.
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(noted.values())))
    kept = [set(found.split(", ")) for found in re.findall(r"\bby \(([^)]+)\)", rule["expr"])]
    assert used <= (kept[0] if kept else set())


def test_every_alert_has_its_help_and_there_is_no_other() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    assert re.findall(r"^### (Stoker\w+)$", TROUBLE, re.MULTILINE) == sorted(
        names, key=lambda name: TROUBLE.index(f"### {name}\n")
    )


def test_conditions_and_reasons_in_expressions_are_ours() -> None:
    words = {"condition": {str(one) for one in ConditionType}, "reason": {str(one) for one in Reason}}
    strange: list[str] = []

    def visit(node: promql.Expr) -> None:
        for one in node.matchers.matchers if isinstance(node, promql.VectorSelector) else ():
            if one.name in words:
                alternatives = [word for word in one.value.split("|") if not word.endswith(".*")]
                strange.extend(word for word in alternatives if word not in words[one.name])

    for query in queries():
        promql.walk(parsed(query), visit)
    assert strange == []


def declared(component: str) -> list[DeclaredMetric]:
    metrics, clock = Metrics(), SystemClock()
    unused: Any = None
    if component == "Controller":
        RuntimeMetrics(metrics)
        ControllerMetrics(metrics)
        WebhookCounter(metrics)
    elif component == "Agent":
        SyncMetrics(metrics, clock, namespace="n", cr="c", gateway="g")
    elif component == "Audit by syslog":
        metrics.collect_from(LogShipper(SyslogAddress.parse("udp://logs.example:514")).readings)
    elif component == "Webhook":
        validator: Any = SimpleNamespace(review=None, review_approval=None)
        routes(PodInjector(unused, unused, unused, metrics), validator, metrics, clock)
    elif component == "Dashboard":
        DashboardMeter(metrics)
    else:
        ReverserMeter(metrics)
    return metrics.declared()


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_page_has_every_declared_metric_as_it_is(component: str) -> None:
    found = declared(component)
    assert len(found) >= 2
    assert [one for one in found if one not in TABLES[component]] == []


def test_the_controllers_own_series_are_chosen_where_agents_have_the_name_too() -> None:
    """With agents scraped as well, the fleet would show the last look of an agent as its last sync."""
    shared = ("ignition_sync_files_changed_total", "ignition_sync_last_sync_timestamp")
    asked = [query for query in queries() if query.place.startswith("fleet.json")]
    found = [query for query in asked if any(name in query.text for name in shared)]
    assert len(found) == len(shared)
    assert [query.place for query in found if 'gateway=""' not in query.text] == []


def test_the_page_has_every_condition() -> None:
    section = PAGE.partition("\n## Conditions\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| ([A-Z]\w+) \|", section, re.MULTILINE)) == sorted(map(str, ConditionType))


def test_the_page_has_every_event() -> None:
    section = PAGE.partition("\n## Events\n")[2].partition("\n## ")[0]
    names = set(re.findall(r"^\| ([A-Z]\w+) \| (?:Normal|Warning) \|", section, re.MULTILINE))
    assert names <= {str(reason) for reason in Reason}
    assert _reasons_of_events() - names == set()


def _reasons_of_events() -> set[str]:
    """The reasons in calls that make Events; those of errors are reported as they come."""
    tellers = {"Told", "normal", "warning", "_say"}
    found = {str(reason) for _, _, reason in events._EVENT_TYPES}
    for file in (ROOT / "src" / "stoker").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and _name(node.func) in tellers:
                found |= {str(Reason[one.attr]) for one in node.args if _is_reason(one)}  # type: ignore[attr-defined]
    return found


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_reason(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and _name(node.value) == "Reason"


def test_the_page_has_every_log_event() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "log-reference", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
