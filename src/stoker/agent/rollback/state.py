"""What going back has to remember on the data volume, whatever becomes of this process.

    probation     a commit whose change the gateway has not verified yet, and the way back from it
    quarantine    a commit that was taken back here; until `restored` the way back is not done
    pin           a snapshot that somebody went back to, or could not

Each is one small file beside the ledger, replaced whole (`stoker.ignition.sync.state_files`). One
that is not as we write it counts as absent.
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
    """What to go back to if the gateway fails."""

    snapshot: str
    commit: str
    failing: tuple[str, ...] = ()
    """What the gateway failed to do or show before the change, which is not to blame for that."""


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """A commit that is not tried again here until another one is wanted, or somebody releases it."""

    commit: str
    reason: str = Reason.AUTO_ROLLBACK
    message: str = ""
    since: str = ""
    snapshot: str = ""
    restored: bool = True


@dataclass(frozen=True, slots=True)
class RollbackPin:
    """A request to go back, carried out, or refused for good: once for each `id`."""

    id: str
    snapshot: str = ""
    commit: str = ""
    """The commit that the files are at, as far as one is known."""
    ref: str = ""
    reason: str = ""
    """Why it was refused; empty: it was done."""
    message: str = ""
    by: str = ""
    """`HAND`: a command, which alone releases it; otherwise a resource, for as long as it asks."""


T = TypeVar("T", RollbackProbation, QuarantineRecord, RollbackPin)


class RollbackRecords:
    """Those of one data folder."""

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
        """Whether there is something to go on with, or to keep out."""
        return any(note is not None for note in (self.probation, self.quarantine, self.pin))

    def keep(self, note: RollbackProbation | QuarantineRecord | RollbackPin) -> None:
        self._marks.write(_NAMES[type(note)], json.dumps(_bound_note(asdict(note))).encode())

    def intend(self, quarantine: QuarantineRecord) -> None:
        """Before the first file goes back: from now on the way back is finished, whoever has to do it."""
        reach_failpoint("rollback.intend.before")
        self.keep(quarantine)
        reach_failpoint("rollback.intend.after")

    def prove(self) -> None:
        """The gateway shows what it should."""
        self._marks.clear(PROBATION)

    def lift(self) -> None:
        """The commit may be tried again."""
        self._marks.clear(QUARANTINE)

    def release(self) -> None:
        """Nobody wants to stay at a snapshot any more."""
        self._marks.clear(PIN)

    @property
    def needed(self) -> frozenset[str]:
        """Snapshots that must stay whatever their number."""
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
    """A sentence may quote a gateway; a list may name as many places as there are."""
    return {name: it[:MAX_TEXT_LENGTH] if isinstance(it, str | tuple) else it for name, it in note.items()}
