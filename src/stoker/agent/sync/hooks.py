"""The protocol of sync hooks: the gateway's scan, a user's scripts, snapshots, log lines.

A hook runs only around the moment in which live files change; a sync without changes calls none. The first
half of `around` is a pre-sync hook, `after` is a post-sync hook. `stoker.agent.sync.apply` calls them; the
engine knows none of them.
"""

from __future__ import annotations

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
    """A change that is about to be applied, or has been: the plan and the commit it comes from."""

    commit: CommitId
    ref: GitRef
    plan: SyncPlan
    initial: bool
    """The first sync of this data folder: the gateway has not loaded any of these files."""
    before: Ledger | None = None
    """The ledger before the change. Its `files` are not a copy: applying the change updates them."""


class SyncHook(Protocol):
    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        """Return paths that must stay as they are. Called before staging; raising stops the sync."""
        ...

    def around(self, change: SyncChange) -> AbstractAsyncContextManager[None]:
        """Entered after every guard and before the first live change; raising leaves all files unchanged."""
        ...

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        """Called when the files are in place; the report lists the returned notes as not verified."""
        ...
