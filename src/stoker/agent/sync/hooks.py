"""What others want to do around a change: the gateway's scan, a user's scripts.

A hook stands around the moment in which live files change, and only that: a pass
that finds nothing to do calls none. The papers' `PreSyncHook` is the first half of
`around`, their `PostSyncHook` is `after`. The engine knows none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import SyncPlan
from stoker.fs.apply_plan import ApplyResult


@dataclass(frozen=True, slots=True)
class SyncChange:
    """What is about to happen, or has: the plan, and where it comes from."""

    commit: CommitId
    ref: GitRef
    plan: SyncPlan
    initial: bool
    """The first sync of this data folder: the gateway has seen none of it."""
    before: Ledger | None = None
    """What we had written until now; it goes on as the change does."""


class SyncHook(Protocol):
    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        """Asked before anything is staged: places that must stay as they are; raising stops the pass."""
        ...

    def around(self, change: SyncChange) -> AbstractAsyncContextManager[None]:
        """Entered after every guard and before the first live change; raising keeps everything as it is."""
        ...

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        """Called when the files are in place; what it returns is told as not verified."""
        ...


class NoiseFilter(Protocol):
    """Knows which differences mean nothing."""

    def doubtful(self, paths: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """By folder, if nothing else changed in it: the changed paths that might mean nothing."""
        ...

    def means_nothing(self, name: str, before: bytes | None, after: bytes | None) -> bool:
        """Of one file of such a folder; all of them have to agree."""
        ...
