"""One branch of a repository elsewhere, written to without a worktree.

    refresh → what is there now          commit → build on it → push → the branch is what we built
                                                    ↑            ↓ somebody was faster
                                                    └── fetch ───┘

A push names the commit that it expects to find, so nobody's commits are lost; if the
branch has moved on, the same commits are built again on what is there. Whatever fails,
nothing is half done: the branch has all of a call's commits or none, and the same call
can be made again. When it is not known whether a push arrived, the server is asked
before anything is built, so that no commit is made twice.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import BlobId
from stoker.domain.paths import RelPath
from stoker.domain.refs import CommitId, GitRef
from stoker.git.commit.draft import CommitDraft, CommitDrafter
from stoker.git.commit.push import ObjectFormatMismatch, PushBehind, is_final, push, translate_write_errors
from stoker.git.commit.tracking_ref import BranchTracker, TrackedBranch
from stoker.git.commit.types import CommitSigner, NewCommit, PushResult
from stoker.git.errors import GitFailed, SourceTooLarge
from stoker.git.mirror import tree as git_tree
from stoker.git.process.pipe import run_in_worker
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote

T = TypeVar("T")

MAX_REPLAYS = 10
MAX_READ_BYTES = 64 << 20
MAX_HISTORY_DEPTH = 10_000
"""Commits among which a push of unknown outcome is looked for."""

_MAX_OPEN = 20
_PAUSE, _MAX_PAUSE = 0.05, 2.0
_HEADS = "refs/heads/"
_LIMITS = FetchLimits(fetch=1 << 30, mirror=1 << 30, left_out="blob:none")
_NOTHING_PUSHED = PushResult(None, (), 0, 0)


@dataclass(frozen=True, slots=True)
class _PushAttempt:
    """A push that the server has not answered: it may be there, may still come, or never will."""

    asked: tuple[NewCommit, ...]
    base: CommitId | None
    outcome: PushResult
    """What became of what was asked, if it is there."""


class RemoteBranch:
    """One branch; its calls follow one another, whoever makes them."""

    def __init__(
        self,
        remote: Remote,
        cache: Path,
        branch: str,
        *,
        signer: CommitSigner | None = None,
        clock: Clock | None = None,
        limits: FetchLimits = _LIMITS,
    ) -> None:
        self._remote = remote
        self._ref = GitRef(f"{_HEADS}{GitRef(branch.removeprefix(_HEADS))}")
        self._signer = signer
        self._clock = clock if clock is not None else SystemClock()
        self._tracker = BranchTracker(remote, cache, self._ref, self._clock, limits)
        self._mirror = self._tracker.mirror
        self._open: list[_PushAttempt] = []
        self._arrived: _PushAttempt | None = None  # in a call that failed later, or was not told so

    async def refresh(self) -> CommitId | None:
        """The branch's commit now; None if there is no such branch, perhaps because there is nothing yet."""
        async with self._held():
            return (await self._tracker.follow()).tip

    async def listed(self, folder: str = "") -> dict[str, BlobId]:
        """The regular files below a folder in the commit that we know."""
        async with self._held():
            return await self._mended(lambda known: self._list(known, RelPath.clean(folder)))

    async def read(self, paths: Collection[str]) -> dict[str, bytes]:
        """The contents of those of the paths that are regular files in that commit."""
        async with self._held():
            return await self._mended(lambda known: self._read(known, paths))

    async def commit(self, commits: Sequence[NewCommit]) -> PushResult:
        """Have these on the branch, in this order, on top of whatever is there; all of them or none."""
        async with self._held():
            asked = tuple(commits)
            for replays in range(MAX_REPLAYS + 1):
                await self._catch_up(replays)
                before, left = await self._settled(asked)
                drafter = await self._mended(partial(self._edited, commits=left))
                draft = await drafter.finish(self._signer)
                outcome = _add_draft(before, draft, replays)
                why_not = None
                if draft.commits:
                    why_not = await self._push(draft, _PushAttempt(asked, draft.base, outcome))
                if why_not is None:
                    if outcome.commits:  # the branch has moved: whatever was under way comes too late
                        self._open, self._arrived = [], None
                    return outcome
            raise PushBehind(
                f"{MAX_REPLAYS + 1} pushes in a row came too late for branch "
                f"{self._ref.removeprefix(_HEADS)}: {why_not}"
            )

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        with translate_write_errors():
            async with self._tracker.held():
                yield

    async def _catch_up(self, replays: int) -> None:
        """Have what is there now, if it may be something else than we believe.

        At once the first time; then those who are in each other's way take turns by chance.
        """
        if replays > 1:
            longest = min(_PAUSE * 2**replays, _MAX_PAUSE)
            await self._clock.sleep(random.uniform(0, longest))  # noqa: S311 - no secret
        if replays or self._open:
            await self._tracker.follow()

    async def _settled(self, asked: tuple[NewCommit, ...]) -> tuple[PushResult, tuple[NewCommit, ...]]:
        """What earlier pushes have brought of what is asked, and what is left of it."""
        if self._open:
            tip = (await self._tracker.known()).tip
            history = await self._history(tip)
            self._arrived = next((it for it in self._open if it.outcome.tip in history), self._arrived)
            # One that expects another commit than is there comes too late; the others may still come.
            self._open = [it for it in self._open if it.base == tip]
        same = _common_prefix_length(self._arrived.asked, asked) if self._arrived is not None else 0
        if self._arrived is None or not same:
            return _NOTHING_PUSHED, asked
        return self._arrived.outcome, asked[same:]

    async def _history(self, tip: CommitId | None) -> Collection[str]:
        """The commits that lead to what is there."""
        if tip is None:
            return ()
        said = await self._remote.runner.run(
            ["rev-list", f"--max-count={MAX_HISTORY_DEPTH}"], [tip], repository=self._mirror.path
        )
        return said.decode().split()

    async def _mended(self, work: Callable[[TrackedBranch], Awaitable[T]]) -> T:
        """The work on what we know; a mirror in which something is missing is built anew, once."""
        known = await self._tracker.known()
        try:
            return await work(known)
        except GitFailed:
            self._tracker.discard()
            return await work(await self._tracker.follow())

    async def _edited(self, known: TrackedBranch, commits: Sequence[NewCommit]) -> CommitDrafter:
        drafter = CommitDrafter(self._mirror, known, self._tracker.digits)
        await drafter.edit(commits)
        return drafter

    async def _list(self, known: TrackedBranch, folder: RelPath) -> dict[str, BlobId]:
        if known.tip is None:
            return {}
        tree = await git_tree.read_tree(self._remote.runner, known.place, known.tip, folder)
        return {path: version.blob for path, version in tree.files.items()}

    async def _read(self, known: TrackedBranch, paths: Collection[str]) -> dict[str, bytes]:
        if known.tip is None:
            return {}
        found = await git_tree.look_up_files(self._remote.runner, known.place, known.tip, paths)
        blobs = list(dict.fromkeys(version.blob for version in found.values()))
        await self._mirror.complete(blobs)
        contents = await run_in_worker(lambda: self._contents(blobs), self._mirror.objects.abort)
        return {path: contents[version.blob] for path, version in found.items()}

    async def _push(self, draft: CommitDraft, attempt: _PushAttempt) -> StokerError | None:
        """None if they are there now, else why they must be built anew."""
        before = self._open
        self._open = [attempt, *before][:_MAX_OPEN]  # until the server has said what became of it
        try:
            await push(self._remote, self._mirror.path, self._ref, draft.base, draft.commits[-1])
        except StokerError as error:
            if is_final(error):
                self._open = before
            if isinstance(error, ObjectFormatMismatch):
                self._tracker.digits = 64 if self._tracker.digits == 40 else 40
            elif not isinstance(error, PushBehind):
                raise
            return error
        self._tracker.advance(draft.commits[-1], draft.root)
        return None

    def _contents(self, blobs: Sequence[BlobId]) -> dict[BlobId, bytes]:
        contents: dict[BlobId, bytes] = {}
        left = MAX_READ_BYTES
        for blob in self._mirror.objects.contents(blobs):
            left -= blob.size
            if left < 0:
                raise SourceTooLarge(f"the files to be read have more than {MAX_READ_BYTES} bytes")
            contents[blob.id] = b"".join(blob.chunks)
        return contents


def _add_draft(before: PushResult, draft: CommitDraft, replays: int) -> PushResult:
    return PushResult(
        draft.tip,
        before.commits + draft.commits,
        replays,
        before.bytes + draft.bytes,
        before.refused + draft.refused,
    )


def _common_prefix_length(before: Sequence[NewCommit], now: Sequence[NewCommit]) -> int:
    """How many of the first are the same."""
    for number, (one, other) in enumerate(zip(before, now, strict=False)):
        if one != other:
            return number
    return min(len(before), len(now))
