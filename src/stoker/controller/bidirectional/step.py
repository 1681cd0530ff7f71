"""The reconcile steps of bidirectional sync: prepare the inbox, accept change sets, empty the inbox.

Before the metadata is published, the inbox exists and the newest replies are known. After it is published,
answered change sets are removed. A reconcile never waits for git here. While a resource is paused nothing
goes to git, and published replies stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from stoker.api.to_intent import IntentContext, gateway_intent_for
from stoker.controller.bidirectional.inbox import ChangeSetInbox, change_sets_in, stray_keys
from stoker.controller.bidirectional.status import read_standings
from stoker.controller.bidirectional.types import BidirectionalRequest, BidirectionalResult, ChangeSetSender
from stoker.controller.bidirectional.worker import BidirectionalWorker
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.context import ReconcileContext, require_value
from stoker.controller.owned.configmaps import ConfigMapPublisher
from stoker.controller.spec.references import ReferenceValidator
from stoker.domain.protocol import GatewayTarget, SyncMode
from stoker.domain.refs import CommitId


class BidirectionalSteps:
    """The steps of bidirectional sync."""

    def __init__(
        self,
        observed: ControllerInformers,
        publisher: ConfigMapPublisher,
        validator: ReferenceValidator,
        postbox: ChangeSetInbox,
        acceptor: BidirectionalWorker,
        cluster_name: str,
    ) -> None:
        self._observed = observed
        self._publisher = publisher
        self._validator = validator
        self._postbox = postbox
        self._acceptor = acceptor
        self._cluster_name = cluster_name

    async def prepare(self, context: ReconcileContext) -> None:
        if is_bidirectional(context):
            await self._postbox.prepare(context.key, context.kept)

    def accept(self, context: ReconcileContext) -> BidirectionalResult:
        """Return the replies to publish for change sets."""
        if not is_bidirectional(context):
            self._acceptor.forget(context.key)
            return BidirectionalResult()
        before = accepted_changes(context)
        if context.paused_by:
            return before
        return self._acceptor.look(context.key, self._ask(context), before)

    async def empty(self, context: ReconcileContext) -> None:
        """Remove change sets whose reply is published."""
        if not is_bidirectional(context) or context.paused_by:
            return
        published = self._publisher.published(context.key)
        out = stray_keys(self._postbox.keys(context.key))
        for parcel in self._acceptor.settled(context.key, dict(published.changes) if published else {}):
            for name, key in parcel.chunks:
                out.setdefault(name, []).append(key)
        if out:
            await self._postbox.empty(context.key, out)

    def forget(self, key: ResourceKey) -> None:
        self._acceptor.forget(key)

    def _ask(self, context: ReconcileContext) -> BidirectionalRequest:
        understood, effective = require_value(context.understood), require_value(context.effective)
        intent = understood.intent
        profiles = self._observed.profiles_in(context.key.object.namespace)
        around = IntentContext(profiles, self._cluster_name, len(context.fleet.gateways) <= 1)
        commit = context.what.commit if context.what is not None else None
        return BidirectionalRequest(
            policy=intent.policies.bidirectional,
            source=intent.source._replace(ref=effective.ref),
            commit=commit,
            interval=intent.polling.interval if intent.polling.enabled else None,
            secrets=self._validator.secret_versions(context.key, understood),
            senders={
                one.key: ChangeSetSender(
                    one.key,
                    one.target,
                    one.name,
                    partial(gateway_intent_for, understood.settled, one.pod.facts, around),
                )
                for one in context.fleet.gateways
            },
            parcels=change_sets_in(self._postbox.keys(context.key)),
            behind=gateways_behind(context.release.targets if context.release is not None else {}, commit),
        )


def gateways_behind(orders: Mapping[str, GatewayTarget], commit: CommitId | None) -> frozenset[str]:
    """Targets that may not apply the commit yet."""
    return frozenset(
        name for name, one in orders.items() if one.commit != commit or one.mode is SyncMode.PLAN
    )


def accepted_changes(context: ReconcileContext) -> BidirectionalResult:
    """The result of this reconcile; before that step, the result of the previous reconcile."""
    if context.accepted is not None:
        return context.accepted
    answers = context.published.changes if context.published is not None else {}
    return BidirectionalResult(answers, read_standings(context.status, context.fleet))


def is_bidirectional(context: ReconcileContext) -> bool:
    return context.understood is not None and context.understood.intent.policies.bidirectional.enabled
