"""Names are exact, labels tell resources apart and nothing else, nothing stale or unbounded is exported."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret
from stoker.telemetry.labels import MAX_VALUE, OTHER
from stoker.telemetry.metrics import MetricReading, Metrics
from stoker.telemetry.runtime import RuntimeMetrics


def page(metrics: Metrics) -> str:
    return metrics.page(metrics.read()).decode()


def series(metrics: Metrics, name: str) -> dict[str, float]:
    """Label text to value, of the samples with exactly that name."""
    found = {}
    for line in page(metrics).splitlines():
        match = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
        if match:
            found[match[1] or ""] = float(match[2])
    return found


def test_names_are_exported_as_declared() -> None:
    metrics = Metrics()
    metrics.counter("ignition_sync_reconcile_total", "Passes.").inc()
    metrics.counter("ignition_sync_bidirectional_prs_created", "Requests.").inc(2)
    metrics.gauge("ignition_sync_gateways_synced", "Gateways.").set(4)
    metrics.histogram("ignition_sync_reconcile_duration_seconds", "Seconds.").observe(0.2)
    assert series(metrics, "ignition_sync_reconcile_total") == {"": 1}
    assert series(metrics, "ignition_sync_bidirectional_prs_created") == {"": 2}
    assert series(metrics, "ignition_sync_gateways_synced") == {"": 4}
    assert series(metrics, "ignition_sync_reconcile_duration_seconds_count") == {"": 1}
    names = {line.split("{")[0].split(" ")[0] for line in page(metrics).splitlines() if line[:1] != "#"}
    assert {name for name in names if not name.startswith("process_")} == {
        "ignition_sync_reconcile_total",
        "ignition_sync_bidirectional_prs_created",
        "ignition_sync_gateways_synced",
        "ignition_sync_reconcile_duration_seconds_bucket",
        "ignition_sync_reconcile_duration_seconds_count",
        "ignition_sync_reconcile_duration_seconds_sum",
    }


def test_a_prefix_is_before_every_name() -> None:
    metrics = Metrics(prefix="gitops_reverser")
    metrics.counter("commits_total", "Commits.", ("repo", "branch")).inc(repo="site", branch="main")
    metrics.collect_from(lambda: [MetricReading("depth", "Depth.", 3, {"queue": "q"})])
    assert series(metrics, "gitops_reverser_commits_total") == {'branch="main",repo="site"': 1}
    assert series(metrics, "gitops_reverser_depth") == {'queue="q"': 3}


def test_two_processes_in_one_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.counter("x_total", "X.").inc()
    other.counter("x_total", "X.")
    assert series(one, "x_total") == {"": 1}
    assert series(other, "x_total") == {"": 0}


@pytest.mark.parametrize("label", ["commit", "path", "url", "pod", "user", "message", "secret", "le"])
def test_a_declaration_with_any_other_label_is_refused(label: str) -> None:
    metrics = Metrics()
    for declare in (metrics.counter, metrics.gauge, metrics.histogram):
        with pytest.raises(InvalidValue, match=f"x_total declares label '{label}'"):
            declare("x_total", "X.", ("namespace", label))
    with pytest.raises(InvalidValue, match="declares label"):
        metrics.collect_from(lambda: [MetricReading("x", "X.", 1, {label: "a"})])


@pytest.mark.parametrize("name", ["", "Upper_total", "with-dash", "with space", "1st_total", "ü_total"])
def test_a_name_that_prometheus_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="is not lower-case letters"):
        Metrics().counter(name, "X.")
    with pytest.raises(InvalidValue, match="metrics prefix 'A-b'"):
        Metrics(prefix="A-b")


def test_a_name_or_a_label_declared_twice_is_refused() -> None:
    metrics = Metrics()
    metrics.gauge("x", "X.")
    with pytest.raises(InvalidValue, match="x is declared twice"):
        metrics.counter("x", "X.")
    with pytest.raises(InvalidValue, match="a declared metric has it"):
        metrics.collect_from(lambda: [MetricReading("x", "X.", 1)])
    with pytest.raises(InvalidValue, match="declares a label twice"):
        metrics.gauge("y", "Y.", ("cr", "cr"))


def test_using_other_labels_than_declared_is_refused() -> None:
    counter = Metrics().counter("x_total", "X.", ("namespace", "cr"))
    with pytest.raises(InvalidValue, match=r"has labels \['cr', 'namespace'\], yet \['cr'\] were given"):
        counter.inc(cr="a")
    with pytest.raises(InvalidValue, match="cannot go down"):
        counter.inc(-1, namespace="a", cr="b")


@pytest.mark.parametrize(
    "value",
    [
        "https://user:c4n4ry@host/x",
        "git@host:org/repo",
        "/data/projects/site/resource.json",
        "0123456789abcdef0123456789abcdef01234567",
        "0123456789abcdef" * 4,
        "two\nlines",
        "half a character \ud800",
    ],
)
def test_an_address_a_commit_or_a_path_is_never_exported(value: str) -> None:
    metrics = Metrics()
    metrics.counter("x_total", "X.", ("cr",)).inc(cr=value)
    metrics.collect_from(lambda: [MetricReading("y", "Y.", 1, {"queue": value})])
    assert series(metrics, "x_total") == {f'cr="{OTHER}"': 1}
    assert series(metrics, "y") == {f'queue="{OTHER}"': 1}


def test_a_secret_used_as_a_value_shows_nothing() -> None:
    metrics = Metrics()
    counter = metrics.counter("x_total", "X.", ("cr",))
    counter.inc(cr=Secret("c4n4ry"))  # type: ignore[arg-type]
    assert series(metrics, "x_total") == {f'cr="{OTHER}"': 1}


def test_a_long_value_is_cut_and_stays_distinct() -> None:
    metrics = Metrics()
    counter = metrics.counter("x_total", "X.", ("namespace", "cr"))
    for end in "ab":
        counter.inc(namespace="n", cr="x" * 252 + end)
    exported = list(series(metrics, "x_total"))
    assert len(exported) == 2
    assert all(len(text.split('"')[1]) == MAX_VALUE for text in exported)
    metrics.forget("n", "x" * 252 + "a")
    assert len(series(metrics, "x_total")) == 1


def test_beyond_the_limit_label_sets_share_one_series_and_the_sum_stays_right() -> None:
    metrics = Metrics(max_series=10)
    counter = metrics.counter("x_total", "X.", ("namespace", "cr"))
    for number in range(25):
        counter.inc(namespace="n", cr=f"cr-{number}")
    counter.inc(namespace="n", cr="cr-3")  # one that has its own
    found = series(metrics, "x_total")
    assert len(found) == 11
    assert found[f'cr="{OTHER}",namespace="{OTHER}"'] == 15
    assert found['cr="cr-3",namespace="n"'] == 2
    assert sum(found.values()) == 26


def test_room_is_made_by_forgetting() -> None:
    metrics = Metrics(max_series=1)
    gauge = metrics.gauge("x", "X.", ("namespace", "cr"))
    gauge.set(1, namespace="n", cr="old")
    metrics.forget("n", "old")
    gauge.set(2, namespace="n", cr="new")
    assert series(metrics, "x") == {'cr="new",namespace="n"': 2}


def test_readings_beyond_the_limit_are_summed_too() -> None:
    metrics = Metrics(max_series=2)
    metrics.collect_from(lambda: [MetricReading("x", "X.", 1, {"queue": f"q{i}"}) for i in range(5)])
    assert series(metrics, "x") == {'queue="q0"': 1, 'queue="q1"': 1, f'queue="{OTHER}"': 3}


def test_what_belongs_to_a_resource_that_is_gone_is_exported_no_more() -> None:
    metrics = Metrics()
    passes = metrics.counter("passes_total", "X.", ("namespace", "cr", "result"))
    seconds = metrics.histogram("seconds", "X.", ("namespace", "cr", "gateway"))
    queue = metrics.gauge("depth", "X.", ("queue",))
    for namespace, cr in (("a", "x"), ("a", "y"), ("b", "x")):
        for result in ("ok", "Stalled"):
            passes.inc(namespace=namespace, cr=cr, result=result)
        for gateway in ("one", "two"):
            seconds.observe(1, namespace=namespace, cr=cr, gateway=gateway)
    queue.inc(queue="x")
    metrics.forget("a", "x")
    assert not any(
        'cr="x"' in labels and 'namespace="a"' in labels for labels in series(metrics, "passes_total")
    )
    assert not re.search(r'^seconds.*cr="x".*namespace="a"', page(metrics), re.M)
    assert len(series(metrics, "passes_total")) == 4
    assert len(series(metrics, "seconds_count")) == 4
    assert series(metrics, "depth") == {'queue="x"': 1}
    passes.inc(namespace="a", cr="x", result="ok")  # it came back: from zero
    assert series(metrics, "passes_total")['cr="x",namespace="a",result="ok"'] == 1


def test_one_gateway_can_go_while_its_resource_stays() -> None:
    metrics = Metrics()
    passes = metrics.counter("passes_total", "X.", ("namespace", "cr"))
    seconds = metrics.gauge("seconds", "X.", ("namespace", "cr", "gateway"))
    passes.inc(namespace="a", cr="x")
    for gateway in ("one", "two"):
        seconds.set(1, namespace="a", cr="x", gateway=gateway)
    metrics.forget("a", "x", gateway="one")
    metrics.forget("a", "never-seen")
    assert list(series(metrics, "seconds")) == ['cr="x",gateway="two",namespace="a"']
    assert len(series(metrics, "passes_total")) == 1


def test_a_reading_is_taken_when_the_page_is_asked_for() -> None:
    metrics, depth = Metrics(), [1.0]
    metrics.collect_from(lambda: [MetricReading("depth", "Depth.", depth[0], {"queue": "q"})])
    assert series(metrics, "depth") == {'queue="q"': 1}
    depth[0] = 7
    assert series(metrics, "depth") == {'queue="q"': 7}


def test_a_callback_that_fails_costs_only_its_own_values() -> None:
    metrics, broken = Metrics(), [False]

    def flaky() -> Iterator[MetricReading]:
        yield MetricReading("flaky", "X.", 1)
        if broken[0]:
            raise RuntimeError("c4n4ry")

    def turncoat() -> list[MetricReading]:
        return [MetricReading("turncoat", "X.", 1, {"path": "x"} if broken[0] else {})]

    metrics.collect_from(flaky)
    metrics.collect_from(turncoat)
    metrics.collect_from(lambda: [MetricReading("sound", "X.", 1)])
    assert series(metrics, "flaky") == {"": 1}
    broken[0] = True
    assert series(metrics, "flaky") == {}
    assert series(metrics, "turncoat") == {}
    assert series(metrics, "sound") == {"": 1}


def test_counting_from_threads_loses_nothing() -> None:
    metrics = Metrics(max_series=50)
    counter = metrics.counter("x_total", "X.", ("cr",))

    def count() -> None:
        for number in range(1000):
            counter.inc(cr=f"cr-{number % 100}")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = series(metrics, "x_total")
    assert len(found) == 51
    assert sum(found.values()) == 4000


@dataclass(frozen=True)
class State:
    ready: int
    in_flight: int = 1
    delayed: int = 2
    adds_total: int = 30
    retries_total: int = 4
    oldest_seconds: float = 5.5
    longest_running_seconds: float = 6.5


@dataclass(frozen=True)
class Named:
    kind: str


@dataclass(frozen=True)
class Watched:
    resource: Named
    relists: int = 0
    broken_streams: int = 0
    silences: int = 0


def test_the_runtime_reports_under_the_promised_names() -> None:
    metrics = Metrics()
    runtime = RuntimeMetrics(metrics)
    runtime.reconciled("plant", "site", "ok", 0.3)
    runtime.reconciled("plant", "site", "SourceUnreachable", 12)
    watched = (Watched(Named("Stoker"), relists=2), Watched(Named("Stoker"), silences=1))
    runtime.watch_reflectors(lambda: watched)
    runtime.lease_won("stoker-controller-0")
    runtime.watch_queue("sync", lambda: State(7))
    runtime.watch_queue("sweep", lambda: State(0))
    assert series(metrics, "ignition_sync_reconcile_total") == {
        'cr="site",namespace="plant",result="ok"': 1,
        'cr="site",namespace="plant",result="SourceUnreachable"': 1,
    }
    assert series(metrics, "ignition_sync_reconcile_duration_seconds_sum") == {
        'cr="site",namespace="plant"': 12.3
    }
    assert series(metrics, "ignition_sync_watch_restarts_total") == {
        'kind="Stoker",reason="relist"': 2,
        'kind="Stoker",reason="broken"': 0,
        'kind="Stoker",reason="silence"': 1,
    }
    assert series(metrics, "ignition_sync_lease_held") == {'controller="stoker-controller-0"': 1}
    assert series(metrics, "ignition_sync_workqueue_depth") == {'queue="sync"': 7, 'queue="sweep"': 0}
    assert series(metrics, "ignition_sync_workqueue_oldest_seconds")['queue="sync"'] == 5.5
    assert "# TYPE ignition_sync_workqueue_adds_total counter" in page(metrics)
    assert series(metrics, "ignition_sync_workqueue_adds_total")['queue="sync"'] == 30
    runtime.lease_not_held("stoker-controller-0")
    assert series(metrics, "ignition_sync_lease_held") == {'controller="stoker-controller-0"': 0}
    assert series(metrics, "ignition_sync_lease_terms_total") == {'controller="stoker-controller-0"': 1}
    metrics.forget("plant", "site")
    assert series(metrics, "ignition_sync_reconcile_total") == {}


def test_a_counter_without_the_usual_ending_is_a_counter_all_the_same() -> None:
    metrics = Metrics()
    metrics.counter("ignition_sync_bidirectional_prs_created", "Requests.").inc(2)
    metrics.gauge("ignition_sync_bidirectional_prs_created_today", "Requests.").set(1)
    assert "# TYPE ignition_sync_bidirectional_prs_created counter\n" in page(metrics)
    assert "# TYPE ignition_sync_bidirectional_prs_created_today gauge\n" in page(metrics)


def test_what_is_declared_can_be_listed_with_what_is_looked_up() -> None:
    metrics = Metrics(prefix="site")
    metrics.counter("commits_total", "Commits.", ("repo", "branch"))
    metrics.collect_from(lambda: [MetricReading("depth", "Depth.", 3, {"queue": "q"})])
    metrics.collect_from(lambda: [MetricReading("adds_total", "Adds.", 3, {"queue": "q"}, counter=True)])
    assert metrics.declared() == [
        ("site_adds_total", "counter", ("queue",), "Adds."),
        ("site_commits_total", "counter", ("repo", "branch"), "Commits."),
        ("site_depth", "gauge", ("queue",), "Depth."),
    ]


def test_one_series_can_be_dropped_and_comes_back_at_the_begin() -> None:
    metrics = Metrics()
    gauge = metrics.gauge("x", "X.", ("namespace", "cr"))
    for cr in ("a", "b"):
        gauge.set(3, namespace="n", cr=cr)
    gauge.drop(namespace="n", cr="a")
    gauge.drop(namespace="n", cr="never there")
    assert series(metrics, "x") == {'cr="b",namespace="n"': 3}
    metrics.forget("n", "a")  # knows that it is gone
    gauge.inc(namespace="n", cr="a")
    assert series(metrics, "x") == {'cr="a",namespace="n"': 1, 'cr="b",namespace="n"': 3}
