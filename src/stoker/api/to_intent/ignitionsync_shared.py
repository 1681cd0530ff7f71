"""Content for every gateway of an `IgnitionSync` besides its own service: `shared` and `additionalFiles`."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.api.kinds.ignitionsync import IgnitionSyncSpec
from stoker.api.spec.content import AdditionalFile, SharedContentSpec
from stoker.api.to_intent.gateway_content import CORE
from stoker.domain.intent.files import FileMapping, MappingKind, MissingSourcePolicy, OrphanPolicy

EXTERNAL = "config/resources/external"
TAG_TYPES = f"{CORE}/ignition/tag-type-definition"
MODULES = "user-lib/modules"


def shared_mappings(spec: IgnitionSyncSpec, *, project: str, tag_provider: str) -> Iterator[FileMapping]:
    """Yield the enabled mappings in a fixed order; later mappings override earlier ones."""
    shared = spec.shared or SharedContentSpec()
    external, scripts, udts, modules = (
        shared.external_resources,
        shared.scripts,
        shared.udts,
        shared.modules,
    )
    if external and external.enabled and external.source:
        missing = MissingSourcePolicy.CONFIG_MODE if external.create_fallback else MissingSourcePolicy.SKIP
        yield FileMapping(external.source, EXTERNAL, when_missing=missing)
    if scripts and scripts.enabled and scripts.source and scripts.dest_path:
        yield FileMapping(scripts.source, f"projects/{project}/{scripts.dest_path}")
    if udts and udts.enabled and udts.source:
        yield FileMapping(udts.source, f"{TAG_TYPES}/{tag_provider}")
    if modules and modules.enabled and modules.source:
        # Users and images put modules there too; those must not be deleted.
        yield FileMapping(modules.source, MODULES, orphans=OrphanPolicy.OWNED)
    yield from (_additional(one) for one in spec.additional_files or ())


def module_order(spec: IgnitionSyncSpec) -> tuple[str, ...]:
    modules = spec.shared and spec.shared.modules
    return (modules.order or ()) if modules and modules.enabled else ()


def _additional(block: AdditionalFile) -> FileMapping:
    return FileMapping(
        block.source,
        block.dest,
        kind=MappingKind(block.type) if block.type else None,
        orphans=OrphanPolicy(block.orphans) if block.orphans else None,
    )
