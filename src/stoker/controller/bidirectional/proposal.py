"""Processes one change set of a gateway, from the inbox to git and the forge.

    read → mark → decode → commit to the branch → reply → pull request

The reply comes before the pull request: git has the change then, and a forge that refuses must not block the
next change set. This module keeps no state.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from stoker.controller.bidirectional.answers import (
    ChangeSetOutcome,
    recorded_outcome,
    refused_outcome,
    release_holds,
    with_open_request,
    without_request,
)
from stoker.controller.bidirectional.branch_name import branch_for, is_direct
from stoker.controller.bidirectional.commit import RecordedChangeSet, record_changes
from stoker.controller.bidirectional.guardrails import GuardrailRules
from stoker.controller.bidirectional.holds import MAX_REFUSED_BYTES, can_never_fit, check_room, holds_after
from stoker.controller.bidirectional.inbox import InboxReader
from stoker.controller.bidirectional.messages import ChangeSetOrigin, request_description, request_title
from stoker.controller.bidirectional.pull_request import BranchPullRequests, ProposalState
from stoker.controller.bidirectional.types import (
    BidirectionalRequest,
    ChangeSetSender,
    GatewayChangesState,
    ReceivedChangeSet,
)
from stoker.controller.cache.objects import ResourceKey
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue, Stalled, StokerError
from stoker.domain.intent.intent import GatewayIntent
from stoker.domain.intent.policies import BidirectionalPolicy, ConflictStrategy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.protocol import ChangeSet, ChangeSetReply
from stoker.domain.protocol.change_set_codec import ChangeSetChunk, decode, is_complete
from stoker.forges import Forge
from stoker.git.auth.credentials import RepoAccess
from stoker.git.commit.proposal_branch import ProposalBase, ProposalBranches
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.telemetry.logs import get_logger

ProposalAccessReader = Callable[[str, SourceIntent], Awaitable[RepoAccess]]
"""Returns the access to a source for a namespace, from its current Secrets."""
ForgeFactory = Callable[[str, SourceIntent, BidirectionalPolicy], Awaitable[Forge]]
"""Returns the forge for the pull requests of a source; raises `Stalled` if there can be none."""

PROCESS = secrets.token_hex(8)
"""Differs after each start: a restarted container keeps its pod's name."""

log = get_logger(__name__)


OutcomeListener = Callable[[ChangeSetOutcome], None]


class ChangeSetProcessor:
    """Processes change sets; one call at a time for each resource."""

    def __init__(
        self,
        git: GitRunner,
        cache: Path,
        access: ProposalAccessReader,
        forges: ForgeFactory,
        reader: InboxReader,
        clock: Clock,
        *,
        opened: Callable[[ResourceKey], None] = lambda key: None,
        process: str = PROCESS,
    ) -> None:
        """`opened` is called for each new pull request; `process` identifies this process after a restart."""
        self._git = git
        self._cache = cache
        self._access = access
        self._forges = forges
        self._reader = reader
        self._clock = clock
        self._opened = opened
        self._process = process

    async def carry(
        self,
        key: ResourceKey,
        ask: BidirectionalRequest,
        sender: ChangeSetSender,
        parcel: ReceivedChangeSet,
        answers: Mapping[str, ChangeSetReply],
        before: GatewayChangesState | None,
        answered: OutcomeListener,
    ) -> bool:
        """Commit a change set and call `answered`; return False while chunks are missing."""
        standing = before if before is not None else GatewayChangesState()
        try:
            changes = await self._decoded(key, sender, parcel)
        except InvalidValue as error:
            answered(refused_outcome(parcel.id, error.message, answers.get(sender.target), standing))
            return True
        if changes is None:
            return False
        intent = sender.intent()
        ask = _with_gateway_ref(ask, intent)
        rules, branch = GuardrailRules(intent, ask.policy), branch_for(intent, ask.policy, ask.source.ref)
        judged = rules.judge(changes.files)
        if sum(len(note.path.encode()) for note in judged.refused) > MAX_REFUSED_BYTES:
            message = f"{len(judged.refused)} files may not be proposed to git, more than can be listed"
            answered(refused_outcome(parcel.id, message, answers.get(sender.target), standing))
            return True
        last = answers.get(sender.target)
        held = last.holds if last is not None else ()
        new = [it.path for it in judged.taken]
        to_hold = () if is_direct(ask.policy, ask.source.ref) else holds_after(ask.policy.conflicts, (), new)
        if to_hold and can_never_fit(answers, sender.target, to_hold, len(ask.senders)):
            message = f"{len(new)} files at once are more than can be held until a review"
            answered(refused_outcome(parcel.id, message, answers.get(sender.target), standing))
            return True
        if to_hold:
            holds = holds_after(ask.policy.conflicts, held, new)
            check_room(answers, sender.target, holds, len(ask.senders))
        origin = ChangeSetOrigin(key.identity, sender.name)
        recorded = await self._record(key, ask, branch, changes, rules, origin)
        outcome = recorded_outcome(ask, branch, changes, recorded, last, standing)
        log.info(
            "changes.recorded",
            key=str(key),
            gateway=sender.name,
            id=changes.id,
            branch=branch,
            commit=recorded.tip,
            files=len(recorded.verdict.changed),
            conflicts=len(recorded.verdict.conflicts),
            refused=len(recorded.refused),
        )
        answered(outcome)
        if outcome.standing.branch and recorded.verdict.edits:
            answered(await self._requested(key, ask, origin, outcome.standing, changes, recorded))
        return True

    async def _decoded(
        self, key: ResourceKey, sender: ChangeSetSender, parcel: ReceivedChangeSet
    ) -> ChangeSet | None:
        """Return the change set, or None while it is incomplete; raise `InvalidValue` if it is invalid.

        A change set that crashes the process is decoded only once. The attempt is marked in the ConfigMap
        before it starts; a mark of another process that is still there means that the attempt never ended.
        """
        raw = await self._reader.read(key, parcel)
        if raw is None:
            return None
        chunks = [ChangeSetChunk.parse(part) for part in raw.parts]
        if not is_complete(chunks):
            return None
        digest = sha256(b"".join(chunk.digest.encode() for chunk in chunks)).hexdigest()
        tried, _, process = raw.attempt.partition(" ")
        if tried == digest and process != self._process:
            log.error("changes.decoding_died", key=str(key), gateway=sender.name, id=parcel.id, digest=digest)
            raise InvalidValue(
                f"change set {parcel.id} of gateway {sender.name} is skipped: the controller crashed while "
                "decoding it. Its files stay on the gateway; save them again to send them again"
            )
        await self._reader.mark(key, parcel, f"{digest} {self._process}")
        try:
            return await asyncio.to_thread(_decode_change_set, chunks, sender)
        finally:
            # A leftover mark of this process is harmless: the next attempt replaces it.
            with suppress(StokerError):
                await self._reader.mark(key, parcel, "")

    async def follow(
        self,
        key: ResourceKey,
        ask: BidirectionalRequest,
        sender: ChangeSetSender | None,
        answer: ChangeSetReply | None,
        standing: GatewayChangesState,
        *,
        behind: bool = False,
    ) -> ChangeSetOutcome:
        """Check the open proposal; `sender` is None while the gateway has no pod.

        `behind`: the gateway may not apply the resource's commit yet.
        """
        branch = standing.branch
        if sender is not None:
            intent = sender.intent()
            ask = _with_gateway_ref(ask, intent)
            branch = branch or branch_for(intent, ask.policy, ask.source.ref)
        if not branch:
            return ChangeSetOutcome(None, standing)
        standing = replace(standing, branch=branch)
        proposals = self._proposals(key, ask)
        async with proposals.held():
            ground = await proposals.look(branch)
            over_by_itself = await self._is_in(proposals, ground, ask, sender, answer)
        requests, why = await self._requests(key, ask, ground, branch)
        course = ProposalState.CLOSED if ground.branch is None else ProposalState.WANTED
        if requests is not None:
            course, request = await requests.course(ground)
            if course is ProposalState.OPEN and request is not None:
                return ChangeSetOutcome(None, with_open_request(standing, request.url))
        if course is ProposalState.WANTED and over_by_itself:
            course = ProposalState.MERGED
        if course is ProposalState.MERGED and ask.commit is not None and (behind or ask.commit != ground.tip):
            # A hold ends only when the gateway may apply the merge, or it would first revert the files.
            return ChangeSetOutcome(None, standing)
        if course in (ProposalState.MERGED, ProposalState.CLOSED):
            return ChangeSetOutcome(release_holds(answer), without_request(standing))
        if requests is None:
            return ChangeSetOutcome(None, replace(standing, request="", reason=None, message=why))
        origin = ChangeSetOrigin(
            key.identity, sender.name if sender is not None else branch.rpartition("/")[2]
        )
        return await self._put(key, ask, origin, standing, requests)

    async def _record(
        self,
        key: ResourceKey,
        ask: BidirectionalRequest,
        branch: str,
        changes: ChangeSet,
        rules: GuardrailRules,
        origin: ChangeSetOrigin,
    ) -> RecordedChangeSet:
        direct = is_direct(ask.policy, ask.source.ref)

        async def decided(ground: ProposalBase) -> bool:
            if direct:
                return False
            requests, _ = await self._requests(key, ask, ground, branch)
            return requests is not None and await requests.decided(ground)

        return await record_changes(
            self._proposals(key, ask),
            branch,
            changes,
            rules,
            origin,
            takes_conflicts=not direct or ask.policy.conflicts is ConflictStrategy.GATEWAY_WINS,
            decided=decided,
        )

    async def _requested(
        self,
        key: ResourceKey,
        ask: BidirectionalRequest,
        origin: ChangeSetOrigin,
        standing: GatewayChangesState,
        changes: ChangeSet,
        recorded: RecordedChangeSet,
    ) -> ChangeSetOutcome:
        requests, why = await self._requests(key, ask, recorded.ground, standing.branch)
        if requests is None:
            return ChangeSetOutcome(None, replace(standing, message=standing.message or why))
        return await self._put(key, ask, origin, standing, requests, changes, recorded)

    async def _put(
        self,
        key: ResourceKey,
        ask: BidirectionalRequest,
        origin: ChangeSetOrigin,
        standing: GatewayChangesState,
        requests: BranchPullRequests,
        changes: ChangeSet | None = None,
        recorded: RecordedChangeSet | None = None,
    ) -> ChangeSetOutcome:
        body = request_description(
            origin,
            requests.base,
            ask.policy.conflicts,
            changes=changes,
            verdict=recorded.verdict if recorded is not None else None,
            conflicts=standing.conflicts,
        )
        fresh = recorded is not None and recorded.ground.branch is None
        request, new = await requests.put(request_title(origin), body, ask.policy.pr_labels, fresh=fresh)
        if new:
            self._opened(key)
            log.info("request.opened", key=str(key), branch=standing.branch, url=request.url)
        return ChangeSetOutcome(None, with_open_request(standing, request.url, request.warning))

    async def _requests(
        self, key: ResourceKey, ask: BidirectionalRequest, ground: ProposalBase, branch: str
    ) -> tuple[BranchPullRequests | None, str]:
        """None with the reason if branches are only pushed."""
        if not ask.policy.create_pr:
            return None, ""
        if not ground.followed:
            return None, (
                f"pushed without a pull request: ref {ask.source.ref} is not a branch, so nothing can be "
                "merged into it"
            )
        try:
            forge = await self._forges(key.object.namespace, ask.source, ask.policy)
        except Stalled as error:
            return None, f"pushed only: {error.message}"
        return BranchPullRequests(forge, branch, ground.followed), ""

    async def _is_in(
        self,
        proposals: ProposalBranches,
        ground: ProposalBase,
        ask: BidirectionalRequest,
        sender: ChangeSetSender | None,
        answer: ChangeSetReply | None,
    ) -> bool:
        """Whether the ref already has what the branch proposes, as far as files are held for it."""
        if ground.branch in (None, ground.tip):
            return ground.branch is not None
        if sender is None or answer is None or not answer.holds:
            return False
        rules = GuardrailRules(sender.intent(), ask.policy)
        paths = {origin for path in answer.holds for origin in rules.origins(path)}
        ours = await proposals.versions(ground.branch, paths) if ground.branch is not None else {}
        return ours == await proposals.versions(ground.tip, paths)

    def _proposals(self, key: ResourceKey, ask: BidirectionalRequest) -> ProposalBranches:
        async def access() -> RepoAccess:
            return await self._access(key.object.namespace, ask.source)

        remote = Remote(self._git, ask.source.url, access)
        return ProposalBranches(remote, self._cache, ask.source.ref, clock=self._clock)


def _with_gateway_ref(ask: BidirectionalRequest, intent: GatewayIntent) -> BidirectionalRequest:
    """A gateway with a ref of its own proposes its changes to that ref."""
    if not intent.ref_overridden:
        return ask
    return replace(ask, source=ask.source._replace(ref=intent.source.ref), commit=None)


def _decode_change_set(chunks: list[ChangeSetChunk], sender: ChangeSetSender) -> ChangeSet:
    """Decode the chunks; raise `InvalidValue` if they are damaged or from another gateway."""
    changes = decode(chunks)
    if changes.gateway not in (sender.name, sender.target, sender.key):
        raise InvalidValue(f"a change set under the key of {sender.key} belongs to another gateway")
    return changes
