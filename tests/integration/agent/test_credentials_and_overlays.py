"""Credentials of an agent, overlays of its files, and its log lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from stoker.domain.protocol import SyncState
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_environment import FILES_ONLY, AgentEnvironment, project
from stoker_testkit.environments.agent_pod import AgentPod, ResourceMaps
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.gateway.sessions import PerspectiveBrowser
from stoker_testkit.gateway.settings import GatewaySettings
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

CORE = "config/resources/core"
KEYS = ("filler", "packer")


def test_it_logs_in_as_a_github_app_and_with_the_token_that_a_controller_has_made_of_one(
    plant: AgentEnvironment,
) -> None:
    pod = plant.pod(talks=False)
    first = plant.commit(project("filler", 1))
    with GitHubAppServer.start(plant.repository.path.parent, tokens={"nobody-has-this"}) as github:
        key = github.register(12, 3456).decode()
        app = {
            "appId": 12,
            "installationId": 3456,
            "privateKeySecretRef": {"name": "app", "key": "privateKey"},
        }
        plant.publish(git_url=RepoUrl(github.url("plant.git")))
        plant.publish(first, agent_spec=plant.spec({"auth": {"githubApp": app}}, gateway=FILES_ONLY))
        pod.mount("git-credentials", {"privateKey": key})
        pod.start(plant.kubeconfig)
        plant.until_converged(pod, first)
        assert len(github.given) == 1
        github.revoke_all()  # before its time: another one is asked for
        second = plant.commit(project("filler", 2))
        plant.publish(second)
        plant.until_converged(pod, second)
        assert len(github.given) == 2

        github.revoke_all()
        github.tokens.add(planted("minted-token"))
        pod.mount("git-credentials", {"token": planted("minted-token")})
        third = plant.commit(project("filler", 3))
        plant.publish(third)
        plant.until_converged(pod, third)
        assert len(github.given) == 2, "who has a token needs no key"
        messages = json.dumps([pod.lines(), plant.maps.status()])
        secrets = [*github.given, planted("minted-token"), key.splitlines()[1]]
        assert not [secret for secret in secrets if secret in messages]


def test_a_deployment_mode_overlays_the_core_and_changes_with_the_pod(plant: AgentEnvironment) -> None:
    pod = plant.pod(deployment_mode="prod", talks=False)

    def core(version: int) -> dict[str, str]:
        return {
            f"{CORE}/ignition/a/config.json": json.dumps({"core": version}),
            f"{CORE}/ignition/b/config.json": json.dumps({"core": version}),
            f"{CORE}/config-mode.json": "{}",
            "config/resources/prod/ignition/b/config.json": json.dumps({"prod": version}),
            "config/resources/prod/config-mode.json": '{"parent": "core"}',
            "config/resources/test/ignition/c/config.json": json.dumps({"test": version}),
        }

    def found() -> dict[str, object]:
        return {
            str(path.relative_to(pod.data_dir / CORE)): json.loads(path.read_text())
            for path in (pod.data_dir / CORE).rglob("*.json")
        }

    def is_composed(version: int, **mode: object) -> dict[str, object]:
        own = {"ignition/a/config.json": {"core": version}, "ignition/b/config.json": {"core": version}}
        return {**own, "config-mode.json": {}, **{f"ignition/{k}/config.json": v for k, v in mode.items()}}

    first = plant.commit(core(1))
    plant.publish(first, agent_spec=plant.spec(gateway=FILES_ONLY))
    pod.start(plant.kubeconfig)
    plant.until_synced(pod, first)
    assert found() == is_composed(1, b={"prod": 1})
    second = plant.commit(core(2))
    plant.publish(second)
    plant.until_synced(pod, second)
    assert found() == is_composed(2, b={"prod": 2}), "it is composed anew with each commit"
    pod.annotate({"deployment-mode": "test"})
    eventually(lambda: found() == is_composed(2, c={"test": 2}), 30.0, lambda: f"{found()} {pod.tail()}")
    pod.annotate({"deployment-mode": "none-such"})
    report = plant.maps.until_report(sync_status=SyncState.ERROR, reason=Reason.SOURCE_EMPTY, pod=pod)
    assert "none-such" in report.error_message
    assert found() == is_composed(2, c={"test": 2}), "rather the settings of before than those of no mode"


def test_the_digest_of_the_files_is_that_of_their_paths_and_contents_and_of_nothing_else(
    plant: AgentEnvironment,
) -> None:
    pods = [plant.pod("gateway-0", talks=False), plant.pod("gateway-1", "packer", talks=False)]
    first = plant.commit(project("filler", 1))
    plant.publish(first)
    for pod in pods:
        pod.start(plant.kubeconfig)
    one, other = (
        plant.until_converged(pod, first, key).checksums for pod, key in zip(pods, KEYS, strict=True)
    )
    assert one is not None
    assert one.files == len(project("filler", 1))
    assert one == other, "two gateways with the same files have the same digest"
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    changed = plant.until_converged(pods[0], second).checksums
    assert changed is not None
    assert (changed.files, changed.digest == one.digest) == (one.files, False)
    plant.publish(first)
    assert plant.until_converged(pods[0], first).checksums == one, "and again what it was, going back"


def test_sessions_of_a_changing_project_are_counted_and_named_in_the_log(
    plant: AgentEnvironment,
) -> None:
    pod = plant.pod()
    first = plant.commit(project("filler", 1) | project("packer", 1))
    plant.publish(first, agent_spec=plant.spec(ignition={"perspectiveSessionPolicy": "close"}))
    gateway = plant.join_gateway(pod)
    plant.until_converged(pod, first)
    assert not pod.logged("perspective.active")
    for number, name in enumerate(("filler", "filler", "packer")):
        gateway.open_session(PerspectiveBrowser(f"p{number}", "ben", name))
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    plant.until_converged(pod, second)
    (active,), (closed,) = pod.logged("perspective.active"), pod.logged("perspective.closed")
    assert active["sessions"] == 2
    assert active["longest_seconds"] >= 0
    assert (closed["sessions"], closed["projects"], closed["module"]) == (2, ["filler"], "Perspective")
    assert gateway.sessions == ["p2"], "who looks at something else is left alone"
    assert active["pass_id"] == pod.logged("sync.done")[-1]["pass_id"]


def test_the_key_goes_in_the_header_that_the_resource_names(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(project("filler", 1))
    access = {"port": 8088, "tls": False, "apiKeySecretRef": {"name": "gw", "key": "key"}}
    plant.publish(first, agent_spec=plant.spec(gateway=access))
    plant.join_gateway(pod, settings=GatewaySettings(key_header="X-Plant-Token"))
    plant.maps.until_report(reason=Reason.TOKEN_REJECTED, pod=pod)
    plant.publish(agent_spec=plant.spec(gateway={**access, "apiKeyHeader": "X-Plant-Token"}))
    plant.until_converged(pod, first)


def test_metadata_that_the_controller_signs_is_followed_and_other_metadata_is_not(
    kinds: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path
) -> None:
    repository = Repository.create(git_http.root / "plant.git")
    first = repository.commit({"services/filler/projects/filler/project.json": "{}"})
    fields = {"service-path": "services/filler"}
    pod = AgentPod.create(tmp_path / "pod", namespace, annotations=fields)
    pod.mount("metadata-key", {"key": planted("map-key")})
    maps = ResourceMaps(kinds, namespace)
    with Site.prepare(kinds, namespace, tmp_path) as site, pod:
        site.secret("between-us", key=planted("map-key"))
        site.apply("Stoker", "plant", git={"repo": git_http.url("plant.git"), "ref": "main"})
        controller = site.start("--metadata-key=between-us/key")
        site.until_metadata("plant", commit=first)
        pod.start(kinds.kubeconfig("admin", namespace=namespace))
        maps.until_report(synced_commit=first, sync_status=SyncState.SYNCED, pod=pod)
        controller.stop()
        published = site.metadata("plant")
        assert published is not None
        second = repository.commit({"services/filler/projects/filler/project.json": "[]"})
        maps.publish(replace(published, commit=second))
        report = maps.until_report(reason=Reason.METADATA_NOT_TRUSTED, pod=pod)
        assert (report.synced_commit, pod.file("projects/filler/project.json")) == (first, "{}")
        site.start("--metadata-key=between-us/key")
        maps.until_report(synced_commit=second, sync_status=SyncState.SYNCED, reason="", pod=pod)
