"""The content of a gateway, from a profile or from a service path.

A pod names a `SyncProfile`, or the folder of its service in the repository, which implies
a fixed layout. Both become the same list of mappings, in which later mappings override
earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyMap
from dataclasses import dataclass, field

from stoker.api.kinds.stoker import MappingSpec as MappingBlock
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey
from stoker.domain.cycles import refuse_cycle
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.files import FileMapping, FilePatch, MappingKind, MissingSourcePolicy, OrphanPolicy
from stoker.domain.intent.intent import Notice
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason

CORE = "config/resources/core"
COLLECTION_FILE = "config-mode.json"
DEFAULT_PERIOD = 30.0


@dataclass(frozen=True, slots=True)
class GatewayContent:
    """Mappings, and the other settings of a profile; `overlay` overrides all mappings."""

    mappings: tuple[FileMapping, ...]
    overlay: tuple[FileMapping, ...] = ()
    patches: tuple[FilePatch, ...] = ()
    excludes: tuple[str, ...] = ()
    vars: ReadOnlyMap[str, str] = field(default_factory=dict)
    sync_period: float = DEFAULT_PERIOD
    profile: str = ""
    service_path: str = ""
    depends_on: tuple[str, ...] = ()
    dry_run: bool = False
    paused: bool = False
    notices: tuple[Notice, ...] = ()


def content_for(pod: PodSettings, namespace: str, profiles: ReadOnlyMap[str, SyncProfile]) -> GatewayContent:
    """Return the content of one gateway; `profiles` are those of the pod's namespace, by name."""
    if pod.profile:
        profile = profiles.get(pod.profile)
        if profile is None:
            raise Stalled(
                f"SyncProfile {namespace}/{pod.profile}, which gateway {pod.gateway} names, does not exist",
                reason=Reason.PROFILE_NOT_FOUND,
            )
        waits_for = {name: _dependencies(one) for name, one in profiles.items()}
        refuse_cycle(pod.profile, waits_for, what="SyncProfile")
        return _from_profile(pod, profile)
    if pod.service_path is None:
        raise InvalidValue(
            f"gateway {pod.gateway} has neither annotation {PREFIX}{PodAnnotationKey.SYNC_PROFILE} nor "
            f"{PREFIX}{PodAnnotationKey.SERVICE_PATH}: set one of them to select the files of the gateway",
            reason=Reason.NO_MAPPINGS,
        )
    return _from_service_path(pod, pod.service_path)


def refuse_root_mapping(sources: Iterable[str], whose: str) -> None:
    """Refuse a mapping of the whole repository with bidirectional sync: a gateway could change every file.

    The controller checks sources with a template, because it knows the rendered value.
    """
    if maps_root(sources):
        raise InvalidValue(
            f"{whose} maps the whole repository (source '.') and spec.bidirectional.enabled is true: a "
            "gateway could change any file of the repository, including CI configuration; map only the "
            "needed folders, or set spec.bidirectional.enabled to false",
            reason=Reason.INVALID_SPEC,
        )


def maps_root(sources: Iterable[str]) -> bool:
    """Return whether a source is the repository itself."""
    return any("{{" not in source and not RelPath.clean(source) for source in sources)


def _from_service_path(pod: PodSettings, path: str) -> GatewayContent:
    """Return the layout of a service: projects, the core collection, and the deployment mode over it."""
    below = f"{path}/" if path else ""
    mappings = [
        FileMapping(f"{below}projects", "projects", service_path=path),
        FileMapping(f"{below}{CORE}", CORE, service_path=path),
    ]
    if pod.deployment_mode:
        mode = _overlay(f"{below}config/resources/{pod.deployment_mode}", CORE)
        mappings.append(mode._replace(service_path=path))
    return GatewayContent(tuple(mappings), service_path=path or ".")


def _overlay(source: str, destination: str) -> FileMapping:
    """Return the mapping of a deployment mode over a collection.

    A missing mode fails, or a gateway would run with the settings of another mode. A mode is a collection
    of its own with a `config-mode.json`; if that file replaced the file of `core`, `core` would become
    its own parent.
    """
    return FileMapping(
        source, destination, when_missing=MissingSourcePolicy.FAIL, gives_way=(COLLECTION_FILE,)
    )


def _from_profile(pod: PodSettings, profile: SyncProfile) -> GatewayContent:
    spec = profile.spec
    overlay = spec.deployment_mode
    return GatewayContent(
        mappings=tuple(_mapping(one) for one in spec.mappings),
        overlay=(_overlay(overlay.source, overlay.destination or CORE),) if overlay else (),
        patches=tuple(FilePatch(one.file, tuple(sorted(one.set.items()))) for one in spec.patches or ()),
        excludes=spec.exclude_patterns or (),
        vars=spec.vars or {},
        sync_period=float(spec.sync_period) if spec.sync_period else DEFAULT_PERIOD,
        profile=profile.metadata.name,
        depends_on=_dependencies(profile),
        dry_run=bool(spec.dry_run),
        paused=bool(spec.paused),
        notices=_unused_beside_a_profile(pod),
    )


def _dependencies(profile: SyncProfile) -> tuple[str, ...]:
    return tuple(one.profile_name for one in profile.spec.depends_on or ())


def _mapping(block: MappingBlock) -> FileMapping:
    return FileMapping(
        source=block.source,
        destination=block.destination,
        kind=MappingKind(block.type) if block.type else None,
        when_missing=MissingSourcePolicy.FAIL if block.required else MissingSourcePolicy.SKIP,
        template=bool(block.template),
        orphans=OrphanPolicy(block.orphans) if block.orphans else None,
    )


def _unused_beside_a_profile(pod: PodSettings) -> tuple[Notice, ...]:
    given = {
        PodAnnotationKey.SERVICE_PATH: pod.service_path is not None,
        PodAnnotationKey.DEPLOYMENT_MODE: bool(pod.deployment_mode),
    }
    return tuple(
        Notice(
            Reason.ANNOTATION_IGNORED,
            f"annotation {key} of gateway {pod.gateway} is not used: its SyncProfile {pod.profile} decides",
        )
        for key, is_given in given.items()
        if is_given
    )
