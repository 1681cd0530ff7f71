"""Keeps the webhook receiver's index of resources up to date, on every replica, leading or not.

The controller may not import the receiver, so two functions pass the data on: `put` for a resource with the
ref that it follows, and `forget` for a resource that webhooks can no longer reach. A resource whose spec
cannot be loaded is not in the index.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import CachedResource, ResourceKey
from stoker.controller.reconciler import decode_status
from stoker.controller.spec.effective_ref import effective_ref
from stoker.controller.spec.load import SpecLoader
from stoker.domain.errors import StokerError
from stoker.domain.intent.intent import ResourceIdentity, ResourceIntent
from stoker.domain.refs import GitRef
from stoker.kube.watch.store import ObjectChange


class ReceiverIndexUpdater:
    """Listens to changes of resources and their bases."""

    def __init__(
        self,
        observed: ControllerInformers,
        defaults: IgnitionSyncBaseSpec,
        put: Callable[[ResourceIntent, GitRef], None],
        forget: Callable[[ResourceIdentity], None],
    ) -> None:
        self._observed = observed
        self._understanding = SpecLoader(observed, defaults)
        self._put = put
        self._forget = forget
        for kind, cache in observed.resources.items():
            cache.listen(self._listener(kind))
        observed.bases.listen(self._on_base)

    def _listener(self, kind: str) -> Callable[[ObjectChange[CachedResource]], None]:
        return lambda change: self._follow(ResourceKey(kind, change.key), change.new)

    def _follow(self, key: ResourceKey, kept: CachedResource | None) -> None:
        if kept is None or kept.header.metadata.deletion_timestamp is not None:
            self._understanding.forget(key)
            self._forget(key.identity)
            return
        try:
            intent = self._understanding.of(key, kept).intent
        except StokerError:
            self._forget(key.identity)
            return
        followed = effective_ref(intent.source.ref, intent.requests.ref, decode_status(kept).requested_ref)
        self._put(intent, followed.ref)

    def _on_base(self, change: ObjectChange[CachedResource]) -> None:
        for key in list(self._observed.heirs(change.key)):
            self._follow(key, self._observed.find(key))
