"""Every way to stop a gateway: by its resource, by its profile, everywhere; controller and agent are real."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.domain.protocol import GatewayReport, SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_pod import AgentPod, ResourceMaps
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

PROJECT = "projects/filler/project.json"
GLOBAL = "ignition-sync-global-pause"
SELDOM = "86400"
"""Seconds: whatever reaches the agent meanwhile came by its watch, and not by polling."""


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    made = Site.prepare(kinds, namespace, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def pod(namespace: str, tmp_path: Path) -> Iterator[AgentPod]:
    fields = {"sync-profile": "filler", "sync-period": SELDOM}
    made = AgentPod.create(tmp_path / "pod", namespace, resource="line", annotations=fields)
    yield made
    made.stop()


def test_each_pause_reaches_the_agent_by_itself_and_holds_what_comes_after_it(
    site: Site,
    pod: AgentPod,
    repositories: Path,
    git_http: GitHttpServer,
    record_property: Callable[[str, object], None],
) -> None:
    plant = Repository.create(repositories / "plant.git")
    tip = plant.commit({PROJECT: "0"})
    mapping = {"source": "projects", "destination": "projects"}
    site.apply("SyncProfile", "filler", mappings=[mapping])
    git = {"repo": git_http.url("plant.git"), "ref": "main"}
    site.apply("Stoker", "line", git=git, gateway={"filesOnly": True}, polling={"interval": "1s"})
    site.start()
    site.pod(pod.name, "line", gateway="filler", profile="filler", sync_period=SELDOM)
    pod.start(site.cluster.kubeconfig("admin", namespace=site.namespace))
    maps = ResourceMaps(site.cluster, site.namespace, "line")
    maps.until_report(sync_status=SyncState.SYNCED, synced_commit=tip, pod=pod)
    site.post("/api/v1", "configmaps", {"metadata": {"name": GLOBAL}, "data": {"paused": "false"}})

    def stop(kind: str, *, paused: bool) -> None:
        if kind == "ConfigMap":
            site.patch(site.path_of(kind, GLOBAL), {"data": {"paused": str(paused).lower()}})
        else:
            name = "line" if kind == "Stoker" else "filler"
            site.patch(site.path_of(kind, name), {"spec": {"paused": paused}})

    def until(paused: bool) -> GatewayReport:
        wanted = {"reason": Reason.PAUSED} if paused else {"sync_status": SyncState.SYNCED, "reason": ""}
        return maps.until_report(pod=pod, **wanted)

    took = {}
    for number, kind in enumerate(("Stoker", "SyncProfile", "ConfigMap"), start=1):
        began = time.monotonic()
        stop(kind, paused=True)
        until(paused=True)
        took[kind] = time.monotonic() - began
        before = pod.file(PROJECT)
        tip = plant.commit({PROJECT: str(number)})
        if kind == "SyncProfile":  # the resource goes on: its controller tells of the commit
            site.until_metadata("line", commit=tip)
        assert until(paused=True).synced_commit != tip
        assert pod.file(PROJECT) == before
        stop(kind, paused=False)
        maps.until_report(sync_status=SyncState.SYNCED, synced_commit=tip, reason="", pod=pod)
        assert pod.file(PROJECT) == str(number)
    record_property("seconds", {kind: round(seconds, 2) for kind, seconds in took.items()})
