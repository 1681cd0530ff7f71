"""The records of rollback on the data volume, which survive the process.

    probation     a commit whose change the gateway has not verified yet, and its snapshot
    quarantine    a commit that was rolled back here; until `restored` the rollback is unfinished
    pin           a snapshot that a person requested, restored or refused

Each record is one small file beside the ledger, replaced atomically (`stoker.ignition.sync.state_files`). An
invalid record counts as absent.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from stoker.domain.failpoints import reach_failpoint
from stoker.domain.reasons import Reason
from stoker.ignition.sync.state_files import StateFiles

PROBATION, QUARANTINE, PIN = "probation.json", "quarantine.json", "rollback.json"
MAX_TEXT_LENGTH = 2000
HAND = "hand"


@dataclass(frozen=True, slots=True)
class RollbackProbation:
    """The snapshot to restore if the gateway fails."""

    snapshot: str
    commit: str
    failing: tuple[str, ...] = ()
    """Failures of the gateway that existed before the change, so the change is not their cause."""


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """A commit that is not tried again here until a different commit is wanted or a person releases it."""

    commit: str
    reason: str = Reason.AUTO_ROLLBACK
    message: str = ""
    since: str = ""
    snapshot: str = ""
    restored: bool = True


@dataclass(frozen=True, slots=True)
class RollbackPin:
    """A rollback request that was carried out or permanently refused: once for each `id`."""

    id: str
    snapshot: str = ""
    commit: str = ""
    """The commit of the files, if known."""
    ref: str = ""
    reason: str = ""
    """Why it was refused; empty if it was carried out."""
    message: str = ""
    by: str = ""
    """`HAND`: set by a command, which alone releases it; otherwise set while a resource requests it."""


T = TypeVar("T", RollbackProbation, QuarantineRecord, RollbackPin)


class RollbackRecords:
    """The records of one data folder."""

    def __init__(self, state_dir: Path) -> None:
        self._marks = StateFiles(state_dir)

    @property
    def probation(self) -> RollbackProbation | None:
        return self._read(PROBATION, RollbackProbation)

    @property
    def quarantine(self) -> QuarantineRecord | None:
        return self._read(QUARANTINE, QuarantineRecord)

    @property
    def pin(self) -> RollbackPin | None:
        return self._read(PIN, RollbackPin)

    @property
    def any(self) -> bool:
        """Whether there is a rollback to finish or a commit to block."""
        return any(note is not None for note in (self.probation, self.quarantine, self.pin))

    def keep(self, note: RollbackProbation | QuarantineRecord | RollbackPin) -> None:
        self._marks.write(_NAMES[type(note)], json.dumps(_bound_note(asdict(note))).encode())

    def intend(self, quarantine: QuarantineRecord) -> None:
        """Record the quarantine before the first file is restored, so that any later process finishes it."""
        reach_failpoint("rollback.intend.before")
        self.keep(quarantine)
        reach_failpoint("rollback.intend.after")

    def prove(self) -> None:
        """End the probation: the gateway verified the change."""
        self._marks.clear(PROBATION)

    def lift(self) -> None:
        """Allow the commit to be tried again."""
        self._marks.clear(QUARANTINE)

    def release(self) -> None:
        """Remove the pin: the folder follows its ref again."""
        self._marks.clear(PIN)

    @property
    def needed(self) -> frozenset[str]:
        """Snapshots that must be kept whatever the retention."""
        notes = (self.probation, self.quarantine, self.pin)
        return frozenset(note.snapshot for note in notes if note is not None and note.snapshot)

    def _read(self, name: str, kind: type[T]) -> T | None:
        content = self._marks.read(name)
        if content is None:
            return None
        try:
            said = json.loads(content)
            values: dict[str, Any] = {one.name: said[one.name] for one in fields(kind) if one.name in said}
            if isinstance(values.get("failing"), list):
                values["failing"] = tuple(map(str, values["failing"]))
            note = kind(**values)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        fits = all(isinstance(getattr(note, one.name), _TYPES[str(one.type)]) for one in fields(kind))
        return note if fits else None


_NAMES = {RollbackProbation: PROBATION, QuarantineRecord: QUARANTINE, RollbackPin: PIN}
_TYPES: dict[str, type] = {"str": str, "bool": bool, "tuple[str, ...]": tuple}


def _bound_note(note: dict[str, Any]) -> dict[str, Any]:
    """Limit long values: a message may quote a gateway, a list may name any number of paths."""
    return {name: it[:MAX_TEXT_LENGTH] if isinstance(it, str | tuple) else it for name, it in note.items()}
