"""The reconciler's steps: one reconcile of one resource, in order.

    finalizer             set it before any object is made           finalizer.finalizer
    load_spec             with base and defaults                     spec.load
    find_gateways         pods, and the reports of their agents      cache.gateways, cache.reports
    check_references      all named objects exist                    spec.references
    choose_ref            the spec's ref or the requested ref        spec.effective_ref
    resolve_ref           to a commit, in the background             ref_resolution.resolver
    write_token           a short-lived token for the gateways       owned.github_token
    claim_volume          the volume for a shared clone              owned.shared_volume
    roll_out              decide which gateways get the commit now   rollout.step, rollout.decide
    prepare_configmaps    in which agents report                     owned.configmaps, bidirectional.step
    apply_rbac            what agents may read and write             owned.rbac
    accept_changes        gateway changes, in the background         bidirectional.step
    publish_metadata      the metadata ConfigMap for agents          owned.configmaps
    clear_change_sets     remove answered change sets                bidirectional.step
    remove_stale_reports  reports of agents that are gone            owned.configmaps
    raise_finding         the first one, at the end

Each step returns the context with one more value set, or raises an error that carries its consequence. An
error that does not prevent the later steps is a finding: the reconcile continues, and the last step raises
the first finding. No step writes status; `stoker.controller.status.status` makes the status from what the
steps found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from stoker.controller.bidirectional.step import BidirectionalSteps, is_bidirectional
from stoker.controller.cache.gateways import GatewayFleet, fleet_of, shards_for
from stoker.controller.cache.handlers import SecretReferences, WaitingResources
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import SYNCED_KINDS, CachedResource, ResourceKey
from stoker.controller.cache.reports import reports_by_gateway
from stoker.controller.context import ReconcileContext, require_value
from stoker.controller.finalizer.finalizer import Finalizer
from stoker.controller.owned.configmaps import ConfigMapPublisher
from stoker.controller.owned.github_token import RENEW_EVERY, GitHubTokenWriter
from stoker.controller.owned.metadata import (
    CommitDelivery,
    InstallationOptions,
    build_metadata,
    decide_delivery,
)
from stoker.controller.owned.rbac import AgentRbac
from stoker.controller.owned.shared_volume import SharedVolumeClaims
from stoker.controller.ref_resolution.resolver import RefQuestion, RefResolver
from stoker.controller.rollout.step import RolloutStep
from stoker.controller.spec.effective_ref import (
    EffectiveRef,
    clear_request_annotations,
    effective_ref,
    request_trigger,
    request_values,
)
from stoker.controller.spec.load import LoadedSpec, SpecLoader
from stoker.controller.spec.references import ReferenceValidator, fleet_findings
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.errors import Retry, Stalled, StokerError, Wait
from stoker.domain.intent.source import GitAuthKind
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Conflict
from stoker.kube.client.kinds import rest_resource
from stoker.kube.leader.fencing import LeadershipLost
from stoker.kube.runtime.steps import ReconcileStep
from stoker.telemetry import tracing

T = TypeVar("T")

POLLING = "polling"
SPEC = "spec"
LOOKUP_RECHECK_SECONDS = 300.0
"""Seconds until a reconcile that found no result of the lookup is repeated; a result enqueues it before."""


@dataclass(frozen=True, slots=True)
class ReconcilerParts:
    """The objects that the steps work with."""

    observed: ControllerInformers
    client: KubeClient
    clock: Clock
    references: SecretReferences
    waiting: WaitingResources
    unseen: set[ResourceKey]
    finalizer: Finalizer
    understanding: SpecLoader
    validator: ReferenceValidator
    resolver: RefResolver
    minter: GitHubTokenWriter
    storekeeper: SharedVolumeClaims
    granter: AgentRbac
    publisher: ConfigMapPublisher
    way_back: BidirectionalSteps
    installation: InstallationOptions
    watched_secrets: tuple[str, ...]
    """Secrets that every resource of their namespace depends on."""
    outdated: Callable[[LoadedSpec, GatewayFleet], tuple[str, ...]]
    """Returns the names of pods whose sidecar differs from what would be injected now."""
    releaser: RolloutStep


class ReconcilerSteps:
    """The steps of a reconcile, in order."""

    def __init__(self, parts: ReconcilerParts) -> None:
        self._parts = parts

    def listed(self) -> tuple[ReconcileStep[ReconcileContext], ...]:
        return (
            ReconcileStep("finalizer", self._finalizer),
            ReconcileStep("load_spec", self._load_spec),
            ReconcileStep("find_gateways", self._find_gateways),
            ReconcileStep("check_references", _continue_on_error(self._check_references)),
            ReconcileStep("choose_ref", self._choose_ref),
            ReconcileStep("resolve_ref", self._resolve_ref),
            ReconcileStep("write_token", _continue_on_error(self._write_token)),
            ReconcileStep("claim_volume", _continue_on_error(self._claim_volume)),
            ReconcileStep("roll_out", self._roll_out),
            ReconcileStep("prepare_configmaps", self._prepare_configmaps),
            ReconcileStep("apply_rbac", _continue_on_error(self._apply_rbac)),
            ReconcileStep("accept_changes", self._accept_changes),
            ReconcileStep("publish_metadata", self._publish_metadata),
            ReconcileStep("clear_change_sets", _continue_on_error(self._clear_change_sets)),
            ReconcileStep("remove_stale_reports", _continue_on_error(self._remove_stale_reports)),
            ReconcileStep("raise_finding", self._raise_finding),
        )

    async def _finalizer(self, context: ReconcileContext) -> ReconcileContext:
        kept = await self._parts.finalizer.ensure(context.key, context.kept)
        return dataclasses.replace(context, kept=kept)

    async def _load_spec(self, context: ReconcileContext) -> ReconcileContext:
        understood = self._parts.understanding.of(context.key, context.kept)
        names = {one.name for one in understood.secrets}
        self._parts.references.put(context.key, names.union(self._parts.watched_secrets))
        paused_by = "spec.paused is true" if understood.intent.paused else self._parts.observed.paused_by()
        return dataclasses.replace(context, understood=understood, paused_by=paused_by)

    async def _find_gateways(self, context: ReconcileContext) -> ReconcileContext:
        observed, key = self._parts.observed, context.key
        fleet = fleet_of(observed.pods_of(key), reports_by_gateway(observed.maps, key))
        published = self._parts.publisher.published(key)
        shards = shards_for(
            [one.key for one in fleet.gateways], published.status_shards if published is not None else {}
        )
        outdated = self._parts.outdated(require_value(context.understood), fleet)
        return dataclasses.replace(
            context, fleet=fleet, published=published, shards=shards, outdated=outdated
        )

    async def _check_references(self, context: ReconcileContext) -> ReconcileContext:
        validator, understood = self._parts.validator, require_value(context.understood)
        missing = await validator.missing_keys(context.key, understood.secrets)
        findings: list[StokerError] = list(missing.values())
        class_missing = await validator.storage_class(understood.intent)
        findings += [class_missing] if class_missing is not None else []
        profiles = self._parts.observed.profiles_in(context.key.object.namespace)
        findings += fleet_findings(understood.intent, context.fleet, profiles)
        return dataclasses.replace(context, missing=tuple(missing), findings=(*context.findings, *findings))

    async def _choose_ref(self, context: ReconcileContext) -> ReconcileContext:
        intent = require_value(context.understood).intent
        effective = effective_ref(intent.source.ref, intent.requests.ref, context.status.requested_ref)
        kept = await self._without_request(context) if effective.expired else context.kept
        return dataclasses.replace(context, effective=effective, kept=kept)

    async def _without_request(self, context: ReconcileContext) -> CachedResource:
        metadata = {
            "annotations": clear_request_annotations(context.group),
            "resourceVersion": context.kept.header.metadata.resource_version,
        }
        name = context.key.object
        resource = rest_resource(SYNCED_KINDS[context.key.kind])
        patch = self._parts.client.patch(
            resource, {"metadata": metadata}, name.name, name.namespace, into=msgspec.Raw
        )
        return await self._parts.observed.resources[context.key.kind].write(name, patch)

    async def _resolve_ref(self, context: ReconcileContext) -> ReconcileContext:
        """Look up the ref, except while the resource is paused."""
        if context.paused_by:
            self._parts.resolver.rest(context.key)
            return context
        understood, effective = require_value(context.understood), require_value(context.effective)
        source = understood.intent.source._replace(ref=effective.ref)
        question = RefQuestion(
            source,
            request_values(context.kept.header.metadata.annotations, context.group),
            self._parts.validator.secret_versions(context.key, understood),
        )
        polled = understood.intent.polling.enabled
        answer = await self._parts.resolver.look(
            context.key, question, _polling_interval(understood), follows=polled
        )
        found = dataclasses.replace(context, answer=answer)
        if answer is None:
            message = f"ref {effective.ref} is being resolved"
            return _with_finding(
                found, Wait(message, after=LOOKUP_RECHECK_SECONDS, reason=Reason.REF_RESOLVING)
            )
        return found if answer.error is None else _with_finding(found, answer.error)

    async def _write_token(self, context: ReconcileContext) -> ReconcileContext:
        token = context.answer.token if context.answer is not None else None
        await self._parts.minter.mint(
            context.key, context.kept, require_value(context.understood).intent, token
        )
        return context

    async def _claim_volume(self, context: ReconcileContext) -> ReconcileContext:
        again = await self._parts.storekeeper.provide(
            context.key, context.kept, require_value(context.understood).intent
        )
        return dataclasses.replace(context, again_in=again)

    async def _roll_out(self, context: ReconcileContext) -> ReconcileContext:
        what = self._what(context)
        made = self._parts.releaser.release(context, what)
        waits = any(one.reason is Reason.DEPENDENCY_WAITING for one in made.held)
        self._parts.waiting.put(context.key, waits)
        times = [each for each in (made.again_in, context.again_in) if each is not None]
        found = dataclasses.replace(context, what=what, release=made, again_in=min(times, default=None))
        return found if made.trouble is None else _with_finding(found, made.trouble)

    def _what(self, context: ReconcileContext) -> CommitDelivery:
        effective = require_value(context.effective)
        return decide_delivery(
            context.answer.commit if context.answer is not None else None,
            effective.ref,
            require_value(context.understood).intent.source.url,
            context.published,
            trigger=_sync_trigger(context, effective),
            now=rfc3339(self._parts.clock.now()),
            traceparent=tracing.traceparent(),
        )

    async def _prepare_configmaps(self, context: ReconcileContext) -> ReconcileContext:
        highest = await self._parts.publisher.prepare(context.key, context.kept, context.shards)
        await self._parts.way_back.prepare(context)
        return dataclasses.replace(context, highest_shard=highest)

    async def _apply_rbac(self, context: ReconcileContext) -> ReconcileContext:
        await self._parts.granter.grant(
            context.key, context.kept, context.fleet, context.highest_shard, changes=is_bidirectional(context)
        )
        return context

    async def _accept_changes(self, context: ReconcileContext) -> ReconcileContext:
        return dataclasses.replace(context, accepted=self._parts.way_back.accept(context))

    async def _publish_metadata(self, context: ReconcileContext) -> ReconcileContext:
        metadata = build_metadata(
            require_value(context.understood),
            context.fleet,
            require_value(context.what),
            context.release,
            context.shards,
            paused=bool(context.paused_by),
            installation=self._parts.installation,
        )
        metadata = dataclasses.replace(metadata, changes=require_value(context.accepted).answers)
        with tracing.step("metadata.publish") as told:
            told.say(written=await self._parts.publisher.publish(context.key, context.kept, metadata))
        return context

    async def _clear_change_sets(self, context: ReconcileContext) -> ReconcileContext:
        await self._parts.way_back.empty(context)
        return context

    async def _remove_stale_reports(self, context: ReconcileContext) -> ReconcileContext:
        again = await self._parts.publisher.tidy(context.key, context.fleet, context.shards)
        times = [each for each in (again, context.again_in) if each is not None]
        return dataclasses.replace(context, again_in=min(times, default=None))

    async def _raise_finding(self, context: ReconcileContext) -> ReconcileContext:
        if not context.findings:
            return context
        finding = context.findings[0]
        if isinstance(finding, Wait) and context.again_in is not None:
            finding.after = min(finding.after, context.again_in)
        raise finding


def _continue_on_error(
    step: Callable[[ReconcileContext], Awaitable[ReconcileContext]],
) -> Callable[[ReconcileContext], Awaitable[ReconcileContext]]:
    """Record an error of the step as a finding, so that the later steps still run."""

    async def run(context: ReconcileContext) -> ReconcileContext:
        try:
            return await step(context)
        except (Conflict, LeadershipLost):
            raise
        except (Stalled, Retry) as error:
            return _with_finding(context, error)

    return run


def _with_finding(context: ReconcileContext, finding: StokerError) -> ReconcileContext:
    return dataclasses.replace(context, findings=(*context.findings, finding))


def _polling_interval(understood: LoadedSpec) -> float | None:
    polling, auth = understood.intent.polling, understood.intent.source.auth
    interval = polling.interval if polling.enabled else None
    if auth.kind is GitAuthKind.GITHUB_APP:
        return min(interval or RENEW_EVERY, RENEW_EVERY)
    return interval


def _sync_trigger(context: ReconcileContext, effective: EffectiveRef) -> str:
    """Why this commit is delivered now: a new request, a changed spec, or polling."""
    asked = context.answer is not None and context.answer.asked_for
    if asked or effective.recorded not in (None, context.status.requested_ref):
        return request_trigger(context.kept.header.metadata.annotations, context.group)
    published = context.published
    if published is None or published.ref != effective.ref or published.commit is None:
        return SPEC
    return POLLING
