"""The rollback, killed at every place at which it changes something.

Each cell is a real process. After the kill a reader reads whole files; the next run
finishes what was begun, the folder is bit for bit what it was before the change, the
commit stays out, and one run more changes nothing. `make test` holds a sample.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.agent.rollback.state import QuarantineRecord, RollbackRecords
from stoker.domain import failpoints
from stoker.domain.protocol import RollbackRequest, SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.command_fork_server import CommandResult, Commands
from stoker_testkit.environments.agent_environment import AgentEnvironment, check, files_of, project
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.repositories.bare_repository import Files, Repository, executable
from stoker_testkit.wait_until import eventually

RESOURCES = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line}
spec:
  git: {repo: "URL", ref: main}
  gateway: {filesOnly: true, apiKeySecretRef: {name: none, key: none}}
  snapshots: {enabled: true}
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: line}
spec:
  mappings: [{source: s, destination: projects/P, required: true}]
"""
ONE: Files = {
    "s/v/resource.json": "{}",
    "s/v/view.json": json.dumps("one" * 5000),
    "s/run.sh": executable("same"),
    "s/old/deep/code.py": "one",
    "s/swap": "one",
}
TWO: Files = {
    "s/v/view.json": json.dumps("two" * 5000),
    "s/run.sh": "same",
    "s/old/deep/code.py": None,
    "s/swap": None,
    "s/swap/now": "a folder",
    "s/new/x/resource.json": "{}",
}
REACHED = (
    "rollback.restore.before",
    "rollback.restore.after",
    "rollback.settle.before",
    "rollback.settle.after",
    "carry.before",
    "stage.write.after",
    "journal.append.after",
    "rename.after",
    "unlink.before",
    "mark.rename.before",
)
EVERY = tuple(
    dict.fromkeys(
        (*failpoints.DATA_FAILPOINTS, *failpoints.ROLLBACK_FAILPOINTS, *failpoints.GATEWAY, "carry.after")
    )
)


@dataclass
class SyncedFolder:
    """A folder that was synced twice, and what it was in between."""

    place: Path
    repository: Repository
    commands: Commands

    @property
    def data(self) -> Path:
        return self.place / "data"

    def arguments(self, verb: str, *more: str) -> list[str]:
        files = [f"--filename={self.place / 'line.yaml'}", f"--cache-dir={self.place / 'cache'}"]
        return [verb, *files, f"--data-dir={self.data}", "--output=json", *more]

    def run(self, *arguments: str, kill: str = "") -> CommandResult:
        return self.commands.run(*arguments, failures=[kill] if kill else [])

    def sync(self, kill: str = "") -> CommandResult:
        return self.run(*self.arguments("sync"), kill=kill)

    def tree(self) -> dict[str, tuple[int, str]]:
        return {
            str(path.relative_to(self.data)): (
                path.lstat().st_mode,
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            )
            for path in (self.data / "projects").rglob("*")
        }

    @property
    def snapshots(self) -> list[str]:
        output = self.run(*self.arguments("rollback", "--list")).document
        return [one["id"] for one in output["snapshots"] if not one["trouble"]]

    def copied(self, to: Path) -> SyncedFolder:
        shutil.copytree(self.place, to)
        (to / "line.yaml").write_text(RESOURCES.replace("URL", self.repository.path.as_uri()))
        return SyncedFolder(to, self.repository, self.commands)


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.ready("cli.sync.rollback", "agent.rollback.rollback") as ready:
        yield ready


@pytest.fixture(scope="module")
def synced(
    tmp_path_factory: pytest.TempPathFactory, commands: Commands
) -> tuple[SyncedFolder, dict[str, tuple[int, str]]]:
    """Two commits later, with the folder as it was after the first."""
    place = tmp_path_factory.mktemp("world")
    synced_folder = SyncedFolder(place / "world", Repository.create(place / "repo.git"), commands)
    synced_folder.data.mkdir(parents=True)
    (synced_folder.place / "line.yaml").write_text(
        RESOURCES.replace("URL", synced_folder.repository.path.as_uri())
    )
    synced_folder.repository.commit(ONE)
    assert synced_folder.sync().code == 0
    before = synced_folder.tree()
    synced_folder.repository.commit(TWO)
    assert synced_folder.sync().code == 0
    return synced_folder, before


def check_automatic(synced_folder: SyncedFolder, before: dict[str, tuple[int, str]], kill: str) -> bool:
    """Whether the process was killed there; raises unless the next one ends where it should."""
    bad, notes = synced_folder.repository.tip(), RollbackRecords(synced_folder.data / ".sync-state")
    (taken,) = synced_folder.snapshots
    notes.keep(QuarantineRecord(bad, message="it does not work", snapshot=taken, restored=False))
    killed = synced_folder.sync(kill)
    for _ in range(2):
        again = synced_folder.sync()
        assert again.code == 3, again
        assert again.document["reason"] == "AutoRollback"
        assert synced_folder.tree() == before
    held = notes.quarantine
    assert held is not None
    assert (held.commit, held.restored) == (bad, True)
    assert not (synced_folder.data / ".sync-staging").exists()
    return killed.code == -signal.SIGKILL


def check_asked(synced_folder: SyncedFolder, before: dict[str, tuple[int, str]], kill: str) -> bool:
    """The same for a rollback by hand."""
    (taken,) = synced_folder.snapshots
    back = synced_folder.arguments("rollback", f"--to={taken}")
    killed = synced_folder.run(*back, kill=kill)
    again = synced_folder.run(*back)
    assert again.code == 0, again
    assert synced_folder.tree() == before
    assert synced_folder.sync().code == 3
    assert synced_folder.run(*synced_folder.arguments("rollback", "--release")).code == 0
    assert synced_folder.sync().code == 0
    assert synced_folder.tree() != before
    return killed.code == -signal.SIGKILL


@pytest.mark.parametrize("kill", REACHED)
def test_an_interrupted_rollback_is_finished_and_the_commit_stays_out(
    synced: tuple[SyncedFolder, dict[str, tuple[int, str]]], tmp_path: Path, kill: str
) -> None:
    synced_folder, before = synced
    assert check_automatic(synced_folder.copied(tmp_path / "world"), before, kill), "the kill has to happen"


@pytest.mark.parametrize("kill", ["snapshot.take.after", "rollback.settle.before", "rename.before"])
def test_a_user_who_rolls_back_can_simply_do_so_again(
    synced: tuple[SyncedFolder, dict[str, tuple[int, str]]], tmp_path: Path, kill: str
) -> None:
    synced_folder, before = synced
    assert check_asked(synced_folder.copied(tmp_path / "world"), before, kill), "the kill has to happen"


@pytest.mark.parametrize(
    "kill", ["snapshot.take.before", "snapshot.rename.after", "snapshot.take.after", "carry.after"]
)
def test_a_sync_that_is_killed_around_its_copy_converges_and_the_copies_are_whole(
    synced: tuple[SyncedFolder, dict[str, tuple[int, str]]], tmp_path: Path, kill: str
) -> None:
    synced_folder = synced[0].copied(tmp_path / "world")
    tip = synced_folder.repository.tip()
    try:
        synced_folder.repository.commit({"s/swap/now": "three"})
        assert synced_folder.sync(kill).code == -signal.SIGKILL
        assert synced_folder.sync().code == 0
        assert (synced_folder.data / "projects/P/swap/now").read_text() == "three"
        for taken in synced_folder.snapshots:
            assert synced_folder.run(*synced_folder.arguments("rollback", f"--to={taken}")).code == 0
    finally:
        synced_folder.repository.set_branch("main", tip)


@pytest.mark.parametrize(
    "kills",
    [
        # The files are back and no scan was asked for; one of two was.
        ("carry.after", "scan.after"),
        # And it is not recorded as done.
        pytest.param(("scan.before", "scan.after:2", "rollback.settle.before"), marks=pytest.mark.long),
    ],
    ids=["some", "the others"],
)
def test_a_gateway_reads_what_a_rollback_brought_back_wherever_its_agent_was_killed(
    plant: AgentEnvironment, kills: tuple[str, ...]
) -> None:
    pod = plant.pod()
    commit = plant.commit(project("filler", 1))
    plant.publish(commit, agent_spec=plant.spec(snapshots={"enabled": True}))
    gateway = plant.join_gateway(pod)
    plant.until_converged(pod, commit)
    for version, kill in enumerate(kills, 2):
        before = files_of(plant.repository, commit)
        commit = plant.commit({**project("filler", version), "config/resources/core/x.json": str(version)})
        plant.publish(commit)
        taken = plant.until_converged(pod, commit).history[0].snapshot_id
        pod.stop()
        scans = len(gateway.asked("POST", "/scan/projects"))
        plant.publish(rollback=RollbackRequest(taken, to_snapshot=taken))
        plant.maps.prepare_status()
        die(plant, pod, kill)
        pod.start(plant.kubeconfig)
        plant.maps.until_report(
            patience=90, pod=pod, sync_status=SyncState.SYNCED, reason=Reason.ROLLED_BACK, verified=True
        )
        check(pod, before, gateway)
        assert len(gateway.asked("POST", "/scan/projects")) > scans, "the gateway was asked to scan"
        plant.publish(rollback=None)
        plant.until_converged(pod, commit)


def die(plant: AgentEnvironment, pod: AgentPod, kill: str) -> None:
    """An agent that ends there."""
    command = (sys.executable, "-m", "stoker_testkit.faults.failpoints", kill, "--")
    process = pod.start(plant.kubeconfig, command=command)
    eventually(lambda: not process.running, 60, lambda: f"a kill at {kill}: {pod.tail()}")
    assert process.returncode == -signal.SIGKILL, pod.tail()


@pytest.mark.long
@pytest.mark.parametrize("kill", EVERY)
def test_wherever_the_rollback_is_killed_it_completes(
    synced: tuple[SyncedFolder, dict[str, tuple[int, str]]], tmp_path: Path, kill: str
) -> None:
    synced_folder, before = synced
    check_automatic(synced_folder.copied(tmp_path / "automatic"), before, kill)
    check_asked(synced_folder.copied(tmp_path / "asked"), before, kill)
