"""Drift: files in the managed places that differ from what the last sync left.

It is computed from the ledger and a directory walk alone, so it needs neither the source, nor the job, nor
the network. These are not drift: a file that was only touched, an excluded path, a path of the gateway
itself, a file that existed before the first sync. A file that others added to a managed folder since then
is drift, even where it is never deleted (`orphans: owned`).
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.domain.intent.files import ExcludePolicy
from stoker.domain.paths import RelPath
from stoker.engine.layout.protected_paths import ProtectedPaths
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.live import LiveDifferences, LiveKind


@dataclass(frozen=True, slots=True)
class FolderDrift:
    """Drifted paths by kind, sorted."""

    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        return {"modified": self.modified, "missing": self.missing, "extra": self.extra}

    def __bool__(self) -> bool:
        return any(self.kinds.values())


def find_drift(ledger: Ledger, live: LiveDifferences) -> FolderDrift:
    """Return the changes by others that a walk found."""
    if not live.found:
        return FolderDrift()
    protection = ProtectedPaths(ExcludePolicy(patterns=tuple(sorted(ledger.excludes))))
    modified: list[str] = []
    missing: list[str] = []
    extra: list[str] = []
    for path, entry in live.found.items():
        if path in ledger.files:
            as_left = entry is not None and entry.version == ledger.version(path)
            if not as_left and not protection.covers(path):  # it may have been excluded after it was written
                (missing if entry is None else modified).append(path)
        elif (
            entry is not None
            and entry.kind is not LiveKind.FOLDER
            and path not in ledger.kept
            and path not in ledger.intended
            and ledger.manages(path)
            and not protection.spares(RelPath(path))
        ):
            extra.append(path)
    return FolderDrift(tuple(sorted(modified)), tuple(sorted(missing)), tuple(sorted(extra)))
