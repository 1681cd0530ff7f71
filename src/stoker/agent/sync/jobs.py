"""What one data folder is to be kept at, and how a pass is to go about it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stoker.agent.sync.outcomes import SyncWait
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import BinaryPolicy, FilesIntent
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import CommitId

if TYPE_CHECKING:
    from stoker.domain.intent.policies import DriftIgnorePolicy


class SyncJob(NamedTuple):
    """Where the files come from, which of them go where, and whose they are on disk."""

    source: SourceIntent
    files: FilesIntent
    values: TemplateValues
    data_dir: Path
    cache_dir: Path
    hooks: tuple[Path, ...] = ()
    """Folders in which `pre-sync.sh` and `post-sync.sh` are looked for."""
    owner: tuple[int, int] | None = None
    """User and group of what is written; None takes the data folder's own, where we may."""
    umask: int = 0
    binaries: BinaryPolicy = BinaryPolicy.ALLOW
    module_order: tuple[str, ...] = ()
    """Names of files of modules, as somebody listed them; what they need goes in before them all the same."""
    ignore: tuple[DriftIgnorePolicy, ...] = ()
    """Differences on disk that are not drift."""


class SyncOptions(NamedTuple):
    """How one pass is to go about it."""

    walk: bool = True
    """Look at every managed file; otherwise the ledger is trusted for what the source did not change."""
    dry_run: bool = False
    diff: bool = False
    """Of a dry run: tell line by line what would change."""
    approved: frozenset[PlanApproval] = frozenset()
    """Plans that a person has seen and wants; each approval counts once."""
    approval_must_match: bool = False
    """The approval was given for this sync alone: it is an error if the plan is another one."""
    commit: CommitId | None = None
    """The commit that somebody has resolved already; otherwise what the ref means now."""
    first_contact: bool = False
    """Delete nothing without approval although there is a ledger: the gateway's first boot came between."""
    made_by_boot: Mapping[str, str] = MappingProxyType({})
    """On first contact with a ledger: what the gateway's first boot changed. Other differences stay."""
    released: frozenset[str] = frozenset()
    """Commits that may be tried again although they were taken back."""
    goes_back: bool = False
    """Somebody chose an earlier commit: what was taken back stays so."""
    waits: SyncWait | None = None
    """Why nothing may be changed now: what would be is only planned. Not before the first files (C-111)."""
    only: str = ""
    """The digest of the one plan that somebody approved: another one is shown and not carried out."""
