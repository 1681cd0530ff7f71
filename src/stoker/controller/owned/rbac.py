"""RBAC for agents: a Role and RoleBinding of each resource, for the service accounts of its pods.

The Role is limited to the resource's ConfigMaps by name: an agent reads the metadata ConfigMap and writes
only where it reports. It reads no Secret; Secrets are mounted. All containers of a pod share the account, so
the Role must grant nothing worth stealing. The binding covers all unfinished pods, even before they run: an
agent without read access to its ConfigMap keeps its gateway from starting. Both objects are garbage-collected
with the resource.
"""

from __future__ import annotations

from typing import Any

from stoker.api.registry import CustomResourceKind
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import PROFILES, CachedResource, ResourceKey, belongs_to, owned_metadata
from stoker.controller.owned.apply_objects import OwnedObjectWriter
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import CHANGE_MAPS, metadata_map_name, status_map_name
from stoker.domain.protocol.names import changes_map_name
from stoker.kube.client.resources import ROLE_BINDINGS, ROLES
from stoker.kube.watch.store import ObjectKey

_PREFIX = {SyncResourceKind.STOKER: "stoker", SyncResourceKind.IGNITION_SYNC: "ignition-sync"}


def role_name(key: ResourceKey) -> str:
    return f"{_PREFIX[key.door]}-agent-{key.object.name}"


def rules_for(
    key: ResourceKey, shards: int, profiles: CustomResourceKind = PROFILES, *, changes: bool = False
) -> list[dict[str, Any]]:
    """The rules of an agent's Role; `shards` is the highest number of a status ConfigMap."""
    name = key.object.name
    written = [status_map_name(key.door, name, shard) for shard in range(shards + 1)]
    if changes:
        written += [changes_map_name(key.door, name, number) for number in range(CHANGE_MAPS)]
    return [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [metadata_map_name(key.door, name)],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": written,
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": [profiles.group],
            "resources": [profiles.plural],
            "verbs": ["get", "list", "watch"],
        },
    ]


def subjects_for(key: ResourceKey, fleet: GatewayFleet) -> list[dict[str, str]]:
    namespace = key.object.namespace
    return [{"kind": "ServiceAccount", "name": name, "namespace": namespace} for name in fleet.accounts]


class AgentRbac:
    """Keeps Role and RoleBinding of a resource up to date."""

    def __init__(self, observed: ControllerInformers, writer: OwnedObjectWriter) -> None:
        self._observed = observed
        self._writer = writer

    async def grant(
        self,
        key: ResourceKey,
        kept: CachedResource,
        fleet: GatewayFleet,
        shards: int,
        *,
        changes: bool = False,
    ) -> None:
        name = role_name(key)
        where = ObjectKey(key.object.namespace, name)
        role, binding = self._observed.roles.get(where), self._observed.bindings.get(where)
        if not fleet.accounts and role is None and binding is None:
            return
        rules, subjects = rules_for(key, shards, changes=changes), subjects_for(key, fleet)
        head = owned_metadata(key, kept, name)
        if role is None or role.rules != rules or not belongs_to(role.metadata, key, kept):
            await self._writer.put(self._observed.roles, ROLES, {"metadata": head, "rules": rules})
        ref = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": name}
        right = binding is not None and (binding.subjects or []) == subjects and binding.role_ref == ref
        if not right or binding is None or not belongs_to(binding.metadata, key, kept):
            body = {"metadata": head, "roleRef": ref, "subjects": subjects}
            await self._writer.put(self._observed.bindings, ROLE_BINDINGS, body)
