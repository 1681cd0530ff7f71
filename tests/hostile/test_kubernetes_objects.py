"""Objects that a user put into the cluster to stop every process that watches their kind."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from stoker.kube.client.client import KubeClient
from stoker.kube.client.codec import decode
from stoker.kube.client.errors import UnreadableResponse
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import ApiResource
from stoker.kube.config.config import load_config
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually_async

DEEP = 4_000
ANYTHING = ApiResource("hostile.example.test", "v1", "anythings", "Anything", namespaced=True)


@pytest.fixture
def anything(control_plane: ClusterAccess) -> ApiResource:
    """A kind whose schema lets everything through."""
    name = f"{ANYTHING.plural}.{ANYTHING.group}"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": ANYTHING.group,
            "names": {"kind": ANYTHING.kind, "plural": ANYTHING.plural, "singular": "anything"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{name}")
    return ANYTHING


def nested(name: str, depth: int) -> bytes:
    head = {"apiVersion": ANYTHING.api_version, "kind": ANYTHING.kind, "metadata": {"name": name}}
    bomb = '{"x":' * depth + "1" + "}" * depth
    return f'{json.dumps(head)[:-1]},"spec":{bomb}}}'.encode()


async def test_a_deeply_nested_object_does_not_hide_the_others_of_its_kind(
    anything: ApiResource, admin_kubeconfig: Path, namespace: str
) -> None:
    async with KubeClient(load_config(admin_kubeconfig)) as client:
        listed = Reflector(client, anything, namespace=namespace, keep=len)

        async def create(name: str, depth: int) -> None:
            await client.create(anything, nested(name, depth), namespace, into=ObjectHeader)

        await create("bomb", DEEP)
        await create("harmless", 1)
        task = asyncio.ensure_future(listed.run())
        await asyncio.wait_for(listed.synced(), 30)
        await create("watched-bomb", DEEP)
        await create("watched", 1)
        last = ObjectKey(namespace, "watched")
        await eventually_async(lambda: last in listed.store, 30, "the object after the bomb is seen")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert {key.name for key, _ in listed.store.items()} == {
            "bomb",
            "harmless",
            "watched-bomb",
            "watched",
        }
        assert listed.broken_streams == 0


def test_what_is_nested_deeper_than_any_server_takes_is_refused_and_nothing_crashes() -> None:
    with pytest.raises(UnreadableResponse, match="nested too deeply"):
        decode(b"[" * 500_000 + b"]" * 500_000, msgspec.Raw, "get anythings")
