"""Decides which of a gateway's own changes matter.

A gateway routinely writes the last editor of a resource and draws thumbnails (`stoker.ignition.content.noise`
knows which files). Only both contents show whether such a change matters, so each pair of contents is
compared once and the result is kept. A thumbnail follows its view: it is noise only if nothing else in its
folder changed. A pair that cannot be compared after a few attempts counts as a change.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.paths import RelPath
from stoker.engine.plan.ledger import Ledger
from stoker.engine.source_protocol import SourceReader
from stoker.fs.data_folder import DataFolder

if TYPE_CHECKING:
    from stoker.ignition.content.noise import ResourceNoise

MAX_COMPARED_BYTES = 1 << 20
MAX_COMPARED_FILES = 10_000
MAX_ATTEMPTS = 3

LocalVersions = Mapping[str, FileVersion | None]
_ContentPair = tuple[str, str, str]


class ChangeSignificance:
    """Keeps the results of compared contents for one data folder."""

    def __init__(self, noise: ResourceNoise | None) -> None:
        self._noise = noise
        self._verdicts: dict[_ContentPair, bool] = {}
        self._tries: Counter[_ContentPair] = Counter()

    def undecided(self, changes: LocalVersions, ledger: Ledger) -> dict[str, _ContentPair]:
        """Return the changes that have to be compared first."""
        if self._noise is None or not changes:
            return {}
        asked = (path for paths in self._noise.doubtful(changes).values() for path in paths)
        pairs = {path: _content_pair(path, changes, ledger) for path in asked}
        return {path: pair for path, pair in pairs.items() if pair not in self._verdicts}

    def of(self, changes: LocalVersions, ledger: Ledger) -> dict[str, FileVersion | None]:
        """Return the changes without noise; undecided changes are included."""
        if self._noise is None or not changes:
            return dict(changes)
        quiet = {
            path
            for paths in self._noise.doubtful(changes).values()
            if all(self._verdicts.get(_content_pair(path, changes, ledger), False) for path in paths)
            for path in paths
        }
        return {path: version for path, version in changes.items() if path not in quiet}

    async def judge(
        self, pairs: Mapping[str, _ContentPair], folder: DataFolder, reader: SourceReader | None
    ) -> None:
        """Compare the pairs; the caller holds the reader, or passes None if the source is unavailable."""
        noise = self._noise
        if noise is None:
            return
        if len(self._verdicts) > MAX_COMPARED_FILES:
            self._verdicts.clear()
            self._tries.clear()
        before = await _read_source_blobs(reader, {pair[1] for pair in pairs.values() if pair[1]})
        self._verdicts.update(await run_in_thread(lambda _: _compare_pairs(pairs, before, folder, noise)))
        for pair in pairs.values():
            self._tries[pair] += pair not in self._verdicts
            if self._tries[pair] >= MAX_ATTEMPTS:
                self._verdicts[pair] = False


def _compare_pairs(
    pairs: Mapping[str, _ContentPair], before: Mapping[str, bytes], folder: DataFolder, noise: ResourceNoise
) -> dict[_ContentPair, bool]:
    verdicts: dict[_ContentPair, bool] = {}
    for path, pair in pairs.items():
        _, ours, theirs = pair
        if ours and ours not in before:
            continue
        after = read_live_file(folder, path, MAX_COMPARED_BYTES) if theirs else None
        same = not theirs or after is not None
        verdicts[pair] = same and noise.means_nothing(RelPath.known(path).name, before.get(ours), after)
    return verdicts


def _content_pair(path: str, changes: LocalVersions, ledger: Ledger) -> _ContentPair:
    ours, theirs = ledger.version(path), changes[path]
    return path, ours.blob if ours is not None else "", theirs.blob if theirs is not None else ""


async def _read_source_blobs(reader: SourceReader | None, blobs: Collection[str]) -> dict[str, bytes]:
    """Return the contents that the source has and that are not too large."""
    if reader is None:
        return {}
    wanted = [BlobId(blob) for blob in sorted(blobs)]
    try:
        return await _read_all(reader, wanted)
    except StokerError:
        found: dict[str, bytes] = {}
    for blob in wanted:  # a derived content is not in the source and must not hide the others
        try:
            found |= await _read_all(reader, [blob])
        except StokerError:
            continue
    return found


async def _read_all(reader: SourceReader, blobs: list[BlobId]) -> dict[str, bytes]:
    if not blobs:
        return {}
    await reader.complete(blobs)
    return await run_in_thread(
        lambda _: {
            str(one.id): b"".join(one.chunks)
            for one in reader.contents(blobs)
            if one.size <= MAX_COMPARED_BYTES
        }
    )


def read_live_file(folder: DataFolder, path: str, at_most: int) -> bytes | None:
    """Return the live content; None if it cannot be read or is larger than `at_most`."""
    try:
        with folder.reading(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(at_most + 1)
    except OSError:
        return None
    return content if len(content) <= at_most else None
