"""Commits one change set to the branch of its gateway.

    guardrails → read ref and branch → rebase → compare three ways → commit and push
                     ↑                                                   ↓ concurrent push
                     └───────────────────────────────────────────────────┘

There is no state between two calls: a change set that is already committed changes nothing, so a controller
that crashed in between repeats the work. The caller knows the state of the pull request and decides whether
to continue an existing branch or to start it anew.
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
"""Whether the content of the branch was already merged or rejected."""


@dataclass(frozen=True, slots=True)
class RecordedChangeSet:
    """The state of git after a change set was committed."""

    ground: ProposalBase
    """Ref and branch as they were at the push."""
    tip: CommitId | None
    """Of the branch."""
    verdict: MergeDecision
    anew: bool
    """The branch was started anew: its earlier proposal is over."""
    refused: tuple[PathNote, ...]
    """Files of the change set that were refused, by live path."""


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
    """Commit and push all permitted files; raise if git cannot be reached, without partial results."""
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
    """Whether another push happened meanwhile, to our branch or to the ref.

    Once no ref leads to our base any more, git cannot know that the server has it, and fails for lack of
    contents that were never fetched.
    """
    if isinstance(error, PushBehind):
        return True
    try:
        return await proposals.look(branch) != ground
    except StokerError:
        return False


@dataclass(frozen=True, slots=True)
class _CommitAttempt:
    """One attempt, on the ref and branch as they were read."""

    proposals: ProposalBranches
    branch: str
    changes: ChangeSet
    files: tuple[ChangedFile, ...]
    origin: ChangeSetOrigin
    takes_conflicts: bool

    async def beyond(self, ground: ProposalBase, most: int) -> tuple[ChangedFile, ...]:
        """Files that would exceed a pull request's limit on this branch; all new files or none."""
        if ground.branch in (None, ground.tip):
            return ()
        wanted = {one.repo_path for one in self.files}
        proposed = await self.proposals.differing(ground)
        if proposed is None or len(wanted | proposed) <= most:
            return ()
        try:
            own = await self.proposals.own(self.branch, ground)  # without what others changed on the ref
        except StokerError:
            return ()  # it takes history to know, and a limit must not keep a change from git
        there = {change.path for change in own.changes} if own is not None else wanted
        return (
            tuple(one for one in self.files if one.repo_path not in there)
            if len(wanted | there) > most
            else ()
        )

    async def take(
        self, ground: ProposalBase, *, anew: bool, up: bool = True
    ) -> tuple[MergeDecision, PushedProposal | None]:
        """Return the decision and the push; None if there is nothing to push. `up`: a rebase is allowed."""
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
        """The rebased branch, if a rebase is needed; and whether it is needed but impossible."""
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
        )  # a line-by-line merge takes CPU time
        if caught is None:
            return verdict
        ours = {one.repo_path for one in files}  # this change set's own files were compared above
        return replace(verdict, kept=tuple(path for path in caught.conflicts if path not in ours))


async def _read_conflict_blobs(proposals: ProposalBranches, blobs: tuple[BlobId, BlobId]) -> dict[str, bytes]:
    """Read the blobs; if the server provides no single objects, the conflict remains."""
    try:
        return {str(blob): content for blob, content in (await proposals.contents(blobs)).items()}
    except StokerError:
        return {}


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge line by line; if both sides are JSON, the result must be JSON too."""
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
