"""The annotations of a pod as typed settings of its gateway.

Every value is checked, and an error message contains the annotation's full name, because
its reader may know only the pod. This module does not depend on the kind of resource that
the pod belongs to.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from stoker.api.to_intent.annotations import annotation_values as values
from stoker.api.to_intent.pod_facts import (
    LEGACY_PREFIX,
    PREFIX,
    PodAnnotation,
    PodAnnotationKey,
    PodFacts,
    check_gateway_name,
    gateway_name,
)
from stoker.domain.intent.intent import Notice
from stoker.domain.intent.policies import RedundancyRole, TagInheritance
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef

T = TypeVar("T")

MAX_UNKNOWN = 20


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The settings of one gateway; unset values are None or empty."""

    gateway: str
    inject: bool = False
    resource: str = ""
    resource_kind: str = ""
    profile: str = ""
    service_path: str | None = None
    ref_override: GitRef | None = None
    deployment_mode: str = ""
    sync_period: float | None = None
    excludes: tuple[str, ...] = ()
    system_name: str = ""
    system_name_template: str = ""
    time_zone: str = ""
    locale: str = ""
    tag_provider: str = ""
    excluded_tag_providers: tuple[str, ...] = ()
    tag_inheritance: TagInheritance | None = None
    redundancy_role: RedundancyRole | None = None
    peer_gateway: str = ""
    gateway_port: int | None = None
    gateway_tls: bool | None = None
    data_volume: str = ""
    snapshot_volume: str = ""
    approved_plans: tuple[str, ...] = ()
    agent_image: str = ""
    injected: str = ""
    notices: tuple[Notice, ...] = ()


def pod_settings(pod: PodFacts) -> PodSettings:
    """Return the settings of a pod; raise `InvalidValue` for the first invalid annotation."""

    def read(key: PodAnnotationKey, parse: Callable[[PodAnnotation], T], default: T) -> T:
        annotation = pod.annotation(key)
        return default if annotation is None else parse(annotation)

    def read_if_given(key: PodAnnotationKey, parse: Callable[[PodAnnotation], T]) -> T | None:
        annotation = pod.annotation(key)
        return None if annotation is None else parse(annotation)

    return PodSettings(
        gateway=gateway_name(pod),
        inject=read(PodAnnotationKey.INJECT, values.parse_switch, False),
        resource=read(PodAnnotationKey.CR_NAME, values.object_name, ""),
        resource_kind=read(PodAnnotationKey.CR_KIND, values.kind_name, ""),
        profile=read(PodAnnotationKey.SYNC_PROFILE, values.object_name, ""),
        service_path=read_if_given(PodAnnotationKey.SERVICE_PATH, values.parse_service_path),
        ref_override=read_if_given(PodAnnotationKey.REF_OVERRIDE, values.parse_ref),
        deployment_mode=read(PodAnnotationKey.DEPLOYMENT_MODE, values.folder_name, ""),
        sync_period=read_if_given(PodAnnotationKey.SYNC_PERIOD, values.parse_period),
        excludes=read(PodAnnotationKey.EXCLUDE_PATTERNS, values.parse_patterns, ()),
        system_name=read(PodAnnotationKey.SYSTEM_NAME, values.parse_literal, ""),
        system_name_template=read(PodAnnotationKey.SYSTEM_NAME_TEMPLATE, values.parse_template, ""),
        time_zone=read(PodAnnotationKey.TIME_ZONE, values.time_zone, ""),
        locale=read(PodAnnotationKey.LOCALE, values.locale, ""),
        tag_provider=read(PodAnnotationKey.TAG_PROVIDER, values.tag_provider, ""),
        excluded_tag_providers=read(PodAnnotationKey.EXCLUDE_TAG_PROVIDERS, values.parse_tag_providers, ()),
        tag_inheritance=read_if_given(
            PodAnnotationKey.TAG_INHERITANCE_STRATEGY, values.enum_parser(TagInheritance)
        ),
        redundancy_role=read_if_given(PodAnnotationKey.REDUNDANCY_ROLE, values.enum_parser(RedundancyRole)),
        peer_gateway=read(PodAnnotationKey.PEER_GATEWAY_NAME, check_gateway_name, ""),
        gateway_port=read_if_given(PodAnnotationKey.GATEWAY_PORT, values.parse_port),
        gateway_tls=read_if_given(PodAnnotationKey.GATEWAY_TLS, values.parse_switch),
        data_volume=read(PodAnnotationKey.DATA_VOLUME, values.volume_name, ""),
        snapshot_volume=read(PodAnnotationKey.SNAPSHOT_VOLUME, values.volume_name, ""),
        approved_plans=read(PodAnnotationKey.APPROVED_PLAN, values.parse_digests, ()),
        agent_image=read(PodAnnotationKey.AGENT_IMAGE, values.parse_image, ""),
        injected=read(PodAnnotationKey.INJECTED, values.parse_line, ""),
        notices=(*_legacy_names(pod), *_unknown_names(pod)),
    )


def _legacy_names(pod: PodFacts) -> Iterator[Notice]:
    """Yield one notice for all legacy names: it recommends the new prefix and reports no error."""
    used = [
        found
        for key in PodAnnotationKey
        if (found := pod.annotation(key)) and found.name.startswith(LEGACY_PREFIX)
    ]
    if used:
        names = ", ".join(found.name for found in used)
        yield Notice(Reason.LEGACY_ANNOTATION, f"{names} use a deprecated prefix; use {PREFIX} instead")


def _unknown_names(pod: PodFacts) -> Iterator[Notice]:
    """Yield notices for unknown annotations, because a misspelt one would silently do nothing.

    A pod may carry thousands of annotations, and finding a similar name for each would take seconds.
    """
    known = [str(key) for key in PodAnnotationKey]
    ours = ((name, prefix) for name in sorted(pod.annotations) for prefix in (PREFIX, LEGACY_PREFIX))
    unknown = [(name, prefix) for name, prefix in ours if _strip_prefix(name, prefix) not in (None, *known)]
    for name, prefix in unknown[:MAX_UNKNOWN]:
        close = difflib.get_close_matches(name.removeprefix(prefix), known, n=1)
        meant = f"; did you mean {prefix}{close[0]}?" if close else ""
        yield Notice(Reason.UNKNOWN_ANNOTATION, f"unknown annotation {name}{meant}")
    if len(unknown) > MAX_UNKNOWN:
        more = f"{len(unknown) - MAX_UNKNOWN} more unknown annotations under {PREFIX} and {LEGACY_PREFIX}"
        yield Notice(Reason.UNKNOWN_ANNOTATION, more)


def _strip_prefix(name: str, prefix: str) -> str | None:
    return name.removeprefix(prefix) if name.startswith(prefix) else None
