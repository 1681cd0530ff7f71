"""The agent killed at every place at which it changes something, and at any moment besides.

One gateway lives through all of it: a new commit is published, the agent dies on its way
there, another one is started as the kubelet would, and it has to arrive: the files are
the commit's, the report says so, the gateway was asked to scan, and at no random
moment has it read anything half. `make test` holds some of it, `make test-crash` all.
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
import time

import pytest

from stoker.agent.sidecar.startup import MARKER
from stoker.domain import failpoints
from stoker.domain.protocol import SyncState
from stoker.domain.refs import CommitId
from stoker.ignition.sync.first_boot import STATE_FILE as FIRST_BOOT
from stoker_testkit.environments.agent_environment import AgentEnvironment, check, files_of, project
from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.repositories.bare_repository import FileEntry, executable
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
LOCK_PATIENCE = 240.0
"""A lock that no process holds any more has to expire, and is requested with backoff."""
LOOKS_PER_SECOND = 20.0
RECORDS = ("audit.jsonl", "diffs")
"""Files that are kept for people to read; no process acts on them."""


def tree(version: int) -> dict[str, str | FileEntry]:
    """Of each version some is changed, new or gone, a file has become a folder, and a folder a file."""
    files: dict[str, str | FileEntry] = {
        **project("filler", version, views=4),
        **project(f"line {version % 3}", version),
    }
    files["projects/filler/same.txt"] = executable("x") if version % 2 else "x"
    one, other = ("a", "b/x") if version % 2 else ("b", "a/x")
    return {**files, f"projects/filler/{one}": str(version), f"projects/filler/{other}": str(version)}


class Sufferer:
    """A pod whose agents die, and the commits that it is brought to."""

    def __init__(self, plant: AgentEnvironment, name: str = "gateway-0") -> None:
        self.plant = plant
        self.pod = plant.pod(name)
        self.versions: list[dict[str, bytes]] = []
        self.commit = CommitId("0" * 40)
        self.gateway: SimulatedGateway | None = None
        self._scans: dict[str, int] = {}

    def settle(self) -> None:
        """Be at a first commit beside a gateway that runs and looks at its files all the time."""
        self.publish()
        self.gateway = self.plant.join_gateway(self.pod)
        self.gateway.scan_at_random(LOOKS_PER_SECOND, seed=1)
        eventually(self._arrived, PATIENCE, self._story)
        self.pod.stop()

    def publish(self) -> None:
        """A new commit is what is wanted."""
        self.commit = self.plant.commit(tree(len(self.versions)), replace=True)
        self.versions.append(files_of(self.plant.repository, self.commit))
        self._scans = self._accepted()
        self.plant.maps.prepare_status()  # an earlier report is no answer now
        self.plant.publish(self.commit, agent_spec=self.plant.spec())

    def dies(self, failure: str) -> bool:
        """An agent that ends there, or False if it has arrived without coming there."""
        command = (sys.executable, "-m", "stoker_testkit.faults.failpoints", failure, "--")
        process = self.pod.start(self.plant.kubeconfig, command=command)
        eventually(lambda: not process.running or self._arrived(), PATIENCE, self._story, interval=0.05)
        died = not process.running
        assert not died or process.returncode == -signal.SIGKILL, self.pod.tail()
        self.pod.kill()
        return died

    def expect_recovery(self) -> None:
        """The next agent arrives, and leaves nothing undone."""
        self.pod.start(self.plant.kubeconfig)
        eventually(self._arrived, LOCK_PATIENCE, self._story, interval=0.05)
        check(self.pod, self.versions[-1], self.gateway)
        if self.gateway is not None:
            made = self._accepted()
            assert all(made[kind] > self._scans[kind] for kind in made), f"no scan was made: {self._story()}"
            seen = self.gateway.scanned
            assert (seen.torn(), seen.out_of_order(self.versions)) == ([], [])
            assert seen.unknown(self.versions) == []
            notes = {path.name for path in (self.pod.data_dir / ".sync-state").iterdir()}
            assert notes <= {"manifest", "journal", "lock", "writer", "told", *RECORDS}, (
                "nothing is pending any more"
            )
        self.pod.stop()
        assert not [line for line in self.pod.lines() if line.get("level") == "error"], self.pod.tail()

    def _accepted(self) -> dict[str, int]:
        """How many scans of each kind the gateway has accepted."""
        if self.gateway is None:
            return {}
        posts = {kind: self.gateway.asked("POST", f"/scan/{kind}") for kind in ("projects", "config")}
        return {kind: sum(one.status == 200 for one in those) for kind, those in posts.items()}

    def _arrived(self) -> bool:
        report = self.plant.maps.report()
        if report is None or report.synced_commit != self.commit:
            return False
        return self.gateway is None or (report.sync_status is SyncState.SYNCED and report.verified is True)

    def _story(self) -> str:
        return f"{self.commit} is reported; it is {self.plant.maps.report()}\n{self.pod.tail()}"


def turns(sufferer: Sufferer, name: str, most: int) -> int:
    """How often an agent was killed there, each time one turn later, and survived by the next."""
    for turn in range(1, most + 1):
        sufferer.publish()
        if not sufferer.dies(f"{name}:{turn}"):
            return turn - 1
        sufferer.expect_recovery()
    return most


# Between lock and files, amid the files, between files and scan, between the scan and the note of it.
SOME = ("mark.rename.after", "rename.after:4", "carry.after", "scan.after:2")


def test_after_a_kill_the_next_agent_arrives_and_forgets_no_scan(plant: AgentEnvironment) -> None:
    sufferer = Sufferer(plant)
    sufferer.settle()
    for failure in SOME:
        sufferer.publish()
        assert sufferer.dies(failure), f"{failure} is never reached"
        sufferer.expect_recovery()


def test_a_first_sync_that_is_killed_holds_the_gateway_until_another_is_done(plant: AgentEnvironment) -> None:
    sufferer = Sufferer(plant)
    sufferer.publish()
    assert sufferer.dies("folder.rename.after")
    sufferer.pod.start(plant.kubeconfig)
    eventually(lambda: sufferer.pod.ask("/startupz")[0] == 200, PATIENCE, sufferer.pod.tail)
    plant.start_gateway(sufferer.pod)
    plant.until_converged(sufferer.pod, sufferer.commit)
    note = sufferer.pod.data_dir / ".sync-state" / FIRST_BOOT
    eventually(lambda: not note.exists(), PATIENCE, "the second sync, which meets what the first boot made")


# A mirror is damaged, or a ledger is another life's: `test_sync_crashes` has those.
ELSEWHERE = ("mirror.swap.", "journal.unlink.")
FIRST_ONLY = ("mirror.make.", "state.mkdir.", "base.", "startup.mark.")
NAMES = [name for name in (*failpoints.ALL_FAILPOINTS, *failpoints.GATEWAY) if not name.startswith(ELSEWHERE)]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(FIRST_ONLY)])
def test_it_does_so_wherever_it_is_killed(plant: AgentEnvironment, name: str) -> None:
    sufferer = Sufferer(plant)
    sufferer.settle()
    assert turns(sufferer, name, most=4)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_first_sync_does_so_too(plant: AgentEnvironment, name: str) -> None:
    for turn in itertools.count(1):
        sufferer = Sufferer(plant, f"gateway-{turn}")
        sufferer.publish()
        if turn > 3 or not sufferer.dies(f"{name}:{turn}"):
            break
        sufferer.expect_recovery()
        assert (sufferer.pod.root / "tmp" / MARKER).exists()
        assert (sufferer.pod.data_dir / ".sync-state" / FIRST_BOOT).exists(), "a second sync is still to come"
    assert turn > 1 or not name.startswith(FIRST_ONLY)


@pytest.mark.long
def test_kills_at_any_moment_tear_nothing_and_the_last_agent_arrives(plant: AgentEnvironment) -> None:
    sufferer = Sufferer(plant)
    sufferer.settle()
    chance = random.Random(1)  # noqa: S311 - nothing is protected by it
    for kill in range(60):
        sufferer.publish()
        sufferer.pod.start(plant.kubeconfig)
        sufferer.pod.ask("/healthz")  # it listens just before it begins
        time.sleep(chance.uniform(0.0, 0.8))
        sufferer.pod.kill()
        if kill % 12 == 11:
            sufferer.publish()
            sufferer.expect_recovery()
