"""Discovery against the real API server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.kube.client.client import KubeClient
from stoker.kube.client.discovery import ACCEPT, Discovery
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import (
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    ApiResource,
)
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.config import config
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.wait_until import eventually_async


@pytest.fixture
async def client(control_plane: ClusterAccess) -> AsyncIterator[KubeClient]:
    async with KubeClient(config.load_config(control_plane.kubeconfig("admin"))) as client:
        yield client


def widgets(group: str) -> dict[str, object]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions: list[object] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": schema,
            "subresources": {"status": {}},
        }
        for name in ("v1alpha1", "v1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wg"]},
            "versions": versions,
        },
    }


async def test_finds_every_builtin_kind_that_kubectl_finds(
    client: KubeClient, control_plane: ClusterAccess
) -> None:
    catalog = await Discovery(client).refresh()
    for known in (CONFIG_MAPS, SECRETS, PODS, EVENTS, LEASES, NAMESPACES, CRDS):
        served = catalog.find(known.kind, known.api_version)
        assert served is not None
        assert served.resource == known
        assert catalog.preferred(known.group, known.plural) == served
        assert {"get", "list", "watch", "create", "update", "patch", "delete"} <= served.verbs
    pods = catalog.find("Pod", "v1")
    assert pods is not None
    assert {"status", "log", "exec"} <= pods.subresources
    assert (pods.short_names, pods.singular, pods.categories) == (("po",), "pod", ("all",))
    output = control_plane.kubectl("api-resources", "--no-headers", "-o", "name").stdout.split()
    builtin = {name for name in output if not name.endswith(".example.com")}
    assert builtin <= {str(each.resource) for each in catalog.served if each.preferred}
    assert not {"v1", "apps/v1"} & {each.api_version for each in catalog.unavailable}


async def test_finds_a_custom_kind_in_each_version_and_prefers_the_stable_one(client: KubeClient) -> None:
    group = f"{uuid.uuid4().hex[:8]}.example.com"
    discovery = Discovery(client)
    assert (await discovery.refresh()).preferred(group, "widgets") is None
    await client.create(CRDS, widgets(group), into=ObjectHeader)

    async def appeared() -> KindCatalog | None:
        catalog = await discovery.refresh()
        return catalog if catalog.preferred(group, "widgets") else None

    catalog: KindCatalog | None = await eventually_async(appeared, 20.0, "the custom kind to be served")
    assert catalog is not None
    preferred = catalog.preferred(group, "widgets")
    assert preferred is not None
    assert preferred.resource == ApiResource(group, "v1", "widgets", "Widget", namespaced=True)
    assert preferred.short_names == ("wg",)
    older = catalog.find("Widget", f"{group}/v1alpha1")
    assert older is not None
    assert not older.preferred
    assert older.subresources == {"status"}


async def test_an_unchanged_server_answers_304(client: KubeClient) -> None:
    first = await client.raw("GET", "/apis", headers={"Accept": ACCEPT})
    again = await client.raw(
        "GET", "/apis", headers={"Accept": ACCEPT, "If-None-Match": first.headers["ETag"]}
    )
    assert (again.status, again.body) == (304, b"")
    discovery = Discovery(client)
    before = await discovery.refresh()
    assert {str(each.resource) for each in (await discovery.refresh()).served} >= {
        str(each.resource) for each in before.served if not each.resource.group.endswith(".example.com")
    }


@pytest.mark.cluster
async def test_a_group_whose_server_is_down_hides_no_other(tmp_path: Path) -> None:
    """Both in the aggregated form and in the one that servers of old speak."""
    with ControlPlane.start(tmp_path / "plane") as plane:
        async with KubeClient(config.load_config(plane.kubeconfig("admin"))) as client:
            services = ApiResource(
                "apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False
            )
            await client.create(services, api_service("v1", "down.example.com"), into=ObjectHeader)

            async def noticed() -> KindCatalog | None:
                catalog = await Discovery(client).refresh()
                return catalog if catalog.unavailable else None

            catalog: KindCatalog | None = await eventually_async(
                noticed, 30.0, "the group to be called stale"
            )
            async with (
                old_server(plane) as address,
                KubeClient(replace(client.config, server=address)) as old,
            ):
                listed = await Discovery(old).refresh()
    assert catalog is not None
    for found in (catalog, listed):
        assert [each.api_version for each in found.unavailable] == ["down.example.com/v1"]
        assert found.preferred("apps", "deployments") is not None
    assert set(listed.served) == set(catalog.served)
    assert "GET /apis/down.example.com/v1: " in listed.unavailable[0].why


def api_service(version: str, group: str) -> dict[str, object]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "nobody", "namespace": "default"},
        },
    }


@asynccontextmanager
async def old_server(plane: ClusterAccess) -> AsyncIterator[str]:
    """The same API server as it would answer to a client that knows nothing of aggregated discovery."""

    async def forward(request: web.Request) -> web.Response:
        answer = await asyncio.to_thread(plane.request, "GET", request.path)
        return web.Response(status=answer.status, body=answer.body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    server = TestServer(app)
    async with server:
        yield str(server.make_url("/")).rstrip("/")
