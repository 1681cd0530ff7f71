"""What the backup of a redundant pair does about a commit: one decision, without I/O.

A gateway replicates its configuration to its backup, which refuses edits of its own.
So the backup waits until the primary has loaded the commit (its scan was accepted),
leaves alone what replication brought, and brings the rest itself. If the primary does
not answer twice in a row, it goes on without it and says so; when the primary answers
again, it waits again.

What the primary reports stands in a map that whoever runs the agent can read; it
arrives here as a value.
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
"""A report is renewed every five minutes at the latest: one this old is of an agent that is gone."""

_ROLES_BY_NAME = {"master": RedundancyRole.PRIMARY, "backup": RedundancyRole.BACKUP}


class BackupAction(StrEnum):
    """What to do now."""

    SYNC = "sync"
    WAIT = "wait"
    SKIP = "skip"
    PROMOTE = "promote"


@dataclass(frozen=True, slots=True)
class PrimaryReport:
    """What the primary's agent last said of itself."""

    commit: str = ""
    """The commit that its files are at."""
    scanned: bool = False
    """Whether the gateway accepted the scan of it, or had nothing to scan."""
    at: datetime | None = None
    down: bool = False
    """Its agent says that the gateway does not answer, or has faulted."""

    def is_well(self, now: datetime) -> bool:
        """Whether a check succeeds: a report that is not too old to be believed, of a gateway that runs."""
        return not (self.down or self.is_silent(now))

    def is_silent(self, now: datetime) -> bool:
        return self.at is None or (now - self.at).total_seconds() > SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class RedundancyState:
    """All that the decision depends on."""

    wanted: str
    """The commit that this gateway is to be at."""
    here: str = ""
    """The commit that its files are at."""
    initial: bool = False
    """It has not been started yet: its files must be there before."""
    role: RedundancyRole = RedundancyRole.STANDALONE
    """What the annotation, or the resource, says; it wins over the gateway's own word."""
    said: str = ""
    """What the gateway says of itself: `Master`, `Backup`, `Independent`, or nothing."""
    peer: str = ""
    primary: PrimaryReport | None = None
    failed_checks: int = 0
    """How often in a row the primary could not be found well."""


class BackupDecision(NamedTuple):
    course: BackupAction
    why: str = ""
    reason: Reason | None = None
    warning: bool = False


def decide_redundancy(pair: RedundancyState) -> BackupDecision:
    """The first rule that speaks."""
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
    """How often in a row the primary was not found well; one good check forgets them all."""

    def __init__(self) -> None:
        self.failed_checks = 0

    @property
    def promoted(self) -> bool:
        return self.failed_checks >= FAILURE_THRESHOLD

    def checked(self, *, well: bool) -> None:
        self.failed_checks = 0 if well else self.failed_checks + 1
