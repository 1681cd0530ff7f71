"""From a key to a finished pass: the steps, the one status write, the events, and when to come back."""

from __future__ import annotations

import msgspec

from stoker.api.blocks.status import SyncStatus
from stoker.controller.observing import SYNCED_KINDS, Kept, Observed, ResourceKey, rest
from stoker.controller.passing import Context, Steps
from stoker.controller.summarizing import Summarizer
from stoker.domain.clock import Clock
from stoker.domain.reasons import ConditionType, Reason
from stoker.git.github_app import AppTokens
from stoker.git.runner import GitRunner
from stoker.kube.client import Client
from stoker.kube.conditions import find
from stoker.kube.controlling import Result
from stoker.kube.event_series import ObjectRef
from stoker.kube.events import EventRecorder
from stoker.kube.objects import Header
from stoker.kube.stepping import Pass


class _WithStatus(msgspec.Struct):
    status: SyncStatus = SyncStatus()


class Reconciler:
    """Works on one resource at a time; what it remembers of it is nothing."""

    def __init__(
        self,
        observed: Observed,
        client: Client,
        git: GitRunner,
        events: EventRecorder,
        clock: Clock,
        *,
        require_known_hosts: bool = False,
    ) -> None:
        self._observed = observed
        self._client = client
        self._events = events
        self._pass = Pass(
            steps=Steps(
                observed, client, git, AppTokens(clock), require_known_hosts=require_known_hosts
            ).listed(),
            observed=lambda context: context.status,
            summarize=Summarizer(clock),
            write=self._write_status,
            clock=clock,
        )

    async def reconcile(self, key: ResourceKey) -> Result:
        kept = self._observed.find(key)
        if kept is None or kept.header.metadata.deletion_timestamp is not None:
            return Result()  # deleting a resource leaves the files of its gateways as they are
        ended = await self._pass.run(Context(key, kept, _status(kept)))
        polling = ended.intent.polling if ended.intent is not None and not ended.intent.paused else None
        return Result(after=polling.interval if polling is not None and polling.enabled else None)

    async def _write_status(self, context: Context, status: SyncStatus) -> None:
        """A PUT with the resourceVersion that was read: whoever changed the resource since then wins."""
        body = msgspec.json.decode(context.kept.raw, type=dict[str, object])
        body["status"] = status
        kind, key = SYNCED_KINDS[context.key.kind], context.key.object
        await self._client.replace(
            rest(kind), body, key.name, key.namespace, into=Header, subresource="status"
        )
        self._tell(context, status)

    def _tell(self, context: Context, status: SyncStatus) -> None:
        """What a person should know besides, told together with the status that it goes with.

        So a ref that moved is told of even if a later step failed; and what is to be said of a
        generation is said when a pass over it goes well that did not before.
        """
        about = self._about(context)
        if _went_well(status) and not (
            _went_well(context.status) and context.status.observed_generation == status.observed_generation
        ):
            for notice in context.intent.notices if context.intent is not None else ():
                self._events.warning(about, notice.reason, notice.message)
            if context.idle_fields:
                fields = ", ".join(context.idle_fields)
                message = f"without effect in this version: {fields}"
                self._events.warning(about, Reason.FEATURE_NOT_RUNNING, message)
        if context.commit is not None and context.status.last_sync_commit not in (None, context.commit):
            moved = f"{context.status.last_sync_commit[:8]} to {context.commit.short}"
            self._events.normal(about, Reason.REF_UPDATED, f"the ref moved from {moved}")

    @staticmethod
    def _about(context: Context) -> ObjectRef:
        kind, metadata = SYNCED_KINDS[context.key.kind], context.kept.header.metadata
        return ObjectRef(kind.api_version, kind.name, metadata.name, metadata.namespace, metadata.uid)


def _went_well(status: SyncStatus) -> bool:
    """Whether the pass that wrote this status met no error."""
    ready = find(status.conditions or (), ConditionType.READY)
    return ready is not None and ready.reason in {Reason.REF_RESOLVED, Reason.PAUSED}


def _status(kept: Kept) -> SyncStatus:
    """The status as the server has it; one that cannot be read is written anew."""
    try:
        return msgspec.json.decode(kept.raw, type=_WithStatus).status
    except msgspec.ValidationError:
        return SyncStatus()
