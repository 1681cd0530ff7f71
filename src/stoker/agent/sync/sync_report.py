"""The report of a sync: one value for the terminal, for JSON and for a gateway's status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from stoker.agent.sync.jobs import SyncResult, SyncWait
from stoker.domain.errors import Stalled
from stoker.domain.git_objects import PathNote
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.plan import SyncPlan
from stoker.engine.plan.skipped import SkippedContent
from stoker.fs.apply_plan import ApplyResult

_MAX_LISTED = 20
_PROJECTS = "projects/"


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The changes that one sync made or would make, and its problems."""

    commit: CommitId
    ref: GitRef
    plan: SyncPlan
    applied: ApplyResult | None = None
    """None for a dry run."""
    stalled: Stalled | None = None
    """For a dry run: why the plan would not be applied."""
    waits: SyncWait | None = None
    """Why the changes were only planned: no maintenance window is open."""
    drift: FolderDrift = field(default_factory=FolderDrift)
    """Changes by other writers in the managed paths; empty if the sync did not walk the folder."""
    diff: tuple[str, ...] = ()
    """For a dry run with `diff`: the changes line by line."""
    unverified: tuple[PathNote, ...] = ()
    """Files are in place, but the gateway or a user's script did not confirm that they work."""
    trouble: tuple[PathNote, ...] = ()
    duration_seconds: float = 0.0

    def lasting(self, seconds: float) -> SyncReport:
        return replace(self, duration_seconds=seconds)

    @property
    def result(self) -> SyncResult:
        if self.stalled is not None:
            return SyncResult.STALLED
        if self.waits is not None:
            return SyncResult.WAITING
        if self.partial:
            return SyncResult.PARTIAL
        if self.plan.held:
            return SyncResult.HELD
        return SyncResult.UNVERIFIED if self.unverified else SyncResult.DONE

    @property
    def drift_left(self) -> FolderDrift:
        """Drift that remains after the files that this sync restored."""
        if self.applied is None or not self.drift:
            return self.drift
        back = {*self.applied.added, *self.applied.modified, *self.applied.deleted}
        kinds = self.drift.kinds.items()
        return FolderDrift(
            **{word: tuple(path for path in paths if path not in back) for word, paths in kinds}
        )

    @property
    def drift_restored(self) -> tuple[str, ...]:
        """Paths that drifted since the last sync and that this sync restored."""
        left = {path for paths in self.drift_left.kinds.values() for path in paths}
        return tuple(
            sorted(path for paths in self.drift.kinds.values() for path in paths if path not in left)
        )

    @property
    def skipped(self) -> SkippedContent:
        """Content of the repository or the mappings that the gateway does not get, excluded files aside."""
        facts = self.plan.facts
        return SkippedContent.stored(facts.skipped, facts.skipped_total)

    @property
    def files_changed(self) -> int:
        return len(self.done.added) + len(self.done.modified) + len(self.done.deleted)

    @property
    def projects(self) -> tuple[str, ...]:
        """Names of the projects in which a file changed."""
        done = self.done
        paths = (*done.added, *done.modified, *done.deleted)
        found = {
            path.split("/", 2)[1] for path in paths if path.startswith(_PROJECTS) and path.count("/") > 1
        }
        return tuple(sorted(found))

    @property
    def lasted(self) -> str:
        return f"{self.duration_seconds:.2f}s"

    @property
    def partial(self) -> bool:
        """Whether a file that should be on disk is missing there."""
        return bool(self.errors or self.plan.conflicts)

    @property
    def errors(self) -> tuple[PathNote, ...]:
        return self.trouble + self.plan.refused + (self.applied.errors if self.applied is not None else ())

    @property
    def done(self) -> ApplyResult:
        """The changes that were made; for a dry run, the changes that would be made."""
        if self.applied is not None:
            return self.applied
        return ApplyResult(
            added=tuple(write.path for write in self.plan.writes if not write.replaces),
            modified=tuple(change.path for change in self.plan.rewrites),
            deleted=tuple(delete.path for delete in self.plan.removals),
        )

    def as_json(self) -> dict[str, object]:
        """Return the report as one JSON object, whatever the result; a dry run includes the plan."""
        done = self.done
        plan = {"plan": self.plan.as_json()} if self.applied is None else {}
        return plan | {
            "commit": self.commit,
            "ref": self.ref,
            "dryRun": self.applied is None,
            "added": list(done.added),
            "modified": list(done.modified),
            "deleted": list(done.deleted),
            "skipped": _notes_as_json(self.plan.skipped),
            "errors": _notes_as_json(self.errors),
            "conflicts": _notes_as_json(self.plan.conflicts),
            "orphansKept": list(self.plan.orphans_kept),
            "notOurs": list(self.plan.not_ours),
            "unverified": _notes_as_json(self.unverified),
            "held": [{"path": one.place, "message": one.why, "user": one.user} for one in self.plan.held],
            "drift": drift_as_json(self.drift),
            "durationSeconds": round(self.duration_seconds, 3),
            "bytesWritten": done.bytes_written,
            "planDigest": self.plan.digest if self.plan.needs_digest else None,
            "stalled": None if self.stalled is None else _error_as_json(self.stalled),
            "waits": None if self.waits is None else self.waits.as_json(),
        }

    def lines(self, where: str = "", files_only: str = "") -> Iterator[str]:
        """Yield the report for people; long lists of untouched files are cut, counts are not."""
        done = self.done
        for word, paths in (("added", done.added), ("modified", done.modified), ("deleted", done.deleted)):
            yield from (f"{word} {path}" for path in paths)
        for word, notes in (("skipped", self.plan.skipped), ("conflict", self.plan.conflicts)):
            yield from _truncate_lines([f"{word} {note.path}: {note.why}" for note in notes])
        kept = (
            "not written by Stoker"
            if self.applied is not None
            else "not written by Stoker; approval deletes it"
        )
        yield from _truncate_lines([f"kept {path}: {kept}" for path in self.plan.orphans_kept])
        yield from _truncate_lines([f"kept {path}: not written by Stoker" for path in self.plan.not_ours])
        yield from (f"held {one.place}: {one.why}" for one in self.plan.held)
        yield from (f"error {note.path}: {note.why}" for note in self.errors)
        yield from (f"not verified {note.path}: {note.why}" for note in self.unverified)
        if self.applied is None:
            for folder in sorted(self.plan.facts.mirrored):
                yield f"mirror {folder}: files that Stoker did not write are deleted"
        elif self.plan.orphans_kept:
            # The next plan lacks the actions applied now, so its digest covers only the kept files.
            left = SyncPlan(orphans_kept=self.plan.orphans_kept)
            yield (
                f"to delete the {len(left.orphans_kept)} kept files that Stoker did not write, approve plan "
                f"{left.digest}"
            )
        yield self.summary(where, files_only)

    def summary(self, where: str = "", files_only: str = "") -> str:
        """Return one line: changes made or planned, changes left out, and the digest of a plan to approve.

        `files_only` is the flag or field because of which the agent did not contact the gateway.
        """
        done = self.done
        counts = {
            "added": len(done.added),
            "modified": len(done.modified),
            "deleted": len(done.deleted),
            "skipped": max(len(self.plan.skipped), self.skipped.total),
            "in conflict": len(self.plan.conflicts),
            "held": len(self.plan.held),
            "failed": len(self.errors),
            "kept, not written by Stoker": len(self.plan.orphans_kept) + len(self.plan.not_ours),
        }
        told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        line = f"{where or f'{self.ref} is at {self.commit.short}'}: {told or 'nothing to do'}"
        if self.applied is None:
            if not self.plan.needs_digest:
                return line
            digest = self.plan.digest
            is_named = self.stalled is not None and digest in self.stalled.message
            return f"{line} (not applied)" if is_named else f"{line} (not applied; plan {digest})"
        if files_only and self.files_changed:
            return f"{line}; no scan requested: {files_only}"
        if not self.unverified:
            return line
        first, more = self.unverified[0], len(self.unverified) - 1
        return f"{line}; not verified: {first.path}: {first.why}{f' (and {more} more)' if more else ''}"


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """The drift of a folder since its last sync."""

    commit: str
    drift: FolderDrift
    trouble: tuple[PathNote, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.drift and not self.trouble

    def as_json(self) -> dict[str, object]:
        return {"commit": self.commit, **drift_as_json(self.drift), "errors": _notes_as_json(self.trouble)}

    def lines(self) -> Iterator[str]:
        for word, paths in self.drift.kinds.items():
            yield from (f"{word} {path}" for path in paths)
        yield from (f"error {note.path}: {note.why}" for note in self.trouble)
        counts = [f"{len(paths)} {word}" for word, paths in self.drift.kinds.items() if paths]
        yield f"since the sync of {self.commit[:8]}: {', '.join(counts) or 'nothing was changed'}"


def drift_as_json(drift: FolderDrift) -> dict[str, object]:
    return {word: list(paths) for word, paths in drift.kinds.items()}


def _error_as_json(error: Stalled) -> dict[str, object]:
    return {"reason": error.reason.value, "message": error.message}


def _notes_as_json(notes: Iterable[PathNote]) -> list[dict[str, str]]:
    return [{"path": note.path, "message": note.why} for note in notes]


def _truncate_lines(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LISTED
    return lines if more <= 0 else [*lines[:_MAX_LISTED], f"… and {more} more"]
