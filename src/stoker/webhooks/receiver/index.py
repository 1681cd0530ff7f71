"""The receiver's index of resources in memory.

The watch of the resources maintains it, on every replica, leader or not. A lookup must take the same time
whether the resource exists or not. Therefore nothing is decoded, merged or requested during a call:
`indexed_resource` runs when a resource changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.domain.intent.intent import ResourceIdentity, ResourceIntent, SyncResourceKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.refs import GitRef


@dataclass(frozen=True, slots=True)
class IndexedResource:
    """The part of a resource that the receiver needs."""

    identity: ResourceIdentity
    spec_ref: GitRef
    allowed_refs: tuple[str, ...] = ()
    """Globs of refs that a request may name beside the spec's own ref."""
    hmac_key: SecretKey | None = None
    bearer: SecretKey | None = None
    enabled: bool = True
    requested_ref: GitRef | None = None
    """The ref that is followed instead of the spec's, after a request."""

    @property
    def effective_ref(self) -> GitRef:
        """The ref that the resource follows now."""
        return self.requested_ref or self.spec_ref


def indexed_resource(intent: ResourceIntent, effective_ref: GitRef | None = None) -> IndexedResource:
    """Return the index entry of a resource; `effective_ref` is given if it differs from the spec's ref."""
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
    """All resources by namespace and name; a Stoker and an IgnitionSync may share both."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[SyncResourceKind, IndexedResource]] = {}

    def put(self, known: IndexedResource) -> None:
        who = known.identity
        self._known.setdefault((who.namespace, who.name), {})[who.door] = known

    def forget(self, who: ResourceIdentity) -> None:
        """Remove a resource; its URL then no longer exists."""
        left = self._known.get((who.namespace, who.name), {})
        left.pop(who.door, None)
        if not left:
            self._known.pop((who.namespace, who.name), None)

    def find(self, namespace: str, name: str) -> tuple[IndexedResource, ...]:
        return tuple(self._known.get((namespace, name), {}).values())

    def keys(self) -> set[tuple[str, SecretKey]]:
        """Return every key named by an enabled resource, with its namespace, for `CallerKeyring.follow`."""
        each = (one for kinds in self._known.values() for one in kinds.values() if one.enabled)
        return {(one.identity.namespace, key) for one in each for key in (one.hmac_key, one.bearer) if key}

    def __len__(self) -> int:
        return sum(len(kinds) for kinds in self._known.values())
