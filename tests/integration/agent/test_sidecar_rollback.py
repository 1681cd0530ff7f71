"""An agent that goes back: because its gateway fails, because a resource asks for it, and back again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.rollback.state import QuarantineRecord, RollbackRecords
from stoker.domain.protocol import RollbackRequest, SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.environments.agent_environment import FILES_ONLY, MANAGED, AgentEnvironment, project
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.services.s3 import S3
from stoker_testkit.wait_until import eventually

AUTOMATIC = {
    "autoRollback": {"enabled": True, "triggers": ["scanFailure", "projectLoadError", "configError"]}
}
BROKEN = {"projects/packer/project.json": "[]"}
Prepare = Callable[[AgentPod], None]


def tree(data: Path) -> dict[str, tuple[int, str]]:
    """What was delivered: modes of files and folders, and contents by digest."""
    return {
        str(path.relative_to(data)): (
            path.lstat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for place in MANAGED
        for path in (data / place).rglob("*")
    }


def at_first(plant: AgentEnvironment, **blocks: Any) -> tuple[AgentPod, str]:
    """A gateway that runs and has its first commit."""
    pod = plant.pod()
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec(**blocks))
    plant.join_gateway(pod)
    plant.until_converged(pod, first)
    return pod, str(first)


def test_a_commit_that_the_gateway_cannot_load_is_rolled_back_reported_and_kept_out(
    plant: AgentEnvironment,
) -> None:
    pod, first = at_first(plant, deployment=AUTOMATIC)
    before = tree(pod.data_dir)
    bad = plant.commit({**project("filler", 2), **BROKEN})
    plant.publish(bad)
    report = plant.maps.until_report(
        patience=90, pod=pod, sync_status=SyncState.ERROR, reason=Reason.AUTO_ROLLBACK, verified=True
    )
    assert tree(pod.data_dir) == before
    assert (report.synced_commit, report.commit) == (first, bad)
    assert report.quarantine is not None
    assert (report.quarantine.commit, report.quarantine.reason) == (bad, Reason.AUTO_ROLLBACK)
    assert "projects/packer" in report.error_message
    assert (report.history[0].commit, report.history[0].result) == (bad, Reason.AUTO_ROLLBACK)
    assert report.last_snapshot is not None
    assert report.history[0].snapshot_id == report.last_snapshot.id
    pod.stop()
    pod.start(plant.kubeconfig)
    report = plant.maps.until_report(pod=pod, sync_status=SyncState.ERROR, quarantine=report.quarantine)
    assert tree(pod.data_dir) == before, "another process keeps it out as well"
    good = plant.commit(project("packer", 1))
    plant.publish(good)
    report = plant.until_converged(pod, good)
    assert report.quarantine is None


def test_a_gateway_is_rolled_back_to_a_snapshot_and_follows_the_ref_when_it_is_released(
    plant: AgentEnvironment,
) -> None:
    pod, first = at_first(plant, snapshots={"enabled": True})
    before = tree(pod.data_dir)
    second = plant.commit({**project("filler", 2), **project("packer", 1)})
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert report.last_snapshot is not None
    taken = report.last_snapshot.id
    assert (report.snapshots_kept, report.history[0].snapshot_id) == (1, taken)
    plant.publish(rollback=RollbackRequest("packer-20200101-000000", to_snapshot="packer-20200101-000000"))
    third = plant.commit(project("filler", 3))
    plant.publish(third)
    report = plant.until_converged(pod, third)
    assert report.rollback is None, "another gateway's snapshot is not its business"
    plant.publish(rollback=RollbackRequest(taken, to_snapshot=taken))
    report = plant.maps.until_report(
        pod=pod,
        sync_status=SyncState.SYNCED,
        reason=Reason.ROLLED_BACK,
        synced_commit=first,
        verified=True,
        rollback=lambda it: it is not None and it.result == "Succeeded",
    )
    assert tree(pod.data_dir) == before
    assert report.history[0].result == Reason.ROLLED_BACK
    fourth = plant.commit(project("filler", 4))
    plant.publish(fourth)
    plant.maps.until_report(pod=pod, commit=fourth, reason=Reason.ROLLED_BACK)
    assert tree(pod.data_dir) == before, "it stays there while it is requested"
    plant.publish(rollback=None)
    plant.until_converged(pod, fourth)


def test_a_rollback_that_waits_for_approval_is_shown_and_carried_out_once_it_is_approved(
    plant: AgentEnvironment,
) -> None:
    pod, first = at_first(plant, snapshots={"enabled": True})
    before = tree(pod.data_dir)
    second = plant.commit({f"projects/filler/{number}.txt": "1" for number in range(60)})
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert report.last_snapshot is not None
    taken = report.last_snapshot.id
    plant.publish(rollback=RollbackRequest(taken, to_snapshot=taken))
    report = plant.maps.until_report(
        pod=pod, reason=Reason.DELETION_BUDGET_EXCEEDED, pending_plan=lambda it: it is not None
    )
    plan = report.pending_plan
    assert plan is not None
    assert (plan.reason, plan.files_deleted) == (Reason.DELETION_BUDGET_EXCEEDED, 60)
    assert report.rollback is not None
    assert report.rollback.result == "Pending"
    pod.annotate({"approved-plan": plan.digest})
    plant.maps.until_report(pod=pod, reason=Reason.ROLLED_BACK, synced_commit=first, pending_plan=None)
    assert tree(pod.data_dir) == before


@pytest.fixture(params=["a claim", "a bucket"])
def elsewhere(
    request: pytest.FixtureRequest, plant: AgentEnvironment, tmp_path: Path
) -> Iterator[tuple[Prepare, dict[str, object], Path]]:
    """What the pod needs, the snapshot storage of the resource, and its folder on this disk."""
    if request.param == "a claim":

        def mounted(pod: AgentPod) -> None:
            (pod.root / "snapshots").symlink_to(claim)

        claim = tmp_path / "claim"
        claim.mkdir()
        yield mounted, {"type": "pvc", "pvc": {"claimName": "copies"}}, claim
        return
    with S3.start(tmp_path / "s3") as store:
        store.create_bucket("copies")
        keys = {name: secret.reveal() for name, secret in store.credentials.items()}
        bucket = {"bucket": "copies", "keyPrefix": "site", "endpoint": store.url, "region": "us-east-1"}
        where: dict[str, object] = {
            "type": "s3",
            "s3": {**bucket, "credentialsSecretRef": {"name": "copies"}},
        }
        yield lambda pod: pod.mount("secrets/copies", keys), where, store.objects / "copies/site"


def test_snapshots_on_a_claim_and_in_a_bucket_restore_a_gateway(
    plant: AgentEnvironment, elsewhere: tuple[Prepare, dict[str, object], Path]
) -> None:
    prepare, storage, place = elsewhere
    pod = plant.pod()
    prepare(pod)
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec(snapshots={"enabled": True, "storage": storage}))
    plant.join_gateway(pod)
    plant.until_converged(pod, first)
    before = tree(pod.data_dir)
    second = plant.commit({**project("filler", 2), **project("packer", 1)})
    plant.publish(second)
    taken = plant.until_converged(pod, second).last_snapshot
    assert taken is not None
    copies = place / plant.namespace / "Stoker" / "plant" / "filler"
    assert [path.name for path in copies.glob("*.manifest")] == [f"{taken.id}.manifest"]
    assert not (pod.data_dir / ".sync-state/snapshots").exists()
    pod.stop()
    pod.start(plant.kubeconfig)
    plant.publish(rollback=RollbackRequest(taken.id, to_snapshot=taken.id))
    plant.maps.until_report(
        patience=60, pod=pod, sync_status=SyncState.SYNCED, reason=Reason.ROLLED_BACK, verified=True
    )
    assert tree(pod.data_dir) == before
    plant.publish(rollback=None)
    plant.until_converged(pod, second)


def test_a_snapshot_that_is_corrupt_is_refused_and_nothing_is_touched(plant: AgentEnvironment) -> None:
    pod, _ = at_first(plant, snapshots={"enabled": True})
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert report.last_snapshot is not None
    before = tree(pod.data_dir)
    (pack,) = (pod.data_dir / ".sync-state/snapshots/filler").glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 0x10
    pack.write_bytes(content)
    plant.publish(rollback=RollbackRequest("r", to_snapshot=report.last_snapshot.id))
    report = plant.maps.until_report(
        pod=pod,
        sync_status=SyncState.ERROR,
        reason=Reason.SNAPSHOT_CORRUPT,
        rollback=lambda it: it is not None and it.result == "Failed",
    )
    assert tree(pod.data_dir) == before
    plant.publish(rollback=None)
    plant.until_converged(pod, second)


def test_a_commit_that_was_rolled_back_is_tried_again_when_it_is_released(plant: AgentEnvironment) -> None:
    pod, _ = at_first(plant, deployment=AUTOMATIC)
    gateway = plant.gateways[pod.name]
    gateway.settings.scan_refusal = "a restore is under way"
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.maps.until_report(
        patience=90, pod=pod, sync_status=SyncState.ERROR, reason=Reason.SCAN_FAILURE_AUTO_ROLLBACK
    )
    assert report.quarantine is not None
    gateway.settings.scan_refusal = ""
    plant.maps.until_report(patience=60, pod=pod, verified=True)
    released = plant.spec(deployment=AUTOMATIC).replace(
        '"generation":1', f'"generation":1,"annotations":{{"stoker.io/release-quarantine":"{second}"}}'
    )
    plant.publish(agent_spec=released)
    report = plant.until_converged(pod, second)
    assert report.quarantine is None


WAY_BACK = {"enabled": True, "watchPaths": ["projects/**"], "debounce": "100ms"}
SAVED = "projects/filler/com.inductiveautomation.perspective/views/v0/view.json"


def test_a_rollback_leaves_what_a_designer_saved(plant: AgentEnvironment) -> None:
    pod, _ = at_first(plant, deployment=AUTOMATIC, bidirectional=WAY_BACK)
    before = tree(pod.data_dir)
    bad = plant.commit({**project("filler", 2), **BROKEN})
    plant.publish(bad)
    eventually(lambda: "version 2" in (pod.data_dir / SAVED).read_text(), 30.0, pod.tail, interval=0.01)
    (pod.data_dir / SAVED).write_text('{"root": "by hand"}')  # before the gateway was found to fail twice
    report = plant.maps.until_report(
        patience=90, pod=pod, sync_status=SyncState.ERROR, reason=Reason.AUTO_ROLLBACK
    )
    assert report.quarantine is not None
    assert report.quarantine.commit == bad
    after, place = tree(pod.data_dir), SAVED.rpartition("/")[0]
    assert (pod.data_dir / SAVED).read_text() == '{"root": "by hand"}'
    different = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {path.rpartition("/")[0] for path in different} == {place}, "all else is as it was"


def test_a_snapshot_waits_for_what_a_designer_saved_unless_that_is_copied(plant: AgentEnvironment) -> None:
    copies: dict[str, Any] = {"snapshots": {"enabled": True}, "bidirectional": WAY_BACK}
    pod, _ = at_first(plant, **copies)
    before, second = tree(pod.data_dir), plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert report.last_snapshot is not None
    taken = report.last_snapshot.id
    (pod.data_dir / SAVED).write_text('{"root": "by hand"}')
    after, signed = tree(pod.data_dir), SAVED.replace("view.json", "resource.json")
    asked = RollbackRequest("r", to_snapshot=taken)
    plant.publish(agent_spec=plant.spec(bidirectional=WAY_BACK), rollback=asked)
    report = plant.maps.until_report(pod=pod, sync_status=SyncState.PENDING, reason=Reason.CHANGE_HELD)
    assert SAVED.rpartition("/")[0] in report.error_message
    assert tree(pod.data_dir) == after
    plant.publish(agent_spec=plant.spec(**copies))
    report = plant.maps.until_report(pod=pod, reason=Reason.ROLLED_BACK, sync_status=SyncState.SYNCED)
    assert tree(pod.data_dir) == before
    assert report.last_snapshot is not None
    plant.publish(rollback=RollbackRequest("r2", to_snapshot=report.last_snapshot.id))
    # What came back by hand has no fitting signature, so the gateway signs it in its next scan.
    del after[signed]
    eventually(lambda: after.items() <= tree(pod.data_dir).items(), 30.0, pod.tail)
    assert tree(pod.data_dir).keys() == {*after, signed}


def test_a_dry_run_rolls_back_to_no_snapshot(plant: AgentEnvironment) -> None:
    pod, _ = at_first(plant, snapshots={"enabled": True})
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert report.last_snapshot is not None
    taken = report.last_snapshot.id
    before = tree(pod.data_dir)
    never = plant.spec(snapshots={"enabled": True}, validation={"dryRunBefore": True})
    plant.publish(agent_spec=never, rollback=RollbackRequest("r", to_snapshot=taken))
    plant.maps.until_report(
        pod=pod,
        sync_status=SyncState.ERROR,
        reason=Reason.DRY_RUN,
        rollback=lambda it: it is not None and it.result == "Failed",
    )
    assert tree(pod.data_dir) == before
    pod.stop()
    begun = QuarantineRecord(str(second), Reason.AUTO_ROLLBACK, "it failed", snapshot=taken, restored=False)
    RollbackRecords(pod.data_dir / ".sync-state").keep(begun)
    third = plant.commit(project("filler", 3))
    plant.publish(third, rollback=None)
    pod.start(plant.kubeconfig)
    plant.maps.until_report(pod=pod, commit=third, reason=Reason.DRY_RUN, sync_status=SyncState.PENDING)
    assert tree(pod.data_dir) == before, "nor does it finish a rollback that was begun"


@pytest.mark.parametrize("enabled", [True, False])
def test_without_a_gateway_copies_are_taken_all_the_same(plant: AgentEnvironment, enabled: bool) -> None:
    pod = plant.pod(talks=False)
    for version in (1, 2):
        commit = plant.commit(project("filler", version))
        plant.publish(
            commit,
            agent_spec=plant.spec(gateway=FILES_ONLY, snapshots={"enabled": enabled}, deployment=AUTOMATIC),
        )
        if version == 1:
            pod.start(plant.kubeconfig)
        report = plant.until_synced(pod, commit)
    assert (report.last_snapshot is not None) == enabled
    assert (pod.data_dir / ".sync-state/snapshots").exists() == enabled
