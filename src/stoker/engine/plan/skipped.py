"""The skipped content of a commit, as the ledger, the log and the status of a gateway name it.

The layout of a whole commit finds it (`stoker.engine.layout.overlay`); the ledger keeps the first
`MAX_NAMED` names and the count, so that a sync that lays out only a few changes, or nothing at all,
still reports it. Files that the user excluded are not part of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from stoker.domain.git_objects import PathNote, printable_name

MAX_NAMED = 10
_SEPARATOR = "\t"


class SkippedContent(NamedTuple):
    """The first names, sorted, each with its reason, and the total count."""

    notes: tuple[PathNote, ...] = ()
    total: int = 0

    @classmethod
    def of(cls, notes: Sequence[PathNote]) -> SkippedContent:
        return cls(tuple(sorted(notes)[:MAX_NAMED]), len(notes))

    @classmethod
    def stored(cls, texts: Collection[str], total: int) -> SkippedContent:
        """Read back the form that the ledger stores."""
        parts = (text.partition(_SEPARATOR) for text in sorted(texts)[:MAX_NAMED])
        notes = tuple(PathNote(path, why) for path, _, why in parts)
        return cls(notes, max(total, len(notes)))

    @property
    def texts(self) -> frozenset[str]:
        """The form that the ledger stores."""
        return frozenset(
            f"{printable_name(note.path)}{_SEPARATOR}{printable_name(note.why)}" for note in self.notes
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each name, and a last line with the count of the others."""
        named = tuple(f"{note.path}: {note.why}" for note in self.notes)
        more = self.total - len(named)
        return (*named, f"and {more} more") if more > 0 else named
