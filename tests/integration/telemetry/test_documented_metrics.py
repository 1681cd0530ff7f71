"""The metrics of real processes are those of docs/observability.md, each under its name, type and labels.

Dashboards and alerts are checked against that page (`tests/unit/docs/test_observability.py`), so
this is where they meet what is really exported.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.protocol import QuarantineReport
from stoker_testkit.admission.webhook_process import Admission
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.docs_checks.documented_metrics import documented, shown_on
from stoker_testkit.environments.agent_environment import AgentEnvironment, project
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.author_webhook_manifest import without_rules
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.wait_until import eventually

DOCUMENTED = documented((Path(__file__).parents[3] / "docs" / "observability.md").read_text())
PODS = Path(__file__).parents[2] / "data" / "pods"


def get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page: str = answer.read().decode()
    return page


def is_as_documented(component: str, page: str, *series: str) -> None:
    """The page has what the table has, no more and no less; `series` must be seen with their labels."""
    shown = shown_on(page)
    table = {one.name: one for one in DOCUMENTED[component]}
    assert shown.keys() == table.keys()
    for name, one in shown.items():
        assert (one.type, one.description) == (table[name].type, table[name].description), name
        if one.labels is not None:
            assert one.labels == set(table[name].labels), name
    assert [name for name in series if shown[name].labels is None] == []


@pytest.fixture
def controlled(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with Site.prepare(kinds, namespace, tmp_path) as made:
        yield made


@pytest.fixture
def repository(repositories: Path, git_http: GitHttpServer) -> Repository:
    made = Repository.create(repositories / "plant.git")
    made.commit({"services/site/projects/site/project.json": "{}"})
    return made


def test_the_controller_and_its_receiver(
    controlled: Site, repository: Repository, git_http: GitHttpServer
) -> None:
    site, commit = controlled, repository.tip()
    port, receiver = free_ports(2)
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    site.apply("Stoker", "line", git=source, rateLimit={"maxConcurrentSyncs": 1})
    site.start(f"--metrics-bind-address=127.0.0.1:{port}", f"--receiver-bind-address=127.0.0.1:{receiver}")
    pod = site.pod("north-0", "line", gateway="north")
    site.until_metadata("line", commit=commit)
    taken = QuarantineReport("b" * 40, "AutoRollback", "it did not load", "2026-03-02T08:15:04Z")
    pod.report(
        commit,
        synced_at="2026-03-02T08:15:05Z",
        duration="1.20s",
        scan_durations=("0.012s", "0.034s"),
        quarantine=taken,
    )
    site.until("Stoker", "line", "AutoRollbackPerformed", "AutoRollback")
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{receiver}/webhook/{site.namespace}/line", b"{}", 10)
    page = get(port)
    is_as_documented(
        "Controller",
        page,
        "ignition_sync_rollback_triggered_total",
        "ignition_sync_scan_api_duration_seconds",
        "ignition_sync_sync_duration_seconds",
        "ignition_sync_webhook_received_total",
        "ignition_sync_gateways_synced",
    )
    whose = f'cr="line",gateway="north",namespace="{site.namespace}"'
    assert f'ignition_sync_rollback_triggered_total{{{whose},reason="AutoRollback"}} 1.0' in page
    assert f"ignition_sync_scan_api_duration_seconds_count{{{whose}}} 2.0" in page


def test_an_agent_and_the_lines_that_it_logs_on_its_way(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec())
    plant.join_gateway(pod)
    plant.until_converged(pod, first)
    second = project("filler", 2)
    commit = plant.commit(second)
    plant.publish(commit, trigger="webhook")
    plant.until_converged(pod, commit)
    is_as_documented(
        "Agent",
        pod.ask("/metrics")[1],
        "ignition_sync_scan_api_duration_seconds",
        "ignition_sync_pass_duration_seconds",
        "ignition_sync_files_changed_total",
    )
    triggered = pod.logged("sync.triggered")[-1]
    assert (triggered["commit"], triggered["ref"], triggered["source"]) == (commit.short, "main", "webhook")
    staged = pod.logged("staging.built")[-1]
    assert (staged["mappings"] > 0, staged["files"], staged["seconds"] >= 0) == (True, len(second), True)
    merged = pod.logged("merge.done")[-1]
    assert (merged["added"], merged["modified"], merged["deleted"], merged["skipped"]) == (
        0,
        len(second),
        0,
        0,  # parts of the standard layout that the repository does not have are not counted
    )
    scans = [line for line in pod.logged("scan.called") if line["pass_id"] == merged["pass_id"]]
    assert [(line["kind"], line["status"]) for line in scans] == [("projects", 200), ("config", 200)]
    assert len({line["pass_id"] for line in (triggered, staged, merged)}) == 1


def test_the_webhook(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> None:
    lonely: dict[str, Any] = json.loads((PODS / "gateway.json").read_text())
    lonely["metadata"].pop("ownerReferences")
    lonely["spec"]["serviceAccountName"] = "default"
    with Admission(kinds, namespace, tmp_path) as admission:
        admission.prepare()
        admission.start()
        admission.configure()
        admission.until_trusted()
        assert admission.create("api/v1/pods", lonely)[0] == 201
        is_as_documented("Webhook", admission.ask("/metrics")[1], "ignition_sync_injections_total")


def test_the_reverser_with_author_capture(site: ReverserSite, prod: Repository) -> None:
    port, outer, inner = free_ports(3)
    name = f"authors-{site.namespace}"
    configuration = without_rules(name, f"https://127.0.0.1:{outer}/process-validating-webhook")
    site.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(configuration))
    site.follow_maps()
    site.start(
        f"--metrics-port={port}",
        "--enable-author-webhook=true",
        "--webhook-host=127.0.0.1",
        f"--webhook-port={outer}",
        f"--peers-port={inner}",
        f"--webhook-configuration={name}",
        "--webhook-cert-secret=reverser-tls",
        "--webhook-cert-name=127.0.0.1",
    )
    try:
        site.config_map("prices")
        site.until_files(prod, {site.map_path("prices"): "value"})
        eventually(lambda: "author_webhook_certificate_seconds" in get(port), PATIENCE, site.tail)
        site.repo_config("lost", repoUrl=site.url.replace("prod.git", "lost.git"))
        site.destination("lost", repoRef={"name": "lost"})
        site.rule("lost", to="lost")
        eventually(lambda: "push_failures_total{" in get(port), PATIENCE, site.tail)
        page = get(port)
        is_as_documented("Reverser", page, "commits_total", "objects_written_total", "push_failures_total")
        repo = site.url.removeprefix("http://").removesuffix(".git")
        worker = f'repo_branch_active_workers{{branch="main",repo="{repo}"}}'
        assert f"{worker} 1.0" in page
        site.repo_config(suspend=True)
        eventually(
            lambda: worker not in get(port),
            PATIENCE,
            lambda: f"a branch that no resource uses is not missed\n{site.tail()}",
        )
    finally:
        site.cluster.kubectl("delete", "validatingwebhookconfiguration", name)
