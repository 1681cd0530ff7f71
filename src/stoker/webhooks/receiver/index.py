"""What the receiver knows of a resource before anybody calls: an index in memory.

It is kept by whoever watches the resources, on every replica, whether it leads or
not. A look-up must cost the same whether the resource exists or not, so nothing is
decoded, merged or asked for while a caller waits: `indexed_resource` is called when a resource
changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.domain.intent.intent import ResourceIdentity, ResourceIntent, SyncResourceKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.refs import GitRef


@dataclass(frozen=True, slots=True)
class IndexedResource:
    """As much of a resource as a request for it needs."""

    identity: ResourceIdentity
    spec_ref: GitRef
    allowed_refs: tuple[str, ...] = ()
    """Globs of what a request may name beside the spec's own ref."""
    hmac_key: SecretKey | None = None
    bearer: SecretKey | None = None
    enabled: bool = True
    requested_ref: GitRef | None = None
    """What is followed in place of the spec's ref, on request (C-053)."""

    @property
    def effective_ref(self) -> GitRef:
        """What is followed at the moment."""
        return self.requested_ref or self.spec_ref


def indexed_resource(intent: ResourceIntent, effective_ref: GitRef | None = None) -> IndexedResource:
    """What is to be known of a resource; the ref is the spec's unless another counts."""
    return IndexedResource(
        identity=intent.identity,
        spec_ref=intent.source.ref,
        allowed_refs=intent.receiver.allowed_refs,
        hmac_key=intent.receiver.hmac_key,
        bearer=intent.receiver.bearer,
        enabled=intent.receiver.enabled,
        requested_ref=effective_ref if effective_ref != intent.source.ref else None,
    )


class ReceiverIndex:
    """All resources by namespace and name; kinds may share both (C-073)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[SyncResourceKind, IndexedResource]] = {}

    def put(self, known: IndexedResource) -> None:
        who = known.identity
        self._known.setdefault((who.namespace, who.name), {})[who.door] = known

    def forget(self, who: ResourceIdentity) -> None:
        """Its route is gone (R-HOOK-14)."""
        left = self._known.get((who.namespace, who.name), {})
        left.pop(who.door, None)
        if not left:
            self._known.pop((who.namespace, who.name), None)

    def find(self, namespace: str, name: str) -> tuple[IndexedResource, ...]:
        return tuple(self._known.get((namespace, name), {}).values())

    def keys(self) -> set[tuple[str, SecretKey]]:
        """Every key that a resource which can be called names, with its namespace
        (`CallerKeyring.follow`)."""
        each = (one for kinds in self._known.values() for one in kinds.values() if one.enabled)
        return {(one.identity.namespace, key) for one in each for key in (one.hmac_key, one.bearer) if key}

    def __len__(self) -> int:
        return sum(len(kinds) for kinds in self._known.values())
