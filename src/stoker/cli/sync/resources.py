"""Builds a sync request from resources in files: picks the resource, and resolves it for this gateway.

Uses the same types and adapters as in a cluster, with the same error messages. Options provide what a pod
would carry (`--annotation`, `--label`, `--gateway-name`). If several resources or profiles match, none is
guessed: the error lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.api.kinds.ignitionsync import IgnitionSyncBase
from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.manifests.files import read_manifests
from stoker.api.to_intent import (
    MODELS,
    IntentContext,
    PodFacts,
    base_ref,
    gateway_intent_for,
    intent_for,
    merge_spec,
)
from stoker.api.to_intent.inheritance import written_spec
from stoker.api.to_intent.pod_facts import LEGACY_PREFIX, PREFIX, PodAnnotationKey
from stoker.api.to_intent.tree_merge import SpecTree
from stoker.cli.common import option_types
from stoker.cli.common.manifest_files import read_bounded, with_namespace
from stoker.cli.common.options import STDIN, SharedOptionValues
from stoker.cli.sync.cluster_only_fields import ignored_field_notices, refuse_cluster_gates
from stoker.cli.sync.job import build_sync_job, data_dir_of
from stoker.cli.sync.secret_files import SecretFiles
from stoker.cli.sync.sync_request import SyncRequest
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import ReceiverPolicy
from stoker.domain.intent.intent import Notice
from stoker.domain.intent.policies import DriftMode, DriftPolicy, RollbackTarget
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.snapshots.ids import belongs_to


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """The resources of all files, each with its namespace filled in."""

    mains: tuple[CustomResource, ...]
    bases: tuple[IgnitionSyncBase, ...]
    profiles: tuple[SyncProfile, ...]
    others: tuple[CustomResource, ...]


def order_from_resource(given: SharedOptionValues) -> SyncRequest:
    for flag, value in (("--map", given.folders), ("--map-file", given.singles)):
        if value:
            raise InvalidValue(f"{flag} cannot be combined with -f: the resource maps the files")
    data_dir_of(given)
    found = read_files(given.manifests, given.namespace)
    annotations = _annotations(given)
    main = _choose_main_resource(found, annotations, given.gateway_name)
    pod = _build_pod_facts(given, main, found, annotations)
    base = _find_base(main, found)
    known, spec = merge_spec(main, base=base), written_spec(main, base.spec if base is not None else None)
    around = _build_surroundings(found, pod)
    intent, whole = gateway_intent_for(known, pod, around), intent_for(known)
    refuse_cluster_gates(spec)
    return SyncRequest(
        job=build_sync_job(given, intent.source, intent.files, intent.values)._replace(
            binaries=intent.policies.ignition.binaries,
            module_order=intent.policies.ignition.module_order,
            ignore=intent.policies.drift.ignore,
        ),
        secrets=SecretFiles.given(given.secrets, given.secrets_dir),
        namespace=pod.namespace,
        resource=main.metadata.name,
        owner=intent.resource,
        gateway=intent.gateway,
        drift=_standalone_drift_policy(intent.policies.drift),
        polling=whole.polling,
        webhook_keys=_webhook_keys(whole.receiver),
        webhook_port=whole.receiver.port,
        host="" if intent.policies.access.files_only else "127.0.0.1",
        access=None if intent.policies.access.files_only else intent.policies.access,
        files_only="spec.gateway.filesOnly" if intent.policies.access.files_only else "",
        ignition=intent.policies.ignition,
        # The mount path of a claim is known only in a cluster.
        snapshots=replace(intent.policies.snapshots, claim_name=""),
        auto_rollback=whole.deployment.auto_rollback,
        rollback=_rollback_for_gateway(whole.rollback, intent.gateway),
        released_commits=intent.released_commits,
        windows=intent.policies.maintenance_windows,
        validation=intent.policies.validation,
        approved_plans=intent.approved_plans,
        paused=intent.paused or whole.paused,
        dry_run=intent.dry_run or intent.policies.validation.dry_run_before,
        notices=(
            *dict.fromkeys((*known.notices, *whole.notices, *intent.notices)),
            *_ineffective_setting_notices(main, pod, around, spec),
            *(_unused_resource_notice(one) for one in found.others),
        ),
    )


def read_files(names: Sequence[str], namespace: str) -> LoadedManifests:
    """Read all resources of the files, in their order."""
    if names.count(STDIN) > 1:
        raise InvalidValue("standard input can be read only once: -f - is given twice")
    every = [
        with_namespace(one, namespace)
        for name in names
        for one in read_manifests(read_bounded(name), _file_title(name))
    ]
    mains = tuple(one for one in every if isinstance(one, MODELS))
    bases = tuple(one for one in every if isinstance(one, IgnitionSyncBase))
    profiles = tuple(one for one in every if isinstance(one, SyncProfile))
    others = tuple(one for one in every if not isinstance(one, (*MODELS, IgnitionSyncBase, SyncProfile)))
    seen: set[str] = set()
    for one in every:
        name = f"{_resource_title(one)} in namespace {one.metadata.namespace}"
        if name in seen:
            raise InvalidValue(f"{name} is in the files twice")
        seen.add(name)
    return LoadedManifests(mains, bases, profiles, others)


def _file_title(name: str) -> str:
    return "standard input" if name == STDIN else name


def _annotations(given: SharedOptionValues) -> dict[str, str]:
    """Annotations with the prefix that a pod's would have; a bare key gets our prefix."""
    found: dict[str, str] = {}
    for name, value in option_types.parse_pairs("--annotation", given.annotations).items():
        found[name if "/" in name else PREFIX + name] = value
    if given.gateway_name:
        found[PREFIX + PodAnnotationKey.GATEWAY_NAME] = given.gateway_name
    return found


def _choose_main_resource(
    found: LoadedManifests, annotations: dict[str, str], gateway: str
) -> CustomResource:
    if not found.mains:
        kinds = " or ".join(model.__name__ for model in MODELS)
        raise InvalidValue(f"the files hold no {kinds}, so there is nothing to sync")
    named = _annotation_value(annotations, PodAnnotationKey.CR_NAME)
    if named:
        fitting = [one for one in found.mains if one.metadata.name == named]
        kind = _annotation_value(annotations, PodAnnotationKey.CR_KIND)
        fitting = [one for one in fitting if not kind or type(one).__name__ == kind]
        if len(fitting) == 1:
            return fitting[0]
        raise InvalidValue(
            f"annotation {PodAnnotationKey.CR_NAME} is {named!r}, and the files hold "
            f"{_resource_titles(found.mains)}"
        )
    if len(found.mains) == 1:
        return found.mains[0]
    fitting = [one for one in found.mains if gateway and one.metadata.name == gateway]
    if len(fitting) == 1:
        return fitting[0]
    raise InvalidValue(
        f"the files hold {_resource_titles(found.mains)}; choose one with --annotation "
        f"{PodAnnotationKey.CR_NAME}=NAME"
    )


def _build_pod_facts(
    given: SharedOptionValues, main: CustomResource, found: LoadedManifests, annotations: dict[str, str]
) -> PodFacts:
    """Build the pod that the gateway would have.

    Unless an annotation names a profile or a service path, a profile applies if it is the only profile or
    has the gateway's name.
    """
    names = [one.metadata.name for one in found.profiles if one.metadata.namespace == main.metadata.namespace]
    says = {
        _annotation_value(annotations, key)
        for key in (PodAnnotationKey.SYNC_PROFILE, PodAnnotationKey.SERVICE_PATH)
    }
    if names and says == {""}:
        fitting = names if len(names) == 1 else [name for name in names if name == given.gateway_name]
        if len(fitting) != 1:
            raise InvalidValue(
                f"the files hold SyncProfiles {', '.join(sorted(names))}; "
                f"choose one with --annotation {PodAnnotationKey.SYNC_PROFILE}=NAME"
            )
        annotations = {**annotations, PREFIX + PodAnnotationKey.SYNC_PROFILE: fitting[0]}
    return PodFacts(
        name=given.gateway_name or main.metadata.name,
        namespace=main.metadata.namespace,
        labels=option_types.parse_pairs("--label", given.labels),
        annotations=annotations,
    )


def _annotation_value(annotations: dict[str, str], key: PodAnnotationKey) -> str:
    return annotations.get(PREFIX + key, "").strip() or annotations.get(LEGACY_PREFIX + key, "").strip()


def _find_base(main: CustomResource, found: LoadedManifests) -> IgnitionSyncBase | None:
    wanted = base_ref(main)
    if wanted is None:
        return None
    home = wanted.namespace or main.metadata.namespace
    for one in found.bases:
        if (one.metadata.namespace, one.metadata.name) == (home, wanted.name):
            return one
    raise InvalidValue(
        f"IgnitionSyncBase {home}/{wanted.name}, which {_resource_title(main)} inherits from, "
        "is in none of the files; give it with another -f",
        reason=Reason.BASE_NOT_FOUND,
    )


def _build_surroundings(found: LoadedManifests, pod: PodFacts) -> IntentContext:
    return IntentContext(
        profiles={one.metadata.name: one for one in found.profiles if one.metadata.namespace == pod.namespace}
    )


def _webhook_keys(receiver: ReceiverPolicy) -> tuple[SecretKey, ...]:
    return tuple(key for key in (receiver.hmac_key, receiver.bearer) if key) if receiver.enabled else ()


def _rollback_for_gateway(asked: RollbackTarget, gateway: str) -> RollbackTarget | None:
    """Return the rollback if it applies here; a snapshot belongs to one gateway, others ignore it."""
    mine = bool(asked.to_snapshot) and belongs_to(gateway, asked.to_snapshot)
    return asked if asked.to_commit or mine else None


def _standalone_drift_policy(wanted: DriftPolicy) -> DriftPolicy:
    return replace(wanted, mode=DriftMode.REPORT) if wanted.mode is DriftMode.CAPTURE else wanted


def _ineffective_setting_notices(
    main: CustomResource, pod: PodFacts, around: IntentContext, spec: SpecTree
) -> Iterator[Notice]:
    """One notice for each setting that the user wrote and that has no effect here."""
    profile = around.profiles.get(_annotation_value(dict(pod.annotations), PodAnnotationKey.SYNC_PROFILE))
    said = {
        str(key): value
        for key in PodAnnotationKey
        if (value := _annotation_value(dict(pod.annotations), key))
    }
    asked = {name.rpartition("/")[2]: value for name, value in (main.metadata.annotations or {}).items()}
    yield from ignored_field_notices(spec, written_spec(profile) if profile is not None else {}, said, asked)


def _unused_resource_notice(other: CustomResource) -> Notice:
    return Notice(Reason.FIELD_IGNORED, f"{_resource_title(other)} is in the files but is not used by a sync")


def _resource_title(resource: CustomResource) -> str:
    return f"{type(resource).__name__} {resource.metadata.name}"


def _resource_titles(resources: Sequence[CustomResource]) -> str:
    return ", ".join(_resource_title(one) for one in resources)
