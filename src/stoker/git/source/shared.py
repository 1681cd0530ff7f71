"""A mirror that another process fills, as the source of a sync: read it, and wait for missing commits.

The reader's half of `stoker.git.mirror.shared_volume`; `stoker.git.mirror.full_mirror` is the
writer's. It contacts no server and needs no credential: it resolves refs in the mirror itself. A
shared lock keeps the generation that a sync reads on disk until the sync releases it, whatever the
writer does in the meantime.
"""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Wait
from stoker.domain.git_objects import BlobId
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.git.errors import GitFailed
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.mirror.reader import CommitRule, MirrorReader
from stoker.git.mirror.shared_volume import MirrorVolume, is_safe_generation, try_lock
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import local_remote
from stoker.git.remote.resolve import find_ref

VOLUME_WAIT_SECONDS = 5.0
"""Seconds that a fetch waits before it raises `Wait`.

Usually the writer learns of a new commit at the same moment as this reader, so a short wait is enough.
"""
PAUSE = 0.25
RETRY_SECONDS = 5.0


class SharedVolumeSource(MirrorReader):
    """One repository, read from a volume that this process cannot write to."""

    def __init__(
        self,
        runner: GitRunner,
        volume: Path,
        clock: Clock | None = None,
        rules: Sequence[CommitRule] = (),
        patience: float = VOLUME_WAIT_SECONDS,
    ) -> None:
        super().__init__(runner)
        self._volume = MirrorVolume(volume)
        self._clock = clock if clock is not None else SystemClock()
        self._rules = rules
        self._patience = patience
        self._path = volume / "none"
        self._objects = MirrorObjects(runner, self._path)
        self._stack = ExitStack()

    @property
    def repository(self) -> Path:
        return self._path

    @property
    def objects(self) -> MirrorObjects:
        return self._objects

    async def resolve(self, ref: GitRef) -> CommitId:
        async with self.held():
            self._open_current()
            return (await find_ref(local_remote(self._runner, self._path), ref))[1]

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._let_go()

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Return when the mirror has the commit; raise `Wait` if it does not arrive in time."""
        deadline = self._clock.monotonic() + self._patience
        while True:
            if self._volume.current is not None:
                self._open_current()
                if await self._objects.has(commit):
                    return
            if self._clock.monotonic() >= deadline:
                raise _volume_behind(f"commit {commit} of ref {str(ref)!r}")
            await self._clock.sleep(PAUSE)

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        for rule in self._rules:
            await rule(local_remote(self._runner, self._path), self._path, commit, ref, before)

    async def complete(self, blobs: Collection[BlobId]) -> None:
        missing = await self._objects.missing(blobs)
        if missing:
            raise GitFailed(f"blob {missing[0]} and {len(missing) - 1} more are not in the shared mirror")

    def discard(self) -> None:
        """Release the generation; only the writer can repair it. The next read opens the current one."""
        self._let_go()

    def _open_current(self) -> None:
        """Lock and open the current generation, unless this source already holds it."""
        name = self._volume.current
        if name is None:
            raise _volume_behind("anything")
        path = self._volume.path(name)
        if path == self._path:
            return
        self._let_go()
        self._stack.enter_context(try_lock(self._volume.lock(name), fcntl.LOCK_SH))
        if not is_safe_generation(path):
            self._let_go()
            raise GitFailed(f"shared mirror {path} is not what its writer makes")
        self._path, self._objects = path, MirrorObjects(self._runner, path)

    def _let_go(self) -> None:
        self._objects.close()
        self._stack.close()
        self._path = self._volume.root / "none"
        self._objects = MirrorObjects(self._runner, self._path)


def _volume_behind(what: str) -> Wait:
    return Wait(
        f"the shared mirror does not hold {what} yet", after=RETRY_SECONDS, reason=Reason.SHARED_MIRROR_BEHIND
    )
