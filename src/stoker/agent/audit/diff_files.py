"""Writes a file for each sync with its changes: `.sync-state/diffs/{gateway}-diff-{time}.json`.

This hook reads files before and after they change and writes the checksums of both. The ten newest files are
kept. For a very large change only the first files have checksums, and the report counts the changes it leaves
out. It must never fail a sync: a file that cannot be read has no checksum, and a failed write is a warning.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import GatewayRef
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.fs.apply_plan import ApplyResult
from stoker.fs.data_folder import DataFolder
from stoker.fs.record_files import store_report

DIFF_FOLDER = "diffs"
MAX_REPORTS = 10
MAX_CHANGES = 5000
MAX_CHECKSUMS = 1000
MAX_CHECKSUM_BYTES = 64 << 20


class DiffFiles:
    """A `SyncHook` that records the changed files."""

    def __init__(self, data_dir: Path, gateway: GatewayRef, clock: Clock) -> None:
        self._data_dir = data_dir
        self._gateway = gateway
        self._clock = clock
        self._from = ""
        self._before: dict[str, str] = {}

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        plan = change.plan
        going = [write.path for write in plan.writes if write.replaces]
        going += [*(one.path for one in plan.modes), *(one.path for one in plan.removals)]
        self._from = change.before.commit if change.before is not None else ""
        self._before = await run_in_thread(lambda _: checksums(self._data_dir, going)) if going else {}
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        try:
            await run_in_thread(lambda _: self._write(change, applied))
        except (OSError, StokerError) as error:
            from stoker.telemetry.logs import get_logger  # noqa: PLC0415 - a single sync has no log

            get_logger(__name__).warning("diff.unwritten", error=str(error))
        return ()

    def _write(self, change: SyncChange, applied: ApplyResult) -> None:
        kinds = {"added": applied.added, "modified": applied.modified, "deleted": applied.deleted}
        if not any(kinds.values()):
            return
        changes = sorted((str(path), word) for word, paths in kinds.items() for path in paths)
        listed = changes[:MAX_CHANGES]
        after = checksums(self._data_dir, [path for path, word in listed if word != "deleted"])
        projects = {path.split("/", 2)[1] for path, _ in changes if path.startswith("projects/")}
        now = self._clock.now()
        report = {
            "gateway": self._gateway.name,
            "timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z",
            "fromCommit": self._from,
            "toCommit": str(change.commit),
            "ref": str(change.ref),
            "filesAdded": len(applied.added),
            "filesModified": len(applied.modified),
            "filesDeleted": len(applied.deleted),
            "projectsAffected": sorted(projects),
            "changes": [
                {
                    "path": path,
                    "action": word,
                    "checksum": {
                        "before": None if word == "added" else self._before.get(path),
                        "after": after.get(path),
                    },
                }
                for path, word in listed
            ],
            "changesLeftOut": len(changes) - len(listed),
        }
        stamp = f"{now:%Y%m%d-%H%M%S}.{now.microsecond // 1000:03}"
        name = f"{_file_name(self._gateway.name)}-diff-{stamp}.json"
        content = json.dumps(report, ensure_ascii=False, indent=1).encode(errors="surrogateescape")
        store_report(self._data_dir, DIFF_FOLDER, name, content + b"\n", most=MAX_REPORTS)


def checksums(data_dir: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return checksums of the first readable files, up to a limit of files and bytes."""
    import hashlib  # noqa: PLC0415 - only needed for changes

    found: dict[str, str] = {}
    left = MAX_CHECKSUM_BYTES
    with DataFolder.opened(data_dir) as folder:
        for path in paths:
            if len(found) >= MAX_CHECKSUMS or left <= 0:
                break
            try:
                with folder.reading(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
                    left -= os.fstat(fd).st_size
                    if left < 0:
                        break
                    found[path] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            except OSError:
                continue
    return found


def _file_name(name: str) -> str:
    """Return the gateway's name as part of a file name; without a cluster it may hold any character."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:100]
