"""The values of a sync: its job and options, the gateway it is for, and its result as one word.

The command line loads this module on every start, so names that only annotations need are not imported.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stoker.domain.intent.files import BinaryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from stoker.domain.intent.annotation_requests import PlanApproval
    from stoker.domain.intent.files import FilesIntent
    from stoker.domain.intent.policies import DriftIgnorePolicy
    from stoker.domain.intent.source import SourceIntent
    from stoker.domain.intent.template_values import TemplateValues
    from stoker.domain.reasons import Reason
    from stoker.domain.refs import CommitId


class SyncJob(NamedTuple):
    """The source, the files to take from it, the folder to write to, and the owner of the files on disk."""

    source: SourceIntent
    files: FilesIntent
    values: TemplateValues
    data_dir: Path
    cache_dir: Path
    hooks: tuple[Path, ...] = ()
    """Folders searched for `pre-sync.sh` and `post-sync.sh`."""
    owner: tuple[int, int] | None = None
    """User and group of written files; None takes the data folder's, if the process has permission."""
    umask: int = 0
    binaries: BinaryPolicy = BinaryPolicy.ALLOW
    module_order: tuple[str, ...] = ()
    """File names of modules in the order the user listed; a dependency is still installed first."""
    ignore: tuple[DriftIgnorePolicy, ...] = ()
    """Differences on disk that are not drift."""


class GatewayRef(NamedTuple):
    """A gateway and its owner; without a cluster `resource` may be empty and `pod` always is."""

    name: str
    namespace: str = ""
    resource: str = ""
    pod: str = ""


class SyncWait(NamedTuple):
    """Why a change is not made yet."""

    reason: Reason
    until: datetime | None = None
    """When it can be made; None if unknown."""

    @property
    def when(self) -> str:
        """`until` as an RFC 3339 string for a status; empty if unknown."""
        from stoker.domain.clock import rfc3339  # noqa: PLC0415 - few syncs wait

        return rfc3339(self.until) if self.until is not None else ""

    @property
    def message(self) -> str:
        when = f"opens at {self.when}" if self.until is not None else "is not scheduled"
        return f"no maintenance window is open; the next one {when}"

    def as_json(self) -> dict[str, object]:
        return {"reason": self.reason.value, "until": self.when or None, "message": self.message}


class SyncOptions(NamedTuple):
    """Options of one sync."""

    walk: bool = True
    """Look at every managed file; otherwise trust the ledger for files that the source did not change."""
    dry_run: bool = False
    diff: bool = False
    """For a dry run: report the changes line by line."""
    approved: frozenset[PlanApproval] = frozenset()
    """Plans that a person has reviewed and approved; each approval counts once."""
    approval_must_match: bool = False
    """The approval is for this sync alone: a different plan is an error."""
    commit: CommitId | None = None
    """A commit that the caller has already resolved; None means the ref's current commit."""
    first_contact: bool = False
    """Delete nothing without approval although a ledger exists: the gateway's first boot came in between."""
    made_by_boot: Mapping[str, str] = MappingProxyType({})
    """On first contact with a ledger: contents changed by the gateway's first boot.

    Other differences stay.
    """
    released: frozenset[str] = frozenset()
    """Commits that may be tried again although they were rolled back."""
    goes_back: bool = False
    """A person chose an earlier commit, so commits that were rolled back stay blocked."""
    waits: SyncWait | None = None
    """Why no change is allowed now: the sync only plans. Ignored by the first sync of a folder."""
    only: str = ""
    """The digest of the only approved plan: a different plan is reported and not applied."""


class SyncResult(StrEnum):
    """The result of a sync, the same word in metrics, log lines and exit codes."""

    DONE = "done"
    HELD = "held"
    """Applied except for held paths, such as a resource that is open in a Designer; they follow when free."""
    WAITING = "waiting"
    """Planned and not applied: no maintenance window is open."""
    PARTIAL = "partial"
    UNVERIFIED = "unverified"
    STALLED = "stalled"
    FAILED = "failed"

    @property
    def in_place(self) -> bool:
        """Whether all files are at the commit of the sync; the gateway may not have confirmed them yet."""
        return self in (SyncResult.DONE, SyncResult.UNVERIFIED)
