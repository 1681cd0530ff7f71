"""Decides what the backup of a redundant pair does about a commit, without I/O.

A gateway replicates its configuration to its backup, and the backup refuses edits of its own.
So the backup's agent waits until the primary has loaded the commit (its scan was accepted),
leaves replicated content alone, and syncs the rest itself. If two checks of the primary in a
row fail, it continues without the primary and warns; when the primary answers again, it waits again.

The primary's report is in a status ConfigMap; the caller reads it and passes it as a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.intent.policies import RedundancyRole
from stoker.domain.reasons import Reason

FAILURE_THRESHOLD = 2
SILENT_SECONDS = 660.0
"""A report is renewed at least every five minutes, so an older report is from an agent that is gone."""

_ROLES_BY_NAME = {"master": RedundancyRole.PRIMARY, "backup": RedundancyRole.BACKUP}


class BackupAction(StrEnum):
    """The next action of the agent of a backup."""

    SYNC = "sync"
    WAIT = "wait"
    SKIP = "skip"
    PROMOTE = "promote"


@dataclass(frozen=True, slots=True)
class PrimaryReport:
    """The last report of the primary's agent."""

    commit: str = ""
    """The commit of its files."""
    scanned: bool = False
    """Whether the gateway accepted the scan of it, or had nothing to scan."""
    at: datetime | None = None
    down: bool = False
    """Its agent reports that the gateway does not answer, or has faulted."""

    def is_well(self, now: datetime) -> bool:
        """Return whether a check succeeds: a recent report of a running gateway."""
        return not (self.down or self.is_silent(now))

    def is_silent(self, now: datetime) -> bool:
        return self.at is None or (now - self.at).total_seconds() > SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class RedundancyState:
    """All inputs of the decision."""

    wanted: str
    """The commit wanted for this gateway."""
    here: str = ""
    """The commit of its files."""
    initial: bool = False
    """It has not been started yet: its files must be written before."""
    role: RedundancyRole = RedundancyRole.STANDALONE
    """The role from the annotation or the resource; it overrides the role that the gateway reports."""
    said: str = ""
    """The role that the gateway reports: `Master`, `Backup`, `Independent`, or nothing."""
    peer: str = ""
    primary: PrimaryReport | None = None
    failed_checks: int = 0
    """How many checks of the primary failed in a row."""


class BackupDecision(NamedTuple):
    course: BackupAction
    why: str = ""
    reason: Reason | None = None
    warning: bool = False


def decide_redundancy(pair: RedundancyState) -> BackupDecision:
    """Return the decision of the first rule that applies."""
    if redundancy_role(pair) is not RedundancyRole.BACKUP:
        return BackupDecision(BackupAction.SYNC)
    if pair.initial:
        return BackupDecision(BackupAction.SYNC, "the gateway has not been started: its files come first")
    if not pair.peer:
        return BackupDecision(
            BackupAction.SYNC,
            "this gateway is a backup, and nothing says of which: name it by annotation peer-gateway-name",
            Reason.PRIMARY_UNAVAILABLE,
            warning=True,
        )
    if pair.failed_checks >= FAILURE_THRESHOLD:
        return BackupDecision(
            BackupAction.PROMOTE,
            f"primary {pair.peer} did not answer {pair.failed_checks} times: this backup syncs by itself",
            Reason.PRIMARY_UNAVAILABLE,
            warning=True,
        )
    primary = pair.primary
    if primary is None or primary.commit != pair.wanted or not primary.scanned:
        return BackupDecision(BackupAction.WAIT, _waiting_message(pair), Reason.WAITING_FOR_PRIMARY)
    if pair.here == primary.commit:
        return BackupDecision(
            BackupAction.SKIP, f"primary {pair.peer} is at the same commit, and replicates it"
        )
    return BackupDecision(BackupAction.SYNC, f"primary {pair.peer} has loaded {pair.wanted[:8]}")


def redundancy_role(pair: RedundancyState) -> RedundancyRole:
    if pair.role is not RedundancyRole.STANDALONE:
        return pair.role
    return _ROLES_BY_NAME.get(pair.said.strip().lower(), RedundancyRole.STANDALONE)


def _waiting_message(pair: RedundancyState) -> str:
    if pair.primary is None or not pair.primary.commit:
        state = "has not reported yet"
    elif pair.primary.commit != pair.wanted:
        state = f"is at {pair.primary.commit[:8]}"
    else:
        state = "has the files, and its gateway has not accepted the scan"
    return f"primary {pair.peer} {state}; this backup waits until it has loaded {pair.wanted[:8]}"


class PrimaryHealth:
    """Counts failed checks of the primary in a row; a successful check resets the count."""

    def __init__(self) -> None:
        self.failed_checks = 0

    @property
    def promoted(self) -> bool:
        return self.failed_checks >= FAILURE_THRESHOLD

    def checked(self, *, well: bool) -> None:
        self.failed_checks = 0 if well else self.failed_checks + 1
