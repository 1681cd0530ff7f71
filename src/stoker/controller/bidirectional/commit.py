"""One set of changes, onto the branch of its gateway.

    judge → look where ref and branch are → catch up → compare three ways → commit and push
                     ↑                                                         ↓ somebody was faster
                     └─────────────────────────────────────────────────────────┘

Nothing is remembered between two calls: a set that is there already changes nothing, so
whoever died in between does it again. Whether a branch that is there is built on or
begun anew is the caller's to say, who knows what became of its pull request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from stoker.controller.bidirectional.guardrails import GuardrailRules
from stoker.controller.bidirectional.messages import ChangeSetOrigin, change_commit, is_own_commit
from stoker.controller.bidirectional.rebase import (
    REBASE_CONFLICT_MESSAGE,
    RebasedBranch,
    missing_on_branch,
    rebase_branch,
)
from stoker.controller.bidirectional.three_way_decision import (
    FileVersions,
    MergeDecision,
    changed_on_both_sides,
    changed_on_shared_branch,
    decide_changes,
)
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import BlobId, PathNote
from stoker.domain.protocol import ChangeAction, ChangedFile, ChangeSet
from stoker.domain.refs import CommitId
from stoker.engine.transform.three_way_text_merge import merge3
from stoker.git.commit.proposal_branch import ProposalBase, ProposalBlocked, ProposalBranches, PushedProposal
from stoker.git.commit.push import PushBehind
from stoker.git.errors import GitFailed

MAX_REPLAYS = 5

ProposalDecidedCheck = Callable[[ProposalBase], Awaitable[bool]]
"""Whether what stands on the branch was merged or turned down already."""


@dataclass(frozen=True, slots=True)
class RecordedChangeSet:
    """What git has now."""

    ground: ProposalBase
    """As it was when the push was made."""
    tip: CommitId | None
    """Of the branch."""
    verdict: MergeDecision
    anew: bool
    """The branch was begun anew: what it proposed before is over."""
    refused: tuple[PathNote, ...]
    """Files of the set that git did not get, by live path."""


async def record_changes(
    proposals: ProposalBranches,
    branch: str,
    changes: ChangeSet,
    rules: GuardrailRules,
    origin: ChangeSetOrigin,
    *,
    takes_conflicts: bool,
    decided: ProposalDecidedCheck,
) -> RecordedChangeSet:
    """Have all that may go to git there; raises where git cannot be reached, and nothing is half done."""
    judged = rules.judge(changes.files)
    for again in range(MAX_REPLAYS + 1):
        async with proposals.held():
            ground = await proposals.look(branch)
            try:
                anew = ground.branch is not None and await decided(ground)
                step = _CommitAttempt(proposals, branch, changes, judged.taken, origin, takes_conflicts)
                counted = rules.opens_requests and not anew
                beyond = await step.beyond(ground, rules.most_files) if counted else ()
                step = replace(step, files=tuple(one for one in judged.taken if one not in beyond))
                full = f"is more than the {rules.most_files} files that the open request may have"
                left_out = (*judged.refused, *(PathNote(one.path, full) for one in beyond))
                verdict, proposed = await step.take(ground, anew=anew)
                if proposed is None:
                    return RecordedChangeSet(ground, ground.branch, verdict, anew, left_out + verdict.refused)
            except StokerError as error:
                if again < MAX_REPLAYS and await _is_push_race(proposals, branch, ground, error):
                    continue
                if isinstance(error, GitFailed):
                    proposals.discard()
                raise
            in_the_way = _notes_by_path(proposed.refused, judged.taken)
            refused = (*left_out, *verdict.refused, *in_the_way)
            return RecordedChangeSet(ground, proposed.tip, verdict, anew, refused)
    raise AssertionError("the last attempt either returns or raises")


async def _is_push_race(
    proposals: ProposalBranches, branch: str, ground: ProposalBase, error: StokerError
) -> bool:
    """Whether somebody pushed meanwhile, to our branch or to the ref.

    Once no ref leads there any more, git cannot know that the server has what we built on, and
    fails for want of contents that were never fetched.
    """
    if isinstance(error, PushBehind):
        return True
    try:
        return await proposals.look(branch) != ground
    except StokerError:
        return False


@dataclass(frozen=True, slots=True)
class _CommitAttempt:
    """One attempt, on the ground as it was looked at."""

    proposals: ProposalBranches
    branch: str
    changes: ChangeSet
    files: tuple[ChangedFile, ...]
    origin: ChangeSetOrigin
    takes_conflicts: bool

    async def beyond(self, ground: ProposalBase, most: int) -> tuple[ChangedFile, ...]:
        """Those with which the branch would propose more files than a request may have; all or none."""
        if ground.branch in (None, ground.tip):
            return ()
        wanted = {one.repo_path for one in self.files}
        proposed = await self.proposals.differing(ground)
        if proposed is None or len(wanted | proposed) <= most:
            return ()
        try:
            own = await self.proposals.own(self.branch, ground)  # without what others changed on the ref
        except StokerError:
            return ()  # it takes history to tell, and a limit is no reason to keep a change from git
        there = {change.path for change in own.changes} if own is not None else wanted
        return (
            tuple(one for one in self.files if one.repo_path not in there)
            if len(wanted | there) > most
            else ()
        )

    async def take(
        self, ground: ProposalBase, *, anew: bool, up: bool = True
    ) -> tuple[MergeDecision, PushedProposal | None]:
        """What is to be done, and what became of it; None where nothing is. `up`: the branch may catch up."""
        below = None if anew else ground.branch
        paths = [one.repo_path for one in self.files]
        git = await self.proposals.versions(ground.tip, paths)
        there: FileVersions | None = None
        if below is not None:
            there = await self.proposals.versions(below, paths)
        shared = below not in (None, ground.tip) and not is_own_commit(await self.proposals.raw(below))
        behind = missing_on_branch(self.files, git, there) if there is not None else ()
        caught, stuck = await self._caught_up(ground, behind, git) if behind and up else (None, not up)
        files = self.files
        if stuck:
            files = tuple(one for one in files if one not in behind or one.action is not ChangeAction.DELETED)
        if caught is not None:
            there = caught.files(paths, git)
        verdict = await self._compared(files, git, there, caught, shared=shared)
        notes = tuple(PathNote(one.path, REBASE_CONFLICT_MESSAGE) for one in self.files if one not in files)
        verdict = replace(verdict, refused=verdict.refused + notes)
        if not verdict.edits:
            return verdict, None
        commit = change_commit(self.changes, verdict, self.origin, shared=shared)
        try:
            proposed = await self.proposals.propose(
                self.branch, commit, ground, anew=anew, up=caught.up if caught is not None else None
            )
        except ProposalBlocked:
            return await self.take(ground, anew=anew, up=False)
        return verdict, proposed

    async def _caught_up(
        self, ground: ProposalBase, behind: tuple[ChangedFile, ...], git: FileVersions
    ) -> tuple[RebasedBranch | None, bool]:
        """The branch with all that the ref has, if that is needed; whether it is and cannot be done."""
        found = await rebase_branch(self.proposals, self.branch, ground, behind, git, merge_texts)
        return (found, False) if isinstance(found, RebasedBranch) else (None, found is None)

    async def _compared(
        self,
        files: tuple[ChangedFile, ...],
        git: FileVersions,
        branch: FileVersions | None,
        caught: RebasedBranch | None,
        *,
        shared: bool,
    ) -> MergeDecision:
        contents: dict[str, bytes] = dict(caught.contents) if caught is not None else {}
        for one in changed_on_both_sides(files, git):
            there = git.get(one.repo_path)
            if there is not None and one.base and one.blob:
                contents |= await _read_conflict_blobs(self.proposals, (BlobId(one.base), there.blob))
        for one in changed_on_shared_branch(files, git, branch) if shared else ():
            beside = branch.get(one.repo_path) if branch is not None else None
            if beside is not None and beside.blob not in contents and one.base and one.blob:
                contents |= await _read_conflict_blobs(self.proposals, (BlobId(one.base), beside.blob))
        verdict = await asyncio.to_thread(
            decide_changes,
            files,
            git,
            branch,
            contents,
            merge_texts,
            takes_conflicts=self.takes_conflicts,
            shared=shared,
        )  # finding out which lines touch takes its time
        if caught is None:
            return verdict
        ours = {one.repo_path for one in files}  # what this set says of them was compared just now
        return replace(verdict, kept=tuple(path for path in caught.conflicts if path not in ours))


async def _read_conflict_blobs(proposals: ProposalBranches, blobs: tuple[BlobId, BlobId]) -> dict[str, bytes]:
    """A server that gives out no single objects leaves a conflict what it is."""
    try:
        return {str(blob): content for blob, content in (await proposals.contents(blobs)).items()}
    except StokerError:
        return {}


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Line by line; where all sides are JSON, so must be what comes out of them."""
    if b"\0" in theirs:
        return None
    together = merge3(base, ours, theirs)
    if together is None or (_is_json(ours) and _is_json(theirs) and not _is_json(together)):
        return None
    return together


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _notes_by_path(notes: tuple[PathNote, ...], files: tuple[ChangedFile, ...]) -> tuple[PathNote, ...]:
    places = {one.repo_path: one.path for one in files}
    return tuple(PathNote(places[note.path], note.why) for note in notes if note.path in places)
