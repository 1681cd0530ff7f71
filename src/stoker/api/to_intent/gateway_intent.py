"""The intent of one gateway, from its resource, its pod and the content that the pod selects."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stoker.api.kinds.sync import SyncSpec
from stoker.api.spec.content import NormalizeSpec
from stoker.api.to_intent.annotations.annotations import PodSettings, pod_settings
from stoker.api.to_intent.delivery import approval_of
from stoker.api.to_intent.gateway_content import GatewayContent, content_for, refuse_root_mapping
from stoker.api.to_intent.pod_facts import PodAnnotationKey, PodFacts
from stoker.api.to_intent.policies import access_notices, deletion_of, policies_for, policies_of
from stoker.api.to_intent.source import source_of
from stoker.api.to_intent.types import IntentContext, SyncResource
from stoker.domain.clock import rfc3339_micro
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import (
    ExcludePolicy,
    FieldTemplate,
    FileMapping,
    FilesIntent,
    TagProviderName,
    TransformPolicy,
)
from stoker.domain.intent.intent import GatewayIntent, Notice
from stoker.domain.intent.policies import IgnitionPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason

DEFAULT_SYSTEM_NAME = "{{.GatewayName}}"
DEFAULT_PROVIDER = IgnitionPolicy().tag_provider
"""The name of the gateway's tag provider in a repository."""


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """A pod, the settings from its annotations, and the resulting content."""

    pod: PodFacts
    settings: PodSettings
    content: GatewayContent

    @classmethod
    def of(cls, pod: PodFacts, around: IntentContext) -> GatewayFacts:
        settings = pod_settings(pod)
        return cls(pod, settings, content_for(settings, pod.namespace, around.profiles))

    @property
    def project(self) -> str:
        """The project of a service is named after its folder; the repository root has no name."""
        return RelPath.clean(self.content.service_path).name or self.settings.gateway


@dataclass(frozen=True, slots=True)
class KindExtras:
    """Additions of a single kind to its gateways."""

    mappings: tuple[FileMapping, ...] = ()
    mandatory_excludes: tuple[str, ...] = ()
    module_order: tuple[str, ...] = ()


def gateway_intent(
    door: SyncResource, facts: GatewayFacts, around: IntentContext, extras: KindExtras
) -> GatewayIntent:
    """Return the files of one gateway and the policies under which they may be changed."""
    spec, source = door.spec, source_of(door.spec.git)
    settings, content = facts.settings, facts.content
    common = policies_of(spec)
    policies, redundancy_notices = policies_for(common, settings, alone=around.alone)
    normalize = spec.normalize or NormalizeSpec()
    mappings = (*content.mappings, *extras.mappings, *content.overlay)
    if policies.bidirectional.enabled:
        refuse_root_mapping([mapping.source for mapping in mappings], f"gateway {settings.gateway}")
    return GatewayIntent(
        resource=door.identity,
        gateway=settings.gateway,
        source=source._replace(ref=settings.ref_override) if settings.ref_override else source,
        files=FilesIntent(
            mappings=mappings,
            transforms=_transforms(normalize, settings, content),
            excludes=ExcludePolicy(_excludes(spec, settings, content, extras), extras.mandatory_excludes),
            deletion=deletion_of(spec),
        ),
        values=_values(spec, facts, around.cluster_name),
        policies=replace(policies, ignition=replace(policies.ignition, module_order=extras.module_order)),
        sync_period=settings.sync_period or content.sync_period,
        profile=content.profile,
        service_path=content.service_path,
        depends_on=content.depends_on,
        ref_overridden=settings.ref_override is not None,
        approved_plans=_approved_plans(door, settings),
        released_commits=door.requests()[0].released_commits,
        dry_run=content.dry_run,
        paused=bool(spec.paused) or content.paused,
        notices=(
            *settings.notices,
            *content.notices,
            *_unused_system_name(normalize, settings),
            *redundancy_notices,
            *(access_notices(policies.access) if policies.access != common.access else ()),
        ),
    )


def _approved_plans(door: SyncResource, settings: PodSettings) -> tuple[PlanApproval, ...]:
    """Return the plans that were approved on the resource, and on the pod.

    Admission does not check who annotates a pod. If an approval is required or teams are named, only
    a named approval on the resource counts, as the controller publishes it.
    """
    requests, _ = door.requests()
    named, names_approvers = requests.approval, approval_of(door.spec.approval).names_approvers
    at = f" {rfc3339_micro(named.at)}" if named is not None else ""
    on_resource = () if names_approvers and named is None else requests.approved_plans
    on_pod = () if names_approvers else settings.approved_plans
    return (
        *(PlanApproval(digest, f"resource{at}") for digest in on_resource),
        *(PlanApproval(digest, "pod") for digest in on_pod),
    )


def _excludes(
    spec: SyncSpec, settings: PodSettings, content: GatewayContent, extras: KindExtras
) -> tuple[str, ...]:
    """Return the patterns of resource, profile and gateway and the mandatory ones, without duplicates."""
    providers = (f"**/tag-*/{provider}/" for provider in settings.excluded_tag_providers)
    own = (*(spec.exclude_patterns or ()), *content.excludes, *settings.excludes, *providers)
    return tuple(dict.fromkeys((*own, *extras.mandatory_excludes)))


def _transforms(normalize: NormalizeSpec, settings: PodSettings, content: GatewayContent) -> TransformPolicy:
    """Return the transforms: the system name comes from the annotation, else its template, else the gateway.

    If the tag provider has another name than in the repository, references to it are renamed.
    """
    name = settings.system_name or settings.system_name_template or DEFAULT_SYSTEM_NAME
    provider = settings.tag_provider or DEFAULT_PROVIDER
    return TransformPolicy(
        system_name=name if normalize.system_name else None,
        fields=tuple(FieldTemplate(one.json_path, one.value_template) for one in normalize.templates or ()),
        patches=content.patches,
        tag_provider=TagProviderName(DEFAULT_PROVIDER, provider) if provider != DEFAULT_PROVIDER else None,
    )


def _unused_system_name(normalize: NormalizeSpec, settings: PodSettings) -> tuple[Notice, ...]:
    given = {
        PodAnnotationKey.SYSTEM_NAME: settings.system_name,
        PodAnnotationKey.SYSTEM_NAME_TEMPLATE: settings.system_name_template,
    }
    return tuple(
        Notice(
            Reason.ANNOTATION_IGNORED,
            f"annotation {key} of gateway {settings.gateway} is not used: normalize.systemName is not true",
        )
        for key, value in given.items()
        if value and not normalize.system_name
    )


def _values(spec: SyncSpec, facts: GatewayFacts, cluster_name: str) -> TemplateValues:
    pod, settings, variables = facts.pod, facts.settings, facts.content.vars
    return TemplateValues(
        gateway_name=settings.gateway,
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_ordinal=pod.ordinal or None,
        site_number=spec.site_number,
        cluster_name=cluster_name or None,
        # Annotations take precedence over variables.
        time_zone=settings.time_zone or variables.get("TimeZone"),
        locale=settings.locale or variables.get("Locale"),
        vars=variables,
        labels=pod.labels,
    )
