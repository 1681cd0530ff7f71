"""A git repository as the source of a sync: resolve, hold, fetch, read.

It implements `stoker.engine.source_protocol.SourceReader` and contains no algorithm of its own:
`stoker.git.remote` resolves and fetches, `stoker.git.mirror` stores and reads. It never writes to
the remote repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.refs import CommitId, GitRef
from stoker.git.mirror.cached_source import MirrorSource
from stoker.git.mirror.mirror import Mirror
from stoker.git.mirror.reader import CommitRule
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import find_ref, is_branch

_DEFAULT = FetchLimits()


class GitSource(MirrorSource):
    """One repository, read through a mirror below `cache`."""

    def __init__(
        self,
        remote: Remote,
        cache: Path,
        clock: Clock | None = None,
        limits: FetchLimits = _DEFAULT,
        rules: Sequence[CommitRule] = (),
    ) -> None:
        clock = clock if clock is not None else SystemClock()
        super().__init__(remote.runner, Mirror(remote, cache, clock, limits), cache, clock)
        self._remote = remote
        self._rules = rules
        self._branch: tuple[GitRef, str, int] | None = None
        """The ref if the last lookup found a branch, its full name, and the length of the ids there."""

    async def resolve(self, ref: GitRef) -> CommitId:
        branch, self._branch = self._branch, None
        if branch is not None and branch[0] == ref:
            commit = await self._mirror.follow(*branch)
            if commit is not None:
                self._branch = branch
                return commit
        name, commit = await find_ref(self._remote, ref)
        self._branch = (ref, name, len(commit)) if is_branch(name) else None
        return commit

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        for rule in self._rules:
            await rule(self._remote, self._mirror.path, commit, ref, before)
