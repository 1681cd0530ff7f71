"""An agent with a gateway in which people work, or that refuses, restarts or has a backup."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stoker.domain.protocol import HeldProjectReport, SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.environments.agent_environment import AgentEnvironment, check, files_of, project
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.gateway.redundant_pair import RedundantPair
from stoker_testkit.gateway.runtime import State
from stoker_testkit.gateway.sessions import Designer
from stoker_testkit.gateway.settings import ApiKey, GatewaySettings
from stoker_testkit.repositories.sample_ignition_repository import resource
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

FILLER, PACKER = "projects/filler/project.json", "projects/packer/project.json"


def both(version: int) -> dict[str, str]:
    return project("filler", version) | project("packer", version)


def test_a_project_open_in_a_designer_waits_is_named_and_follows(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(both(1))
    waiting = plant.spec(ignition={"designerSessionTimeout": "3s"})
    plant.publish(first, agent_spec=waiting)
    gateway = plant.join_gateway(pod)
    plant.until_converged(pod, first)

    gateway.open_designer(Designer("d1", "anna", "filler"))
    second = plant.commit(both(2))
    plant.publish(second)
    report = plant.maps.until_report(reason=Reason.DESIGNER_SESSION_ACTIVE, pod=pod)
    assert (report.sync_status, report.synced_commit) == (SyncState.SYNCING, first)
    assert report.held_projects == (HeldProjectReport("filler", "anna"),)
    assert pod.file(PACKER) == both(2)[PACKER], "no Designer works there"
    assert pod.file(FILLER) == both(1)[FILLER]
    assert pod.ask("/readyz")[0] == 200

    report = plant.maps.until_report(
        sync_status=SyncState.ERROR, reason=Reason.DESIGNER_SESSION_ACTIVE, pod=pod
    )
    assert "anna" in report.error_message
    assert report.held_projects == (HeldProjectReport("filler", "anna"),)
    third = plant.commit(both(3))
    plant.publish(third)
    plant.maps.until_report(diff=lambda it: it is not None and it.to_commit == third, pod=pod)
    assert pod.file(FILLER) == both(1)[FILLER], "never while a Designer works, however late it is"
    check(pod, files_of(plant.repository, first) | packer_of(plant, 3), gateway)

    gateway.close_designer("d1")
    plant.until_converged(pod, third)


def packer_of(plant: AgentEnvironment, version: int) -> dict[str, bytes]:
    return {path: text.encode() for path, text in project("packer", version).items()}


def test_a_scan_that_is_refused_is_asked_for_until_it_is_made(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(both(1))
    plant.publish(first, agent_spec=plant.spec())
    gateway = plant.join_gateway(pod)
    plant.until_converged(pod, first)

    gateway.settings.scan_refusal = "a license is missing"
    second = plant.commit(both(2))
    plant.publish(second)
    report = plant.maps.until_report(sync_status=SyncState.ERROR, applied=False, verified=False, pod=pod)
    assert "a license is missing" in report.error_message
    assert (report.synced_commit, pod.file(FILLER)) == (second, both(2)[FILLER]), "files and gateway are two"
    pod.stop()  # it is not forgotten by the next process either
    gateway.settings.scan_refusal = ""
    pod.start(plant.kubeconfig)
    plant.until_converged(pod, second)

    keys, gateway.settings.keys = gateway.settings.keys, {"other": ApiKey(planted("other-key"))}
    third = plant.commit(both(3))
    plant.publish(third)
    report = plant.maps.until_report(sync_status=SyncState.ERROR, reason=Reason.TOKEN_REJECTED, pod=pod)
    assert (report.synced_commit, pod.file(FILLER)) == (second, both(2)[FILLER]), "nothing was written"
    pod.mount("api-key", {"key": f"other:{planted('other-key')}"})
    report = plant.until_converged(pod, third)
    assert report.scan_result == "projects=200 config=200"
    assert keys.keys() != gateway.settings.keys.keys()


def test_a_gateway_that_restarts_gets_its_files_and_its_scan(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(both(1))
    plant.publish(first, agent_spec=plant.spec())
    gateway = plant.join_gateway(pod)
    plant.until_converged(pod, first)

    pod.stop()
    plant.maps.prepare_status()
    pod.start(plant.kubeconfig)  # the agent's container alone: all that was shown is still shown
    plant.until_converged(pod, first)
    gateway.restart()  # while nothing happens: no process has to notice
    second = plant.commit(both(2))
    plant.publish(second)
    plant.until_converged(pod, second)

    gateway.go_down()
    third = plant.commit(both(3))
    plant.publish(third)
    report = plant.maps.until_report(sync_status=SyncState.SYNCING, commit=third, pod=pod)
    assert report.synced_commit == second, (
        "one that ran a moment ago may have Designers: it is asked for a while"
    )
    pod.stop()
    assert pod.logged("watch.stopped")

    pod.start(plant.kubeconfig)  # this one has not seen it run, so it does not wait
    report = plant.maps.until_report(reason=Reason.GATEWAY_UNREACHABLE, commit=third, pod=pod)
    assert (report.sync_status, report.synced_commit) == (SyncState.ERROR, second)
    assert "nothing was written" in report.error_message
    gateway.come_up()
    gateway.state = State.STARTING
    plant.maps.until_report(reason=Reason.GATEWAY_STARTING, sync_status=SyncState.PENDING, pod=pod)
    gateway.state = State.RUNNING
    report = plant.until_converged(pod, third)
    assert report.scan_result == "projects=200 config=200"


def test_a_backup_waits_for_its_primary_leaves_replication_alone_and_takes_over(
    plant: AgentEnvironment,
) -> None:
    master = plant.pod("gateway-0", "filler", redundancy_role="primary", peer_gateway_name="filler-b")
    backup = plant.pod(
        "gateway-1", "filler-b", redundancy_role="backup", peer_gateway_name="filler", sync_period="300"
    )  # a primary that takes long to start on a busy machine is not counted as failed
    first = plant.commit(both(1))
    plant.publish(first, agent_spec=plant.spec())
    pair = RedundantPair.start(master.data_dir, backup.data_dir, scan_seconds=0.0)
    with pair:
        for pod, gateway in ((master, pair.master), (backup, pair.backup)):
            pod.annotate({"gateway-port": gateway.url.rpartition(":")[2]})
            plant.mark_started(pod)
        backup.start(plant.kubeconfig)
        report = plant.maps.until_report("filler-b", reason=Reason.WAITING_FOR_PRIMARY, pod=backup)
        assert report.sync_status is SyncState.PENDING
        assert backup.file(FILLER) is None
        master.start(plant.kubeconfig)
        plant.until_synced(master, first)
        report = plant.maps.until_report("filler-b", synced_commit=first, pod=backup)
        check(backup, files_of(plant.repository, first), None)
        assert (report.sync_status, report.files_changed) == (SyncState.SYNCED, 0), "replication brought them"
        assert not pair.backup.asked("POST", "/scan/projects"), "a backup refuses edits, and needs none"

        backup.annotate({"sync-period": "6"})
        pair.fail_over()
        master.kill()
        plant.maps.age(12 * 60.0)
        second = plant.commit(both(2))
        plant.publish(second)
        report = plant.until_synced(backup, second, "filler-b")
        assert any("did not answer" in warning for warning in report.warnings), report.warnings
        check(backup, files_of(plant.repository, second), pair.backup)
        assert pair.backup.asked("POST", "/scan/projects")

        pair.bring_back()
        master.start(plant.kubeconfig)
        plant.until_synced(master, second)
        eventually(
            lambda: "did not answer" not in str(plant.maps.report("filler-b")), 30.0, "it is a backup again"
        )
        third = plant.commit(both(3))
        plant.publish(third)
        plant.until_synced(master, third)
        plant.maps.until_report("filler-b", synced_commit=third, pod=backup)
        for pod, gateway in ((master, pair.master), (backup, pair.backup)):
            check(pod, files_of(plant.repository, third), gateway)


CORE = "config/resources/core/ignition"
ENGINE = "MQTT Engine"


def types(provider: str, *names: str) -> dict[str, str]:
    """A tag provider and its types."""
    listed = json.dumps([{"name": name, "tagType": "UdtType"} for name in names])
    kinds = {
        f"tag-type-definition/{provider}": {"udts.json": listed},
        f"tag-provider/{provider}": {"config.json": "{}"},
    }
    return {
        f"{CORE}/{folder}/{name}": text
        for folder, files in kinds.items()
        for name, text in resource(files).items()
    }


def test_what_a_module_fills_or_a_parent_has_is_left_to_them(plant: AgentEnvironment) -> None:
    pod = plant.pod(tag_inheritance_strategy="leaf-only")
    modules = ("com.inductiveautomation.perspective", "com.cirruslink.mqtt.engine.gateway")
    put(
        pod, types("parent", "Motor") | {f"{CORE}/tag-type-definition/{ENGINE}/udts.json": "the module's own"}
    )
    first = plant.commit(types("parent", "Motor") | types("default", "Motor", "Pump") | types(ENGINE, "Edge"))
    plant.publish(first, agent_spec=plant.spec())
    settings = GatewaySettings(modules=modules, managed_providers=(ENGINE,))
    gateway = plant.join_gateway(pod, settings=settings)
    report = plant.until_synced(pod, first)
    assert any(ENGINE in warning for warning in report.warnings), report.warnings
    assert pod.file(f"{CORE}/tag-type-definition/{ENGINE}/udts.json") == "the module's own"
    eventually(
        lambda: names(pod, "default") == ["Pump"], 30.0, lambda: f"{names(pod, 'default')} {pod.tail()}"
    )
    assert names(pod, "parent") == ["Motor"]
    second = plant.commit(types("default", "Motor", "Pump", "Valve"))
    plant.publish(second)
    plant.until_synced(pod, second)
    assert names(pod, "default") == ["Pump", "Valve"]
    assert not gateway.stale()


def names(pod: AgentPod, provider: str) -> list[str]:
    """The types that lie there for a provider."""
    return [
        one["name"]
        for one in json.loads(pod.file(f"{CORE}/tag-type-definition/{provider}/udts.json") or "[]")
    ]


def put(pod: AgentPod, files: Mapping[str, str]) -> None:
    """The files before the first sync."""
    for path, text in files.items():
        (pod.data_dir / path).parent.mkdir(parents=True, exist_ok=True)
        (pod.data_dir / path).write_text(text)
