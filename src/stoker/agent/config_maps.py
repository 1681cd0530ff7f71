"""Reads and applies the ConfigMaps that an agent shares with the controller and other agents.

An agent writes only its own keys, by forced server-side apply with a field manager of its pod: it needs no
read before the write, cannot conflict, and a new pod takes over from its predecessor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.objects import ObjectHeader, ObjectHeaderMeta
from stoker.kube.client.resources import CONFIG_MAPS

MAX_MANAGER_LENGTH = 128
_CHANGES = "-changes"


class AgentConfigMap(msgspec.Struct, frozen=True):
    """The fields of a ConfigMap that the agent reads."""

    metadata: ObjectHeaderMeta = ObjectHeaderMeta()
    data: dict[str, str] | None = None


class ConfigMapKeys:
    """The keys of one field manager in the ConfigMaps of a namespace."""

    def __init__(self, client: KubeClient, namespace: str, manager: str) -> None:
        self._client = client
        self._namespace = namespace
        self._manager = manager

    async def read(self, name: str) -> Mapping[str, str]:
        """Return the data of a ConfigMap, by any writer; raises if it does not exist."""
        return (await self._client.get(CONFIG_MAPS, name, self._namespace, into=AgentConfigMap)).data or {}

    async def exists(self, name: str) -> bool:
        try:
            await self._client.get(CONFIG_MAPS, name, self._namespace, into=ObjectHeader)
        except NotFound:
            return False
        return True

    async def apply(
        self, name: str, field: str, keys: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """Make `keys` all the keys of this manager in `data` or `binaryData`; creates a missing ConfigMap."""
        metadata = {"name": name, "namespace": self._namespace}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata if labels is None else {**metadata, "labels": labels},
            field: keys,
        }
        await self._client.apply(
            CONFIG_MAPS, body, name, self._namespace, manager=self._manager, force=True, into=ObjectHeader
        )


def manager_for(pod: str) -> str:
    """Return the field manager of a pod's report, short enough for Kubernetes and unique to the pod."""
    name = f"stoker-agent-{pod}"
    if len(name) <= MAX_MANAGER_LENGTH:
        return name
    return f"{name[: MAX_MANAGER_LENGTH - 9]}-{hashlib.sha256(pod.encode()).hexdigest()[:8]}"


def changes_manager(pod: str) -> str:
    """Return the field manager of a pod's change sets, which differs from that of its report."""
    return f"{manager_for(pod)[: MAX_MANAGER_LENGTH - len(_CHANGES)]}{_CHANGES}"
