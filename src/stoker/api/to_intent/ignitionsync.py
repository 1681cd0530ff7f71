"""The adapter of `IgnitionSync`, with the base that it may inherit from."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stoker.api.kinds.ignitionsync import (
    GROUP,
    IgnitionSync,
    IgnitionSyncBase,
    IgnitionSyncBaseSpec,
    IgnitionSyncSpec,
)
from stoker.api.kinds.sync import is_artifact
from stoker.api.meta import NamespacedRef
from stoker.api.to_intent.delivery import shared_volume_of
from stoker.api.to_intent.gateway_intent import DEFAULT_PROVIDER, GatewayFacts, KindExtras, gateway_intent
from stoker.api.to_intent.ignitionsync_shared import module_order, shared_mappings
from stoker.api.to_intent.inheritance import check_base, merge_and_check_spec
from stoker.api.to_intent.pod_facts import PodFacts
from stoker.api.to_intent.resource_intent import resource_intent
from stoker.api.to_intent.types import (
    RUNTIME_FILES,
    IntentContext,
    SettledResource,
    SyncResource,
    excludes_runtime_files,
)
from stoker.domain.intent.delivery import SharedVolumePolicy, VolumeAccessMode
from stoker.domain.intent.intent import GatewayIntent, Notice, ResourceIntent, SyncResourceKind
from stoker.domain.reasons import Reason


class IgnitionSyncAdapter:
    """Translates an `IgnitionSync` into intents."""

    def wanted_base(self, resource: IgnitionSync) -> NamespacedRef | None:
        wanted = resource.spec.inherits_from
        if wanted is None:
            return None
        return NamespacedRef(name=wanted.name, namespace=wanted.namespace or resource.metadata.namespace)

    def settle(
        self, resource: IgnitionSync, base: IgnitionSyncBase | None, defaults: IgnitionSyncBaseSpec
    ) -> SettledResource[IgnitionSync]:
        wanted = self.wanted_base(resource)
        notices = check_base(resource.metadata.namespace, wanted, base) if wanted else ()
        inherited = base.spec if base and wanted else None
        spec = merge_and_check_spec(SyncResourceKind.IGNITION_SYNC, resource.spec, inherited, defaults)
        return SettledResource(msgspec.structs.replace(resource, spec=spec, status=None), notices)

    def resource_intent(self, known: SettledResource[IgnitionSync]) -> ResourceIntent:
        spec = known.resource.spec
        volume = _shared_volume(spec)
        return resource_intent(
            _sync_resource(known.resource),
            (*known.notices, *_notices(spec)),
            shared_volume=volume,
            single_gateway=spec.storage is not None and volume is None and not is_artifact(spec),
        )

    def gateway_intent(self, resource: IgnitionSync, pod: PodFacts, around: IntentContext) -> GatewayIntent:
        facts = GatewayFacts.of(pod, around)
        provider = facts.settings.tag_provider or DEFAULT_PROVIDER
        extras = KindExtras(
            mappings=tuple(shared_mappings(resource.spec, project=facts.project, tag_provider=provider)),
            mandatory_excludes=(RUNTIME_FILES,),
            module_order=module_order(resource.spec),
        )
        return gateway_intent(_sync_resource(resource), facts, around, extras)


def _sync_resource(resource: IgnitionSync) -> SyncResource:
    return SyncResource(SyncResourceKind.IGNITION_SYNC, GROUP, resource.metadata, resource.spec)


def _shared_volume(spec: IgnitionSyncSpec) -> SharedVolumePolicy | None:
    """Return the shared volume; None if only one pod can mount it, as that is no better than a clone."""
    if is_artifact(spec):
        return None
    volume = shared_volume_of(spec.storage) if spec.storage else None
    return volume if volume and volume.access_mode is VolumeAccessMode.READ_WRITE_MANY else None


def _notices(spec: IgnitionSyncSpec) -> Iterator[Notice]:
    if not excludes_runtime_files(spec.exclude_patterns or ()):
        yield Notice(
            Reason.RUNTIME_FILES_NOT_EXCLUDED, f"excludePatterns lack {RUNTIME_FILES}, which is added"
        )
    if spec.storage and is_artifact(spec):
        yield Notice(
            Reason.FIELD_IGNORED,
            "spec.storage has no effect for a registry or a bucket: no volume is created, each agent keeps "
            "its own mirror",
        )
    elif spec.storage and _shared_volume(spec) is None:
        yield Notice(
            Reason.FIELD_IGNORED,
            "storage.accessMode is ReadWriteOnce: no volume is created, each agent keeps its own clone",
        )
