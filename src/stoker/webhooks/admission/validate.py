"""Validates a resource before it is stored, beyond its schema.

The messages are those of `stoker.api.to_intent`: what it would refuse later is refused now, and what it
would only mention is a warning. A reference to an object that does not exist yet is never refused,
because manifests are applied in any order. An unchanged spec is never refused either; otherwise an object
could not even be deleted once the rules have become stricter.

The controller and the reverser check all of this again, so validation is only early feedback. Approvals
are the exception: only admission can check them (`stoker.webhooks.admission.approver_identity`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig, allows_namespace
from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.api.manifests.codec import decode
from stoker.api.manifests.validate import broken_rules
from stoker.api.registry import CustomResourceKind, kind_for
from stoker.api.to_intent import intent_for, merge_spec
from stoker.api.to_intent.gateway_content import maps_root, refuse_root_mapping
from stoker.domain.clock import SystemClock
from stoker.domain.cycles import refuse_cycle
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.intent import Notice
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import ApiError
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger
from stoker.webhooks.admission import approver_identity
from stoker.webhooks.admission.content_rules import check_policies, check_profile
from stoker.webhooks.admission.destination_rules import check_destination, check_repository
from stoker.webhooks.admission.lookups import AdmissionLookup
from stoker.webhooks.admission.reviews import AdmissionRequest, AdmissionVerdict

log = get_logger(__name__)

ResourceCheck = Callable[[Any], Awaitable[Iterable[Notice]]]


class _SpecPart(msgspec.Struct):
    """The undecoded spec, to detect updates that change only metadata."""

    spec: msgspec.Raw = msgspec.Raw()


class ResourceValidator:
    """Reviews resources of Stoker's own kinds."""

    def __init__(self, look_up: AdmissionLookup, defaults: IgnitionSyncBaseSpec) -> None:
        self._look_up = look_up
        self._defaults = defaults
        self._checks: dict[type[Model], ResourceCheck] = {
            IgnitionSync: self._sync,
            Stoker: self._sync,
            IgnitionSyncBase: self._base,
            SyncProfile: self._profile,
            GitRepoConfig: self._repository,
            GitDestination: self._destination,
            WatchRule: self._rule,
            ClusterWatchRule: self._rule,
        }

    async def review(self, review: AdmissionRequest) -> AdmissionVerdict:
        """Return the verdict on a resource as it would be stored."""
        if review.new is None or review.operation not in ("CREATE", "UPDATE") or review.sub_resource:
            return AdmissionVerdict()
        kind = kind_for(review.kind.api_version, review.kind.kind)
        if review.old is not None and _same_spec(review.old, review.new):
            return AdmissionVerdict()
        try:
            notices = await self._notices(kind, review)
        except ApiError:
            raise  # not the fault of the resource's author
        except Stalled as error:
            return _refused_verdict(kind, review, error)
        return AdmissionVerdict(warnings=tuple(f"{one.reason}: {one.message}" for one in notices))

    async def review_approval(self, review: AdmissionRequest) -> AdmissionVerdict:
        """Return the verdict on a change of a resource's approval annotations."""
        if review.new is None or review.operation not in ("CREATE", "UPDATE"):
            return AdmissionVerdict()
        kind = kind_for(review.kind.api_version, review.kind.kind)
        new = self._decoded(kind, review, review.new)
        old = None if review.old is None else self._decoded(kind, review, review.old)
        before = (old.metadata.annotations or {}) if old is not None else {}
        approval = approver_identity.changed_approval(before, new.metadata.annotations or {}, kind.group)
        if not approval:
            return AdmissionVerdict()
        try:
            # The old policy counts: an approver must not change who may approve in the same write.
            intent = await self._look_up.intent_of(old if old is not None else new)
        except ApiError:
            raise
        except Stalled as error:
            return _refused_verdict(kind, review, Stalled(f"an approval cannot be checked: {error.message}"))
        user = review.user_info
        groups, now = user.groups or (), SystemClock().now()
        why = approver_identity.approval_rejection(
            approval, kind.group, user.username, groups, intent.approval, now
        )
        return (
            _refused_verdict(kind, review, Stalled(why, reason=Reason.APPROVER_MISMATCH))
            if why
            else AdmissionVerdict()
        )

    async def _notices(self, kind: CustomResourceKind, review: AdmissionRequest) -> list[Notice]:
        resource = self._decoded(kind, review, review.new or b"")
        if resource.metadata.deletion_timestamp is not None:
            return []
        problems = [str(problem) for problem in broken_rules(resource)]
        if problems:
            raise InvalidValue("; ".join(problems[:10]), reason=Reason.INVALID_SPEC)
        return list(await self._checks[kind.model](resource))

    def _decoded(self, kind: CustomResourceKind, review: AdmissionRequest, raw: bytes) -> Model:
        resource = decode(raw, kind.model)
        if kind.namespaced and not resource.metadata.namespace:
            metadata = msgspec.structs.replace(resource.metadata, namespace=review.namespace)
            return msgspec.structs.replace(resource, metadata=metadata)
        return resource

    async def _sync(self, resource: Stoker | IgnitionSync) -> Iterable[Notice]:
        check_policies(resource.spec)
        try:
            base = await self._look_up.base_for(resource)
            settled = merge_spec(resource, base=base, defaults=self._defaults)
        except (InvalidValue, ApiError):
            raise
        except Stalled as error:  # the base is missing or does not allow it, which may change later
            return [Notice(error.reason, error.message)]
        intent = intent_for(settled)
        if intent.policies.bidirectional.enabled:
            for profile in await self._look_up.profiles(resource.metadata.namespace):
                refuse_root_mapping(_sources(profile), f"SyncProfile {profile.metadata.name}")
        return intent.notices

    async def _base(self, base: IgnitionSyncBase) -> Iterable[Notice]:
        check_policies(base.spec)
        return ()

    async def _profile(self, profile: SyncProfile) -> Iterable[Notice]:
        missing = check_profile(profile.spec)
        if maps_root(_sources(profile)) and await self._look_up.bidirectional(profile.metadata.namespace):
            refuse_root_mapping(_sources(profile), f"SyncProfile {profile.metadata.name}")
        notices = [Notice(Reason.INVALID_VALUE, one) for one in missing]
        if not profile.spec.depends_on:
            return notices
        others = await self._look_up.profiles(profile.metadata.namespace)
        known = {one.metadata.name: one for one in (*others, profile)}
        waits_for = {name: _dependencies(one) for name, one in known.items()}
        refuse_cycle(profile.metadata.name, waits_for, what="SyncProfile")
        absent = [name for name in waits_for[profile.metadata.name] if name not in known]
        return [
            *notices,
            *(
                Notice(Reason.PROFILE_NOT_FOUND, f"SyncProfile {name!r} does not exist yet")
                for name in absent
            ),
        ]

    async def _repository(self, repository: GitRepoConfig) -> Iterable[Notice]:
        return check_repository(repository, await self._look_up.destinations())

    async def _destination(self, destination: GitDestination) -> Iterable[Notice]:
        repositories = {
            ObjectKey(one.metadata.namespace, one.metadata.name): one
            for one in await self._look_up.repositories()
        }
        return check_destination(destination, await self._look_up.destinations(), repositories)

    async def _rule(self, rule: WatchRule | ClusterWatchRule) -> Iterable[Notice]:
        wanted = rule.spec.destination_ref
        namespace = wanted.namespace or rule.metadata.namespace
        notices = [
            Notice(Reason.FIELD_IGNORED, f"spec.rules[{index}].resources: {name!r} has no effect")
            for index, one in enumerate(rule.spec.rules)
            for name in one.resources
            if "/" in name
        ]
        destination = await self._look_up.find(GitDestination, namespace, wanted.name)
        allowed = destination.spec.allowed_namespaces if destination is not None else None
        home = rule.metadata.namespace if isinstance(rule, WatchRule) else namespace
        if not allows_namespace(namespace, home, allowed):
            why = f"GitDestination {namespace}/{wanted.name} does not allow WatchRules of namespace {home}"
            notices.append(Notice(Reason.DESTINATION_POLICY_DENIED, why))
        elif destination is None:
            missing = f"GitDestination {namespace}/{wanted.name} does not exist yet"
            notices.append(Notice(Reason.DESTINATION_NOT_FOUND, missing))
        return notices


def _dependencies(profile: SyncProfile) -> tuple[str, ...]:
    return tuple(one.profile_name for one in profile.spec.depends_on or ())


def _sources(profile: SyncProfile) -> tuple[str, ...]:
    overlay = profile.spec.deployment_mode
    return (*(one.source for one in profile.spec.mappings), *((overlay.source,) if overlay else ()))


def _same_spec(old: bytes, new: bytes) -> bool:
    """Compare the bytes: the API server writes both with the same encoder, keys in order."""
    try:
        before, after = (msgspec.json.decode(raw, type=_SpecPart).spec for raw in (old, new))
    except (msgspec.MsgspecError, RecursionError):
        return False
    return bytes(before) == bytes(after)


def _refused_verdict(kind: CustomResourceKind, review: AdmissionRequest, error: Stalled) -> AdmissionVerdict:
    log.info(
        "resource.refused",
        kind=kind.name,
        namespace=review.namespace,
        resource=review.name,
        user=review.user_info.username,
        reason=error.reason,
        error=error.message,
    )
    return AdmissionVerdict(refusal=f"{error.reason}: {error.message}")
