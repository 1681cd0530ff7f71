"""Stages, order, limits and approvals, with a real controller on a real API server.

Agents are played: what they report is applied as the real one applies it. The service that
answers health checks and takes announcements is a real http server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stoker.controller.rollout.approval import plans_digest
from stoker.domain.clock import rfc3339_micro
from stoker.domain.protocol import GatewayTarget, PendingPlanReport, SyncMode, SyncState
from stoker.domain.refs import CommitId
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.command_fork_server import CommandResult
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.environments.stub_gateway_pods import StubGatewayPod
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.services.stub_http_service import StubHttpService
from stoker_testkit.wait_until import eventually

FAST = {"interval": "1s"}
LINE = ("lab", "filler", "packer", "plant")


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    made = Site.prepare(kinds, namespace, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def repository(repositories: Path, git_http: GitHttpServer) -> Repository:
    made = Repository.create(repositories / "plant.git")
    made.commit({"services/site/projects/site/project.json": "{}"})
    return made


@pytest.fixture
def service() -> Iterator[StubHttpService]:
    with StubHttpService.start() as made:
        yield made


def gateways(
    site: Site, names: tuple[str, ...], commit: CommitId, kind: str = "Stoker"
) -> dict[str, StubGatewayPod]:
    """Pods of gateways that are all synced to a commit, and a controller that knows it."""
    pods = {name: site.pod(f"{name}-0", "line", gateway=name) for name in names}
    site.until_metadata("line", commit=commit)
    for pod in pods.values():
        pod.report(commit)
    site.until(kind, "line", "Ready", "GatewaysSynced")
    return pods


def targets(site: Site) -> dict[str, GatewayTarget]:
    published = site.metadata("line")
    return dict(published.targets) if published is not None else {}


def until_targets(site: Site, **wanted: GatewayTarget | None) -> None:
    """Wait until gateways have these orders; None: none of their own."""
    site.until_metadata("line", targets=lambda it: {name: it.get(name) for name in wanted} == wanted)


def stages(site: Site) -> dict[str, str]:
    progress = site.status("Stoker", "line").get("release", {})
    return {one["name"]: one["state"] for one in progress.get("stages", ())}


def until_stages(site: Site, **wanted: str) -> None:
    eventually(
        lambda: wanted.items() <= stages(site).items(),
        PATIENCE,
        lambda: (
            f"stages are {wanted}; they are {site.status('Stoker', 'line').get('release')}\n{site.tail()}"
        ),
        interval=0.05,
    )


def now() -> str:
    return rfc3339_micro(datetime.now(UTC))


def test_a_canary_stops_at_the_stage_whose_health_check_fails(
    site: Site, repository: Repository, git_http: GitHttpServer, service: StubHttpService
) -> None:
    first = repository.tip()
    deployment = {
        "strategy": "canary",
        "stages": [
            {
                "name": "pilot",
                "gateways": ["lab"],
                "postSyncWait": "1s",
                "healthCheckUrl": f"{service.url}/pilot",
            },
            {
                "name": "lines",
                "gateways": ["filler", "packer"],
                "healthCheckUrl": f"GET {service.url}/lines?key=hidden",
            },
        ],
    }
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    site.apply("Stoker", "line", git=source, polling=FAST, deployment=deployment)
    site.start("--workers=1")
    pods = gateways(site, LINE, first)
    until_stages(site, pilot="Passed", lines="Passed")
    service.asked.clear()

    second = repository.commit({"README.md": "two"})
    held = GatewayTarget(first)
    site.until_metadata("line", commit=second, targets={"filler": held, "packer": held, "plant": held})
    eventually(  # the status is written after the metadata
        lambda: "waits for stage pilot" in site.condition("Stoker", "line", "AllGatewaysSynced")[2],
        PATIENCE,
        "the status says which gateway waits for what",
        interval=0.05,
    )
    pods["lab"].report(second)
    until_targets(site, lab=None, filler=None, packer=None, plant=held)
    assert set(service.asked) == {"/pilot"}

    service.status = 503
    pods["filler"].report(second)
    pods["packer"].report(second)
    message = site.until("Stoker", "line", "CanaryStageFailed", "CanaryStageFailed")
    assert message.startswith("stage lines failed: its health check failed: 127.0.0.1 answered 503")
    assert "hidden" not in json.dumps(site.status("Stoker", "line"))
    assert site.condition("Stoker", "line", "Stalled")[:2] == ("True", "CanaryStageFailed")
    assert site.condition("Stoker", "line", "Ready")[:2] == ("False", "CanaryStageFailed")
    site.until_event("CanaryStageFailed", "stage lines failed")
    assert stages(site) == {"pilot": "Passed", "lines": "Failed", "(others)": "Waiting"}

    service.status = 200
    site.running[0].stop()  # a new leader goes on where the old one was, and requests no approval again
    asked = list(service.asked)
    site.start("--workers=1")
    version = site.get("Stoker", "line")["metadata"]["resourceVersion"]
    eventually(lambda: site.running[1].tail().count("pass.ended") >= 1, PATIENCE, "it has looked at it")
    assert (targets(site), service.asked) == ({"plant": held}, asked)
    assert site.get("Stoker", "line")["metadata"]["resourceVersion"] == version, "nothing is written"

    site.annotate("Stoker", "line", requested_ref="main", requested_at=now())
    until_targets(site, plant=None)
    pods["plant"].report(second)
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    assert site.condition("Stoker", "line", "Stalled") == ("", "", "")
    assert site.condition("Stoker", "line", "CanaryStageFailed")[:2] == ("False", "NoneFound")


def plan_of(name: str, commit: str, version: int = 1) -> PendingPlanReport:
    digest = f"{version:02x}" * 31 + f"{len(name):02x}"
    return PendingPlanReport(digest, "PlanPending", commit, files_modified=2, files_deleted=1)


def planned(pod: StubGatewayPod, commit: CommitId, at: CommitId, version: int = 1) -> str:
    """A gateway has planned a commit and written nothing; the digest."""
    plan = plan_of(pod.gateway, commit, version)
    pod.report(commit, SyncState.PENDING, reason="PlanPending", synced_commit=at, pending_plan=plan)
    return plan.digest


def approval(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = site.status("Stoker", "line").get("approval", {})
    return found


def until_approval(site: Site, **wanted: object) -> dict[str, Any]:
    eventually(
        lambda: wanted.items() <= approval(site).items(),
        PATIENCE,
        lambda: f"an approval with {wanted}; there is {approval(site)}\n{site.tail()}",
        interval=0.05,
    )
    return approval(site)


def stoker(site: Site, verb: str, *flags: str) -> CommandResult:
    """A command about the resource, as a person gives it."""
    place = (f"--kubeconfig={site.cluster.kubeconfig()}", f"--namespace={site.namespace}", "line")
    argv = [sys.executable, "-m", "stoker", verb, *place, *flags]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return CommandResult(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.smoke
def test_a_commit_is_planned_approved_and_applied(
    site: Site, repository: Repository, git_http: GitHttpServer, service: StubHttpService
) -> None:
    first = repository.tip()
    asks = {"required": True, "webhook": {"url": f"{service.url}/approve?key=hidden"}}
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    site.apply("Stoker", "line", git=source, polling=FAST, approval=asks)
    site.start()
    pods = gateways(site, ("lab", "plant"), first)
    assert approval(site) == {}, "first syncs wait for no approval"

    second = repository.commit({"README.md": "two"})
    planning = GatewayTarget(second, SyncMode.PLAN)
    site.until_metadata("line", commit=second, targets={"lab": planning, "plant": planning})
    until_approval(site, state="Planning")
    digests = {"lab": planned(pods["lab"], second, first)}
    digests["plant"] = planned(pods["plant"], second, first)
    waiting = until_approval(site, state="Pending", digest=plans_digest(digests), filesDeleted=2)
    message = site.until("Stoker", "line", "PendingApproval", "PendingApproval")
    assert waiting["digest"] in message
    assert site.condition("Stoker", "line", "Ready")[:2] == ("False", "PendingApproval")
    assert site.condition("Stoker", "line", "Reconciling")[0] == "True"
    eventually(lambda: service.sent, PATIENCE, "the service is called")
    eventually(lambda: "announcedAt" in approval(site), PATIENCE, "the notification is recorded")
    assert [one["digest"] for one in service.sent] == [waiting["digest"]]
    assert service.sent[0]["commit"] == second
    site.until_event("PendingApproval", "127.0.0.1 was notified")

    site.annotate(
        "Stoker", "line", approved_by="lead", approved_at=now(), approved_plan="f" * 64, approved_ref="main"
    )
    site.until_event("ApprovalIgnored", "another plan")
    assert targets(site) == {"lab": planning, "plant": planning}
    shown = stoker(site, "plan", "--output=json")
    assert shown.code == 0, shown.err
    assert shown.document["approval"]["digest"] == waiting["digest"]
    assert {one["name"]: one["plan"]["digest"] for one in shown.document["gateways"]} == digests
    assert stoker(site, "plan", "--exit-code").code == 10
    assert f"stoker approve line --namespace {site.namespace}" in stoker(site, "plan").out
    wrong = stoker(site, "approve", "--digest=" + "e" * 64)
    assert (wrong.code, "waits with plan" in wrong.err) == (3, True)
    done = stoker(site, "approve", "--digest=" + waiting["digest"], "--output=json")
    assert done.code == 0, done.err
    assert done.document["message"].startswith("admin approved plan")
    until_targets(
        site,
        **{name: GatewayTarget(second, SyncMode.APPLY, digest) for name, digest in digests.items()},
    )
    until_approval(site, state="Approved", approvedBy="admin")
    site.until("Stoker", "line", "PendingApproval", "Approved")
    site.until_event("Approved", "was approved by admin")
    assert "the approval is Approved" in stoker(site, "approve").err

    pods["lab"].report(second)
    changed = planned(pods["plant"], second, first, version=2)
    again = until_approval(site, state="Pending", digest=plans_digest({"plant": changed}))
    until_targets(site, lab=GatewayTarget(second), plant=planning)
    site.until_event("ApprovalIgnored", "is not the one that admin approved")
    eventually(lambda: len(service.sent) == 2, PATIENCE, "a new request is announced again")
    site.annotate("Stoker", "line", approved_plan=again["digest"], approved_at=now())
    until_targets(site, plant=GatewayTarget(second, SyncMode.APPLY, changed))
    pods["plant"].report(second)
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    assert targets(site) == {"lab": GatewayTarget(second), "plant": GatewayTarget(second)}
    assert "hidden" not in json.dumps(site.get("Stoker", "line")["status"])


def test_an_approval_that_is_not_given_in_time_expires(
    site: Site, repository: Repository, git_http: GitHttpServer
) -> None:
    first = repository.tip()
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    site.apply("Stoker", "line", git=source, polling=FAST, approval={"required": True, "timeout": "2s"})
    site.start()
    pods = gateways(site, ("lab",), first)
    second = repository.commit({"README.md": "two"})
    site.until_metadata("line", commit=second)
    planned(pods["lab"], second, first)
    site.until("Stoker", "line", "Stalled", "ApprovalExpired")
    until_approval(site, state="Expired")
    site.annotate("Stoker", "line", approved_by="lead", approved_at=now())
    site.until_event("ApprovalIgnored", "has expired")
    assert targets(site) == {"lab": GatewayTarget(second, SyncMode.PLAN)}
    site.annotate("Stoker", "line", nudged_at=now())
    until_approval(site, state="Pending")
    site.annotate("Stoker", "line", approved_at=now())
    digest = plan_of("lab", second).digest
    until_targets(site, lab=GatewayTarget(second, SyncMode.APPLY, digest))


@pytest.mark.smoke
def test_limits_make_a_queue_that_can_be_seen(
    site: Site, repository: Repository, git_http: GitHttpServer
) -> None:
    first = repository.tip()
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    (port,) = free_ports(1)
    site.apply("Stoker", "line", git=source, polling=FAST, rateLimit={"maxConcurrentSyncs": 1})
    site.start(f"--metrics-bind-address=127.0.0.1:{port}")
    pods = gateways(site, ("a", "b", "c"), first)
    second = repository.commit({"README.md": "two"})
    held = GatewayTarget(first)
    site.until_metadata("line", commit=second, targets={"b": held, "c": held})
    progress = site.status("Stoker", "line")["release"]
    eventually(lambda: site.status("Stoker", "line")["release"].get("queued") == 2, PATIENCE, "a queue")
    progress = site.status("Stoker", "line")["release"]
    assert (progress["queue"], progress["syncing"]) == (["b", "c"], 1)
    assert site.condition("Stoker", "line", "AllGatewaysSynced")[2].count("waits for its turn") == 2
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    assert f'ignition_sync_queue_depth{{namespace="{site.namespace}",cr="line"}} 2.0' in text.replace(
        f'cr="line",namespace="{site.namespace}"', f'namespace="{site.namespace}",cr="line"'
    )
    for name, rest in (("a", {"c": held}), ("b", {})):
        pods[name].report(second)
        site.until_metadata("line", targets=rest)
    pods["c"].report(second)
    site.until("Stoker", "line", "Ready", "GatewaysSynced")


@pytest.mark.smoke
def test_weights_and_dependencies_are_kept_and_a_circle_is_spelt_out(
    site: Site, repository: Repository, git_http: GitHttpServer
) -> None:
    first = repository.tip()
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    order: list[dict[str, Any]] = [
        {"name": "plant", "weight": 100},
        {"name": "filler", "dependsOn": ["packer"]},
    ]
    site.apply("Stoker", "line", git=source, polling=FAST, deployment={"syncOrder": order})
    site.start()
    pods = gateways(site, ("plant", "filler", "packer"), first)
    second = repository.commit({"README.md": "two"})
    held = GatewayTarget(first)
    site.until_metadata("line", commit=second, targets={"filler": held, "packer": held})
    assert "packer waits for plant of weight 100" in site.until(
        "Stoker", "line", "DependenciesMet", "DependencyWaiting"
    )
    pods["plant"].report(second)
    site.until_metadata("line", targets={"filler": held})
    pods["packer"].report(second)
    site.until_metadata("line", targets={})
    pods["filler"].report(second)
    site.until("Stoker", "line", "Ready", "GatewaysSynced")

    order[0]["dependsOn"] = ["filler"]
    site.apply("Stoker", "line", git=source, polling=FAST, deployment={"syncOrder": order})
    message = site.until("Stoker", "line", "Stalled", "DependencyCycle")
    assert "plant waits for filler waits for packer waits for weight 100 waits for plant" in message
