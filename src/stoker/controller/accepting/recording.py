"""One set of changes, onto the branch of its gateway.

    judge → look where ref and branch are → compare three ways → commit and push
                     ↑                                              ↓ somebody was faster
                     └──────────────────────────────────────────────┘

Nothing is remembered between two calls: a set that is there already changes nothing, so
whoever died in between does it again. Whether a branch that is there is built on or
begun anew is the caller's to say, who knows what became of its pull request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.controller.accepting.comparing import Verdict, compare, doubtful, reviewed
from stoker.controller.accepting.judging import Rules
from stoker.controller.accepting.wording import Origin, commit_of, is_ours_alone
from stoker.domain.errors import StokerError
from stoker.domain.protocol import ChangedFile, ChangeSet
from stoker.domain.refs import CommitId
from stoker.engine.merging import merge3
from stoker.engine.objects import BlobId, Note
from stoker.git.errors import GitFailed
from stoker.git.proposing import Ground, Proposals
from stoker.git.pushing import PushBehind

MAX_REPLAYS = 5

Decided = Callable[[Ground], Awaitable[bool]]
"""Whether what stands on the branch was merged or turned down already."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What git has now."""

    ground: Ground
    """As it was when the push was made."""
    tip: CommitId | None
    """Of the branch."""
    verdict: Verdict
    anew: bool
    """The branch was begun anew: what it proposed before is over."""
    refused: tuple[Note, ...]
    """Files of the set that git did not get, by live path."""


async def record(
    proposals: Proposals,
    branch: str,
    changes: ChangeSet,
    rules: Rules,
    origin: Origin,
    *,
    takes_conflicts: bool,
    decided: Decided,
) -> Recorded:
    """Have all that may go to git there; raises where git cannot be reached, and nothing is half done."""
    judged = rules.judge(changes.files)
    for again in range(MAX_REPLAYS + 1):
        async with proposals.held():
            ground = await proposals.look(branch)
            try:
                anew = ground.branch is not None and await decided(ground)
                below = None if anew else ground.branch
                shared = below not in (None, ground.tip) and not is_ours_alone(await proposals.raw(below))
                verdict = await _compared(
                    proposals, ground, below, judged.taken, takes_conflicts=takes_conflicts, shared=shared
                )
                if not verdict.edits:
                    return Recorded(ground, ground.branch, verdict, anew, judged.refused + verdict.refused)
                commit = commit_of(changes, verdict, origin, shared=shared)
                proposed = await proposals.propose(branch, commit, ground, anew=anew)
            except StokerError as error:
                if again < MAX_REPLAYS and await _came_too_late(proposals, branch, ground, error):
                    continue
                if isinstance(error, GitFailed):
                    proposals.discard()
                raise
            in_the_way = _by_place(proposed.refused, judged.taken)
            refused = (*judged.refused, *verdict.refused, *in_the_way)
            return Recorded(ground, proposed.tip, verdict, anew, refused)
    raise AssertionError("the last attempt either returns or raises")


async def _came_too_late(proposals: Proposals, branch: str, ground: Ground, error: StokerError) -> bool:
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


async def _compared(
    proposals: Proposals,
    ground: Ground,
    below: CommitId | None,
    files: tuple[ChangedFile, ...],
    *,
    takes_conflicts: bool,
    shared: bool,
) -> Verdict:
    paths = [one.repo_path for one in files]
    git = await proposals.files(ground.tip, paths)
    branch = await proposals.files(below, paths) if below is not None else None
    contents: dict[str, bytes] = {}
    for one in doubtful(files, git):
        there = git.get(one.repo_path)
        if there is not None and one.base and one.blob:
            contents |= await _readable(proposals, (BlobId(one.base), there))
    for one in reviewed(files, git, branch) if shared else ():
        beside = branch.get(one.repo_path) if branch is not None else None
        if beside is not None and one.base and one.blob:
            contents |= await _readable(proposals, (BlobId(one.base), beside))
    return await asyncio.to_thread(
        compare, files, git, branch, contents, merged, takes_conflicts=takes_conflicts, shared=shared
    )  # finding out which lines touch takes its time


async def _readable(proposals: Proposals, blobs: tuple[BlobId, BlobId]) -> dict[str, bytes]:
    """A server that gives out no single objects leaves a conflict what it is."""
    try:
        return {str(blob): content for blob, content in (await proposals.contents(blobs)).items()}
    except StokerError:
        return {}


def merged(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
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


def _by_place(notes: tuple[Note, ...], files: tuple[ChangedFile, ...]) -> tuple[Note, ...]:
    places = {one.repo_path: one.path for one in files}
    return tuple(Note(places[note.path], note.why) for note in notes if note.path in places)
