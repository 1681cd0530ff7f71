"""Removes differences that mean nothing from plans and from drift.

A gateway writes the last editor of a resource into its `resource.json` and draws a thumbnail whenever a view
is opened. Only the contents of both sides show whether such a difference matters. So this module compares
them between planning and applying, and only for files that can be noise (`stoker.ignition.content.noise`
knows which). A file that is missing or cannot be read counts as a difference, and so does every file of a
folder in which an earlier sync was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stoker.agent.sync.contents import ContentDerivation, PlanContents
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import Blob, BlobId
from stoker.domain.paths import RelPath
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.drift_ignore import DriftIgnoreRules, equal_except_pointers
from stoker.engine.plan.ledger import Ledger, recorded_stat
from stoker.engine.plan.live import LiveDifferences
from stoker.engine.plan.plan import SyncPlan, WriteFile
from stoker.engine.source_protocol import SourceReader
from stoker.fs.data_folder import DataFolder

if TYPE_CHECKING:
    from stoker.ignition.content.noise import ResourceNoise

MAX_COMPARED_BYTES = 1 << 20


class NoiseContext(NamedTuple):
    """The inputs of a comparison: the live differences, the ledger, and readers for both sides."""

    live: LiveDifferences
    ledger: Ledger
    folder: DataFolder
    reader: SourceReader
    derived: Mapping[BlobId, ContentDerivation]


async def without_ignored(plan: SyncPlan, ignored: DriftIgnoreRules, around: NoiseContext) -> SyncPlan:
    """Return the plan without restoring files that differ only in values that drift rules ignore."""
    pointers = {
        write.path: found
        for write in plan.writes
        if write.replaces
        and around.ledger.version(write.path) == write.version
        and (found := ignored.pointers(write.path))
    }
    writes = [write for write in plan.writes if write.path in pointers] if pointers else []
    stats = live_stat_stamps(writes, around.live, around.ledger)
    writes = [write for write in writes if write.path in stats]
    if not writes:
        return plan
    contents = PlanContents.of(around.reader, around.derived, writes)
    await around.reader.complete({contents.source(write.version.blob) for write in writes})
    silent = await run_in_thread(
        lambda _: frozenset(
            _equivalent_paths(
                writes,
                contents,
                around.folder,
                lambda path, *both: equal_except_pointers(pointers[path], *both),
            )
        )
    )
    return plan.adopting({path: stats[path] for path in silent}) if silent else plan


async def without_noise(plan: SyncPlan, noise: ResourceNoise, around: NoiseContext) -> SyncPlan:
    """Return the plan without writes that would change only noise."""
    live, ledger, folder, reader, derived = around
    others = [*(one.path for one in plan.removals), *(one.path for one in plan.modes)]
    fresh = [write.path for write in plan.writes if not write.replaces]
    replaced = {str(write.path): write for write in plan.writes if write.replaces}
    groups = noise.doubtful([*replaced, *others, *fresh])
    # After an interrupted sync the data may already be new while the file that announces it is still missing.
    broken_off = {above for path in ledger.intended for above in RelPath.known(path).ancestors()}
    doubtful = {
        place: [replaced[path] for path in paths]
        for place, paths in groups.items()
        if replaced.keys() >= {*paths} and place not in broken_off
    }
    writes = [
        write
        for some in doubtful.values()
        for write in some
        if write.path in live_stat_stamps(some, live, ledger)
    ]
    if not writes:
        return plan
    contents = PlanContents.of(reader, derived, writes)
    await reader.complete({contents.source(write.version.blob) for write in writes})
    silent = await run_in_thread(
        lambda _: frozenset(
            _equivalent_paths(
                writes, contents, folder, lambda path, *both: noise.means_nothing(path.name, *both)
            )
        )
    )
    adopted: dict[str, bytes] = {}
    for some in doubtful.values():
        if all(write.path in silent for write in some):
            adopted |= live_stat_stamps(some, live, ledger)
    return plan.adopting(adopted) if adopted else plan


class EarlierContents(Protocol):
    """Serves the contents of an earlier sync: the source, or its local copy."""

    def held(self) -> AbstractAsyncContextManager[None]: ...

    async def complete(self, blobs: Collection[BlobId]) -> None: ...

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]: ...


async def drift_without_noise(
    drift: FolderDrift, noise: ResourceNoise, *, ledger: Ledger, folder: DataFolder, reader: EarlierContents
) -> FolderDrift:
    """Return the drift without the edits that a gateway routinely makes to its own resources."""
    groups = noise.doubtful([path for paths in drift.kinds.values() for path in paths])
    wanted = {
        path: version.blob
        for paths in groups.values()
        for path in paths
        if path in drift.modified and (version := ledger.version(path)) is not None
    }
    if not wanted:
        return drift

    def same(path: str, ours: bytes, theirs: bytes) -> bool:
        return noise.means_nothing(RelPath.known(path).name, ours, theirs)

    try:
        async with reader.held():
            await reader.complete(frozenset(wanted.values()))
            silent = await run_in_thread(lambda _: frozenset(_unchanged_paths(wanted, reader, folder, same)))
    except StokerError:  # a file that cannot be compared is reported as drift
        return drift
    quiet = {path for paths in groups.values() if silent.issuperset(paths) for path in paths}
    return replace(drift, modified=tuple(path for path in drift.modified if path not in quiet))


async def drift_without_ignored(
    drift: FolderDrift,
    ignored: DriftIgnoreRules,
    *,
    ledger: Ledger,
    folder: DataFolder,
    reader: EarlierContents,
) -> FolderDrift:
    """Return the drift without files that differ only in values that drift rules ignore."""
    wanted = {
        path: version.blob
        for path in drift.modified
        if ignored.pointers(path) and (version := ledger.version(path)) is not None
    }
    if not wanted:
        return drift

    def same(path: str, ours: bytes, theirs: bytes) -> bool:
        return equal_except_pointers(ignored.pointers(path), ours, theirs)

    try:
        async with reader.held():
            await reader.complete(frozenset(wanted.values()))
            quiet = await run_in_thread(lambda _: frozenset(_unchanged_paths(wanted, reader, folder, same)))
    except StokerError:  # a file that cannot be compared is reported as drift
        return drift
    return replace(drift, modified=tuple(path for path in drift.modified if path not in quiet))


def live_stat_stamps(writes: Iterable[WriteFile], live: LiveDifferences, ledger: Ledger) -> dict[str, bytes]:
    """Return the current stat data of each file; leaves out files whose mode would change as well."""
    found: dict[str, bytes] = {}
    for write in writes:
        there = live.at(write.path, ledger)
        if there is None or there.version is None or there.version.executable != write.version.executable:
            continue
        kept = ledger.files.get(write.path)
        known = kept is not None and write.path not in live.found
        found[write.path] = recorded_stat(kept) if known and kept is not None else there.stat
    return found


def _equivalent_paths(
    writes: Collection[WriteFile],
    contents: PlanContents,
    folder: DataFolder,
    same: Callable[[RelPath, bytes, bytes], bool],
) -> Iterable[str]:
    """Yield paths whose live content is equivalent to the content that would be written."""
    blobs = contents([write.version.blob for write in writes])
    for write, blob in zip(writes, blobs, strict=True):
        after = b"".join(blob.chunks)
        before = _read_live_file(folder, write.path)
        if before is not None and len(after) <= MAX_COMPARED_BYTES and same(write.path, before, after):
            yield write.path


def _unchanged_paths(
    wanted: Mapping[str, BlobId],
    reader: EarlierContents,
    folder: DataFolder,
    same: Callable[[str, bytes, bytes], bool],
) -> Iterable[str]:
    for path, blob in zip(wanted, reader.contents(list(wanted.values())), strict=True):
        ours, theirs = b"".join(blob.chunks), _read_live_file(folder, path)
        if theirs is not None and same(path, ours, theirs):
            yield path


def _read_live_file(folder: DataFolder, path: str) -> bytes | None:
    try:
        with folder.reading(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(MAX_COMPARED_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_COMPARED_BYTES else None
