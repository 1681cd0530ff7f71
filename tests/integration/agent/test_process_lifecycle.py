"""An agent's process from outside: how it ends, who it may be, and what an init container waits for."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from stoker.agent.sidecar.startup import MARKER
from stoker.domain.protocol import SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.environments.agent_environment import (
    FILES_ONLY,
    AgentEnvironment,
    check,
    files_of,
    project,
)
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.environments.read_only_root_filesystem import WRITABLE, SealedRoot
from stoker_testkit.wait_until import eventually

FILLER = "projects/filler/project.json"


class HeldUp:
    """A script of the user's that keeps a pass in its middle: everything is staged, nothing is live."""

    def __init__(self, pod: AgentPod) -> None:
        self.begun, self._go_on = pod.root / "tmp/begun", pod.root / "tmp/go-on"
        script = pod.root / "opt/stoker/hooks/pre-sync.sh"
        script.parent.mkdir(parents=True)
        script.write_text(
            f'#!/bin/sh\necho x >> "{self.begun}"\nwhile [ ! -e "{self._go_on}" ]; do sleep 0.05; done\n'
        )
        script.chmod(0o755)

    def let_go(self) -> None:
        self._go_on.touch()


def test_stopped_in_the_middle_of_a_sync_it_finishes_that_one_and_begins_no_other(
    plant: AgentEnvironment,
) -> None:
    pod = plant.pod(talks=False)
    first = plant.commit(project("filler", 1))
    plant.publish(first)
    process = pod.start(plant.kubeconfig)
    plant.until_converged(pod, first)
    held_up = HeldUp(pod)
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    eventually(held_up.begun.exists, 30.0, pod.tail)
    third = plant.commit(project("filler", 3))
    plant.publish(third)
    os.kill(process.pid, signal.SIGTERM)
    assert not process.wait(2.0), "it does not go in the middle of a sync"
    assert pod.file(FILLER) == project("filler", 1)[FILLER]
    assert pod.ask("/healthz")[0] == 200, "its probes answer until the end"
    held_up.let_go()
    assert process.wait(30.0), pod.tail()
    assert process.returncode == 0
    check(pod, files_of(plant.repository, second), None)
    report = plant.maps.report()
    assert report is not None
    assert (report.sync_status, report.synced_commit) == (SyncState.SYNCED, second), "its last word"
    assert held_up.begun.read_text() == "x\n", "no other sync was begun"
    assert [line["event"] for line in pod.lines()][-1] == "watch.stopped"

    pod.start(plant.kubeconfig)
    plant.until_converged(pod, third)


@pytest.mark.long  # only root can seal a root; `make test` is for everybody
def test_it_works_in_a_read_only_root_as_an_unprivileged_user(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    sealed = SealedRoot(pod)
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec())
    process = sealed.start(plant.kubeconfig)
    eventually(lambda: pod.ask("/startupz")[0] == 200, 30.0, pod.tail)
    status = Path(f"/proc/{process.pid}/status").read_text()
    fields = {line.partition(":")[0]: line.partition(":")[2].split() for line in status.splitlines()}
    assert (fields["Uid"], fields["CapEff"]) == ([str(sealed.user)] * 4, ["0" * 16])
    mounts = Path(f"/proc/{process.pid}/mounts").read_text().splitlines()
    rights = {line.split()[1]: line.split()[3].split(",")[0] for line in mounts}
    assert rights["/"] == "ro"
    assert {rights[f"/{name}"] for name in WRITABLE} == {"rw"}
    gateway = plant.start_gateway(pod)
    plant.until_converged(pod, first)
    second = plant.commit(project("filler", 2) | project("packer", 2))
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert (report.scan_result, set(gateway.projects)) == ("projects=200 config=200", {"filler", "packer"})
    owner = (pod.data_dir / FILLER).stat()
    assert (owner.st_uid, stat.S_IMODE(owner.st_mode) & 0o022) == (sealed.user, 0)
    pod.stop()
    assert process.returncode == 0
    assert not [line for line in pod.lines() if line.get("level") == "error"], pod.tail()


def test_an_init_container_that_is_out_of_time_lets_the_gateway_start_with_what_it_has(
    plant: AgentEnvironment,
) -> None:
    pod = plant.pod(talks=False)
    budget = plant.spec(gateway=FILES_ONLY, agent={"startupBudget": "3s"})
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=budget)
    assert pod.start(plant.kubeconfig, "--initial-sync").wait(30.0), pod.tail()
    (pod.root / "tmp" / MARKER).unlink()  # a new pod over the same data volume
    plant.publish(paused=True)
    process = pod.start(plant.kubeconfig, "--initial-sync")
    assert process.wait(30.0), f"its budget is over: {pod.tail()}"
    assert process.returncode == 0
    assert "startup timeout reached" in pod.logged("startup.over")[0]["how"]
    assert pod.file(FILLER) == project("filler", 1)[FILLER]
    assert (pod.root / "tmp" / MARKER).exists(), "the sidecar beside the gateway scans from now on"

    fresh = plant.pod("gateway-1", "labeller", talks=False)
    process = fresh.start(plant.kubeconfig, "--initial-sync")
    plant.maps.until_report("labeller", reason=Reason.PAUSED, pod=fresh)
    assert not process.wait(5.0), "without any files the gateway waits for as long as it takes"
