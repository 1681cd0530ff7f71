"""Writes commits to one branch of a remote repository, without a worktree.

    refresh → the current tip          commit → build on the tip → push → the branch has the new commits
                                                    ↑               ↓ another push came first
                                                    └─── fetch ─────┘

A push names the commit that it expects as the tip, so no commit of others is lost. If the branch has moved,
the same commits are built again on the new tip. A call is atomic: the branch has all of its commits or none,
and after any failure the same call can be repeated. If the result of a push is unknown (a timeout), the next
call asks the server before it builds anything, so that no commit is made twice.
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
"""Number of commits in which to search for a push of unknown result."""

_MAX_OPEN = 20
_PAUSE, _MAX_PAUSE = 0.05, 2.0
_HEADS = "refs/heads/"
_LIMITS = FetchLimits(fetch=1 << 30, mirror=1 << 30, left_out="blob:none")
_NOTHING_PUSHED = PushResult(None, (), 0, 0)


@dataclass(frozen=True, slots=True)
class _PushAttempt:
    """A push of unknown result: it may have arrived, may still arrive, or may be lost."""

    asked: tuple[NewCommit, ...]
    base: CommitId | None
    outcome: PushResult
    """The result of the call if this push has arrived."""


class RemoteBranch:
    """One branch; concurrent calls run one after another."""

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
        self._arrived: _PushAttempt | None = None  # found on the server after its own call had failed

    async def refresh(self) -> CommitId | None:
        """Fetch the branch and return its commit; None if it does not exist, as in an empty repository."""
        async with self._held():
            return (await self._tracker.follow()).tip

    async def listed(self, folder: str = "") -> dict[str, BlobId]:
        """Return the regular files below a folder in the last known commit."""
        async with self._held():
            return await self._mended(lambda known: self._list(known, RelPath.clean(folder)))

    async def read(self, paths: Collection[str]) -> dict[str, bytes]:
        """Return the contents of those of the paths that are regular files in the last known commit."""
        async with self._held():
            return await self._mended(lambda known: self._read(known, paths))

    async def commit(self, commits: Sequence[NewCommit]) -> PushResult:
        """Push these commits, in this order, on top of the current tip; all of them or none."""
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
                    if outcome.commits:  # the branch moved: pending pushes can no longer succeed
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
        """Fetch the branch if it may have moved.

        The first replay starts at once. Later replays wait a random time, so that competing writers do not
        collide again.
        """
        if replays > 1:
            longest = min(_PAUSE * 2**replays, _MAX_PAUSE)
            await self._clock.sleep(random.uniform(0, longest))  # noqa: S311 - no secret
        if replays or self._open:
            await self._tracker.follow()

    async def _settled(self, asked: tuple[NewCommit, ...]) -> tuple[PushResult, tuple[NewCommit, ...]]:
        """Return the result of an earlier push of these commits, and the commits that are still to push."""
        if self._open:
            tip = (await self._tracker.known()).tip
            history = await self._history(tip)
            self._arrived = next((it for it in self._open if it.outcome.tip in history), self._arrived)
            # A pending push that expects another tip can no longer succeed; the others may still arrive.
            self._open = [it for it in self._open if it.base == tip]
        same = _common_prefix_length(self._arrived.asked, asked) if self._arrived is not None else 0
        if self._arrived is None or not same:
            return _NOTHING_PUSHED, asked
        return self._arrived.outcome, asked[same:]

    async def _history(self, tip: CommitId | None) -> Collection[str]:
        """Return the latest commits in the history of the tip."""
        if tip is None:
            return ()
        said = await self._remote.runner.run(
            ["rev-list", f"--max-count={MAX_HISTORY_DEPTH}"], [tip], repository=self._mirror.path
        )
        return said.decode().split()

    async def _mended(self, work: Callable[[TrackedBranch], Awaitable[T]]) -> T:
        """Run `work` on the tracked branch; if the mirror is damaged, rebuild it once and run again."""
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
        """Push; return None on success, else the error because of which the commits must be rebuilt."""
        before = self._open
        self._open = [attempt, *before][:_MAX_OPEN]  # until its result is known
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
    """Return the number of leading commits that are equal."""
    for number, (one, other) in enumerate(zip(before, now, strict=False)):
        if one != other:
            return number
    return min(len(before), len(now))
