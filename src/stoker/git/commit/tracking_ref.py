"""What we know of one branch elsewhere, and the mirror in which it lies.

Used by `stoker.git.commit.branch`. The mirror holds one commit with its trees and no file
contents. Which commit the branch leads to stands in a ref of the mirror; what is
remembered besides is believed only as long as that ref says the same, so a mirror that
was lost, healed or used by another process is noticed. Nothing is pushed from here.
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
    """What the branch leads to, None if there is no such branch, and its tree as far as it was read."""

    place: Path
    tip: CommitId | None
    root: TreeFolder | None = None


class BranchTracker:
    """Follows one branch; everything but `held` is for while it is held."""

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
        """How long the ids of the repository are; an empty one does not say before somebody pushes to it."""

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """For one caller at a time, with a sound mirror."""
        async with self._turn:
            async with self.mirror.held():
                if self._known is not None and not self._still_so(self._known):
                    self._known = None
                yield
            now = self._clock.now()
            if is_cleanup_due(self._cache, now):
                await asyncio.to_thread(clean_cache, self._cache, now)

    async def known(self) -> TrackedBranch:
        """What was last seen of the branch. The tree is the caller's, who may change it."""
        known = self._known if self._known is not None else await self.follow()
        self._known = replace(known, root=None)
        return known

    async def follow(self) -> TrackedBranch:
        """Ask the server what is there now, and have it here."""
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
        """The branch leads there now, because we have pushed it."""
        with contextlib.suppress(OSError):  # then the next call asks the server
            reach_failpoint("tip.write.before")
            self._mark(tip)
            reach_failpoint("tip.write.after")
        kept = root if root.size() <= _MAX_KEPT else None
        self._known = TrackedBranch(self.mirror.path, tip, kept)

    def discard(self) -> None:
        """Forget all of it; the next look at the server builds the mirror anew."""
        self._known = None
        self.mirror.discard()

    def _still_so(self, known: TrackedBranch) -> bool:
        if known.place != self.mirror.path:
            return False  # another credential
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
