"""Differences that mean nothing: neither written nor told.

A gateway writes who touched a resource last into its `resource.json` and draws a
thumbnail whenever a view is opened. Whether such a difference means something can
only be told from the contents of both sides, so it is asked here, between planning
and applying, and only of files that could be meant (`stoker.ignition.content.noise` knows
which). Whatever cannot be read or found counts as a difference, and so does everything
in a folder in which an earlier pass did not come to its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import NamedTuple, Protocol

from stoker.agent.sync.contents import ContentDerivation, PlanContents
from stoker.agent.sync.hooks import NoiseFilter
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

MAX_COMPARED_BYTES = 1 << 20


class NoiseContext(NamedTuple):
    """Where a plan was made: what lies on disk, what we wrote, and who has the contents of both sides."""

    live: LiveDifferences
    ledger: Ledger
    folder: DataFolder
    reader: SourceReader
    derived: Mapping[BlobId, ContentDerivation]


async def without_ignored(plan: SyncPlan, ignored: DriftIgnoreRules, around: NoiseContext) -> SyncPlan:
    """The plan without restoring files in which only values differ that are nobody's drift."""
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


async def without_noise(plan: SyncPlan, noise: NoiseFilter, around: NoiseContext) -> SyncPlan:
    """The plan without writes that would change nothing that matters."""
    live, ledger, folder, reader, derived = around
    others = [*(one.path for one in plan.removals), *(one.path for one in plan.modes)]
    fresh = [write.path for write in plan.writes if not write.replaces]
    replaced = {str(write.path): write for write in plan.writes if write.replaces}
    groups = noise.doubtful([*replaced, *others, *fresh])
    # Where a pass broke off, the data may be new already and only what announces it be missing.
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
    """Who has the contents of an earlier pass: the source, or what is left of it."""

    def held(self) -> AbstractAsyncContextManager[None]: ...

    async def complete(self, blobs: Collection[BlobId]) -> None: ...

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]: ...


async def drift_without_noise(
    drift: FolderDrift, noise: NoiseFilter, *, ledger: Ledger, folder: DataFolder, reader: EarlierContents
) -> FolderDrift:
    """The drift without what the gateway does to its own resources all day."""
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
    except StokerError:  # what cannot be compared is told
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
    """The drift without files in which only values differ that are nobody's drift."""
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
    except StokerError:  # what cannot be compared is told
        return drift
    return replace(drift, modified=tuple(path for path in drift.modified if path not in quiet))


def live_stat_stamps(writes: Iterable[WriteFile], live: LiveDifferences, ledger: Ledger) -> dict[str, bytes]:
    """How each file lies there now; those whose mode would change as well are left out."""
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
    """Paths at which what lies there means the same as what would be written."""
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
