"""Tracks the last known state of one remote branch, in a mirror of its own.

`stoker.git.commit.branch` uses it. The mirror holds one commit with its trees and no file contents. A ref
of the mirror records the branch's commit. The state in memory is valid only while that ref still has the
same commit, so the tracker notices a mirror that was lost, rebuilt or used by another process. This module
never pushes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.refs import CommitId, GitRef
from stoker.git.commit.tree_editor import TreeFolder
from stoker.git.errors import GitFailed, RefNotFound
from stoker.git.mirror.cleanup import clean_cache, is_cleanup_due
from stoker.git.mirror.layout import MirrorSize
from stoker.git.mirror.mirror import Mirror
from stoker.git.remote.fetch import FetchLimits, tip_path
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import find_ref

_MAX_KEPT = 8 << 20  # bytes of trees in memory from one call to the next


@dataclass(frozen=True, slots=True)
class TrackedBranch:
    """The mirror, the branch's commit (None if there is no such branch), and its tree as far as read."""

    place: Path
    tip: CommitId | None
    root: TreeFolder | None = None


class BranchTracker:
    """Tracks one branch; call all other methods inside `held`."""

    def __init__(self, remote: Remote, cache: Path, ref: GitRef, clock: Clock, limits: FetchLimits) -> None:
        self._remote = remote
        self._cache = cache
        self._ref = ref
        self._clock = clock
        self._limits = limits
        self._known: TrackedBranch | None = None
        self._turn = asyncio.Lock()
        self.mirror = Mirror(remote, cache, clock, limits, purpose=ref)
        self.digits = 40
        """The length of the repository's ids; unknown for an empty repository until the first push."""

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Lock the tracker and its mirror for one caller, and drop outdated state."""
        async with self._turn:
            async with self.mirror.held():
                if self._known is not None and not self._still_so(self._known):
                    self._known = None
                yield
            now = self._clock.now()
            if is_cleanup_due(self._cache, now):
                await asyncio.to_thread(clean_cache, self._cache, now)

    async def known(self) -> TrackedBranch:
        """Return the last known state. The tree passes to the caller, who may change it."""
        known = self._known if self._known is not None else await self.follow()
        self._known = replace(known, root=None)
        return known

    async def follow(self) -> TrackedBranch:
        """Resolve the branch on the server, fetch it, and return its state."""
        self._known = None
        try:
            _, tip = await find_ref(self._remote, self._ref)
        except RefNotFound:
            tip = None
        if tip is None:
            self.mirror.ready(self.digits)
        else:
            self.digits = len(tip)
            if self._is_crowded(self.mirror.ready(self.digits)):
                await self.mirror.renew(tip, self._ref)
            else:
                await self.mirror.fetch(tip, self._ref)
        try:
            self._mark(tip)
        except OSError as error:
            raise GitFailed(f"mirror folder {self.mirror.path} cannot be used: {error.strerror}") from error
        self._known = TrackedBranch(self.mirror.path, tip)
        return self._known

    def advance(self, tip: CommitId, root: TreeFolder) -> None:
        """Record a new tip after our own push."""
        with contextlib.suppress(OSError):  # on failure the next call asks the server
            reach_failpoint("tip.write.before")
            self._mark(tip)
            reach_failpoint("tip.write.after")
        kept = root if root.size() <= _MAX_KEPT else None
        self._known = TrackedBranch(self.mirror.path, tip, kept)

    def discard(self) -> None:
        """Remove the state and the mirror; the next `follow` rebuilds both."""
        self._known = None
        self.mirror.discard()

    def _still_so(self, known: TrackedBranch) -> bool:
        if known.place != self.mirror.path:
            return False  # the credential has changed, and with it the mirror
        size = self.mirror.ready(self.digits)
        lost = known.tip is not None and not size.packs
        return known.tip == self._marked() and not lost and not self._is_crowded(size)

    def _is_crowded(self, size: MirrorSize) -> bool:
        return size.packs > self._limits.packs or size.bytes > self._limits.mirror

    def _mark(self, tip: CommitId | None) -> None:
        place = self.mirror.path / tip_path(self._ref)
        if tip is None:
            place.unlink(missing_ok=True)
            return
        beside = place.with_name(f"{place.name}.lock")
        beside.write_text(f"{tip}\n")
        beside.replace(place)

    def _marked(self) -> str | None:
        try:
            return (self.mirror.path / tip_path(self._ref)).read_text().strip()
        except OSError:
            return None
