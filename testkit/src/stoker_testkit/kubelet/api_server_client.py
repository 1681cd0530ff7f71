"""Writes of a kubelet to the API server: its node, and status, deletion and tokens of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from stoker.domain.clock import SystemClock, rfc3339
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import AlreadyExists, Conflict, NotFound
from stoker.kube.client.resources import LEASES, PODS, ApiResource
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.kubelet.pod_spec import Pod, Token
from stoker_testkit.kubelet.process_containers import GATEWAY_PORT
from stoker_testkit.processes import free_port

NODES = ApiResource("", "v1", "nodes", "Node", namespaced=False)
ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
HEARTBEAT_SECONDS = 8.0
_JSON = {"Content-Type": "application/json"}


class KubeletApi:
    """The words of one node."""

    def __init__(self, client: KubeClient, node: str) -> None:
        self._client = client
        self._node = node

    async def register(self) -> None:
        """Without a node that lives its pods would be collected, or marked as lost."""
        with suppress(AlreadyExists):
            await self._client.create(NODES, {"metadata": {"name": self._node}}, into=msgspec.Raw)
        lease = {"metadata": {"name": self._node}, "spec": {"holderIdentity": self._node}}
        with suppress(AlreadyExists):
            await self._client.create(LEASES, lease, "kube-node-lease", into=msgspec.Raw)
        await self._renew()

    async def beat(self) -> None:
        """Be alive until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._renew()

    async def bind(self, key: ObjectKey, annotations: Mapping[str, str]) -> None:
        """Take a pod; all share this machine's ports, so its gateway gets one of its own first."""
        if "stoker.io/inject" in annotations and GATEWAY_PORT not in annotations:
            port = {"metadata": {"annotations": {GATEWAY_PORT: str(free_port())}}}
            await self._client.patch(PODS, port, key.name, key.namespace, into=msgspec.Raw)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node},
        }
        with suppress(Conflict, NotFound):
            await self._send("POST", PODS.path(key.namespace, key.name, "binding"), binding)

    async def write_status(self, pod: Pod, status: dict[str, Any]) -> None:
        meta = pod.metadata
        await self.write_status_of(
            ObjectKey(meta.namespace, meta.name), status, {"metadata": {"uid": meta.uid}}
        )

    async def write_status_of(self, key: ObjectKey, status: dict[str, Any], head: Mapping[str, Any]) -> None:
        """Write the status of a pod, unless it is gone."""
        body = {**head, "status": status}
        with suppress(NotFound, Conflict):
            await self._client.patch(
                PODS, body, key.name, key.namespace, into=msgspec.Raw, subresource="status"
            )

    async def remove(self, pod: Pod) -> None:
        """Its containers have ended: nothing is waited for any more."""
        meta = pod.metadata
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": meta.uid},
        }
        with suppress(NotFound, Conflict):
            await self._send("DELETE", PODS.path(meta.namespace, meta.name), options)

    async def request_token(self, pod: Pod, wanted: Token) -> str:
        """A token of the pod's own account, good for as long as the pod lives."""
        meta = pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": wanted.expiration_seconds, "boundObjectRef": bound},
        }
        place = ACCOUNTS.path(meta.namespace, pod.spec.service_account_name, "token")
        return str(msgspec.json.decode(await self._send("POST", place, body))["status"]["token"])

    async def _renew(self) -> None:
        now = rfc3339(SystemClock().now())
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        body = {"status": {"conditions": [condition]}}
        await self._client.patch(NODES, body, self._node, into=msgspec.Raw, subresource="status")
        spec = {"spec": {"renewTime": now.replace("Z", ".000000Z"), "leaseDurationSeconds": 40}}
        await self._client.patch(LEASES, spec, self._node, "kube-node-lease", into=msgspec.Raw)

    async def _send(self, method: str, path: str, body: object) -> bytes:
        answer = await self._client.raw(method, path, body=msgspec.json.encode(body), headers=_JSON)
        return answer.body
