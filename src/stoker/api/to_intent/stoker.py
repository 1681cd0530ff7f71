"""The adapter of `Stoker`, whose gateways name a `SyncProfile`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stoker.api.kinds.ignitionsync import IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.stoker import GROUP, Stoker, StokerSpec
from stoker.api.meta import NamespacedRef
from stoker.api.to_intent.gateway_intent import GatewayFacts, KindExtras, gateway_intent
from stoker.api.to_intent.inheritance import merge_and_check_spec
from stoker.api.to_intent.pod_facts import PodFacts
from stoker.api.to_intent.resource_intent import resource_intent
from stoker.api.to_intent.types import (
    RUNTIME_FILES,
    IntentContext,
    SettledResource,
    SyncResource,
    excludes_runtime_files,
)
from stoker.domain.intent.intent import GatewayIntent, Notice, ResourceIntent, SyncResourceKind
from stoker.domain.reasons import Reason


class StokerAdapter:
    """Translates a `Stoker` into intents."""

    def wanted_base(self, resource: Stoker) -> NamespacedRef | None:
        return None

    def settle(
        self, resource: Stoker, base: IgnitionSyncBase | None, defaults: IgnitionSyncBaseSpec
    ) -> SettledResource[Stoker]:
        spec = merge_and_check_spec(SyncResourceKind.STOKER, resource.spec, None, defaults)
        return SettledResource(msgspec.structs.replace(resource, spec=spec, status=None))

    def resource_intent(self, known: SettledResource[Stoker]) -> ResourceIntent:
        return resource_intent(
            _sync_resource(known.resource), (*known.notices, *_notices(known.resource.spec))
        )

    def gateway_intent(self, resource: Stoker, pod: PodFacts, around: IntentContext) -> GatewayIntent:
        return gateway_intent(_sync_resource(resource), GatewayFacts.of(pod, around), around, KindExtras())


def _sync_resource(resource: Stoker) -> SyncResource:
    return SyncResource(SyncResourceKind.STOKER, GROUP, resource.metadata, resource.spec)


def _notices(spec: StokerSpec) -> Iterator[Notice]:
    """Yield notices; for this kind the runtime pattern is a recommendation, not mandatory."""
    if not excludes_runtime_files(spec.exclude_patterns or ()):
        yield Notice(
            Reason.RUNTIME_FILES_NOT_EXCLUDED,
            f"excludePatterns lack {RUNTIME_FILES}: unless a SyncProfile excludes them, "
            "the gateway's runtime files are treated like any other file",
        )
