"""The reconcile step that decides which gateways get the commit now.

The decision itself is pure (`stoker.controller.rollout.decide`). This step collects its inputs, and starts
the health checks and announcements that it requires in the background.
"""

from __future__ import annotations

import dataclasses

import msgspec

from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.context import ReconcileContext, require_value
from stoker.controller.health_checks_and_notices import BackgroundTasks
from stoker.controller.owned.configmaps import ConfigMapPublisher
from stoker.controller.owned.metadata import CommitDelivery
from stoker.controller.rollout import (
    RolloutDecision,
    RolloutInputs,
    StageHealthCheck,
    StageHealthResult,
    decide_release,
)
from stoker.controller.rollout.callouts import ApprovalNotice, announcement
from stoker.controller.spec.effective_ref import last_request_id
from stoker.controller.spec.references import profile_dependencies
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.protocol import AgentMetadata, GatewayTarget
from stoker.domain.refs import CommitId


class RolloutStep:
    """Decides the rollout of one resource at a time."""

    def __init__(
        self,
        observed: ControllerInformers,
        publisher: ConfigMapPublisher,
        clock: Clock,
        checks: BackgroundTasks[StageHealthCheck, StageHealthResult],
        announcements: BackgroundTasks[ApprovalNotice, bool],
    ) -> None:
        """`checks` runs health checks of stages, `announcements` sends requests to approvers' services."""
        self._observed = observed
        self._publisher = publisher
        self._clock = clock
        self.checks = checks
        self.announcements = announcements

    def release(self, context: ReconcileContext, what: CommitDelivery) -> RolloutDecision:
        """Return the target of each gateway."""
        back_to = require_value(context.understood).intent.rollback.to_commit
        if back_to is not None:
            return _rollback_release(context, back_to)
        if context.paused_by and context.published is not None:
            return _paused_release(context, context.published)
        return self._decided(context, what)

    def forget(self, key: ResourceKey) -> None:
        self.checks.forget(key)
        self.announcements.forget(key)

    def _decided(self, context: ReconcileContext, what: CommitDelivery) -> RolloutDecision:
        intent, namespace = require_value(context.understood).intent, context.key.object.namespace
        waits_for = profile_dependencies(self._observed.profiles_in(namespace))
        ordered = any(waits_for.get(one.profile) for one in context.fleet.gateways)
        published = context.published
        situation = RolloutInputs(
            context.fleet,
            what.commit,
            str(what.ref or ""),
            self._clock.now(),
            intent.deployment,
            intent.rate_limit,
            intent.approval,
            intent.requests,
            waits_for,
            list(self._publisher.neighbours(namespace, but=context.key)) if ordered else [],
            published if published is not None and published.git_url == intent.source.url else None,
            context.status,
            intent.policies.access,
            last_request_id(context.kept.header.metadata.annotations, context.group),
        )
        made = decide_release(situation)
        if made.check_up is None:
            self.checks.forget(context.key)
        while made.check_up is not None:
            checked = self.checks.look(context.key, made.check_up)
            if checked is None:
                break
            # The next stage may be synced already and need a health check of its own.
            made = decide_release(dataclasses.replace(situation, checked=checked))
        return self._announced(context, made)

    def _announced(self, context: ReconcileContext, made: RolloutDecision) -> RolloutDecision:
        """Announce a pending approval where that is configured, and record when it was announced."""
        request, url = made.approval, require_value(context.understood).intent.approval.webhook_url
        if not url or request is None or request.state != "Pending" or request.announced_at:
            self.announcements.forget(context.key)
            return made
        if not self.announcements.look(context.key, announcement(context.key, url, request)):
            return made
        at = rfc3339(self._clock.now())
        return dataclasses.replace(made, approval=msgspec.structs.replace(request, announced_at=at))


def _rollback_release(context: ReconcileContext, commit: CommitId) -> RolloutDecision:
    """Give all gateways the rollback's commit at once: a user requested it, so no gate applies.

    The way forward again is a normal rollout.
    """
    return RolloutDecision(
        {one.target: GatewayTarget(commit) for one in context.fleet.gateways if not one.override}
    )


def _paused_release(context: ReconcileContext, published: AgentMetadata) -> RolloutDecision:
    """Keep all targets while the resource is paused, and start no health check."""
    return RolloutDecision(
        published.targets, progress=context.status.release, approval=context.status.approval
    )
