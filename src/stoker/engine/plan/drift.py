"""Drift: what in the managed places is not as the last pass left it.

Read off the ledger and a walk alone, so it can be told without the source, without
the job and without the network. A file that was only touched is no drift; nor is
what is excluded, what is the gateway's own, or what was there before us. A file that
others put into a managed folder since then is drift, also where it is never deleted
(`orphans: owned`).
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
    """Paths, sorted."""

    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        return {"modified": self.modified, "missing": self.missing, "extra": self.extra}

    def __bool__(self) -> bool:
        return any(self.kinds.values())


def find_drift(ledger: Ledger, live: LiveDifferences) -> FolderDrift:
    """What a walk found that somebody else did."""
    if not live.found:
        return FolderDrift()
    protection = ProtectedPaths(ExcludePolicy(patterns=tuple(sorted(ledger.excludes))))
    modified: list[str] = []
    missing: list[str] = []
    extra: list[str] = []
    for path, entry in live.found.items():
        if path in ledger.files:
            as_left = entry is not None and entry.version == ledger.version(path)
            if not as_left and not protection.covers(path):  # excluded since it was written
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
