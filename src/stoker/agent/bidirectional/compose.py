"""Turns changed live files into the files of the repository that a change set proposes.

A file that was delivered unchanged is proposed unchanged. A file shaped by a template, a normalization or a
patch is merged: the gateway's change is applied to the repository's text. It is proposed only if shaping the
merged text again gives exactly the live file. A file that cannot be proposed is refused with its reason; all
others continue. This module writes nothing, and the controller decides which contents are accepted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from stoker.agent.bidirectional.significance import LocalVersions, read_live_file
from stoker.agent.sync.contents import MAX_SHAPED
from stoker.agent.sync.jobs import SyncJob
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import BlobId, FileVersion, blob_of
from stoker.domain.protocol import ChangeAction, ChangedFile
from stoker.domain.protocol.changes import PLAIN, PROGRAM
from stoker.domain.refs import CommitId
from stoker.engine.layout.desired_files import ContentTransform
from stoker.engine.layout.layout import Layout
from stoker.engine.layout.reverse_map import RepositoryOrigin, RepositoryOrigins, file_commit
from stoker.engine.plan.ledger import Ledger
from stoker.engine.source_protocol import SourceReader
from stoker.engine.transform.three_way_text_merge import merge3
from stoker.engine.transform.transform import TransformSet
from stoker.fs.data_folder import DataFolder

MAX_BATCH_BYTES = 8 << 20
"""Larger batches continue in the next change set: all of it is in memory at once, and a set has 16 MiB."""


class ComposedChanges(NamedTuple):
    """The files that can be sent now, and those that can never be sent."""

    commit: CommitId
    files: tuple[ChangedFile, ...] = ()
    refused: Mapping[str, str] = {}
    moving: frozenset[str] = frozenset()
    """Files that changed again while they were read; they are read once more."""


class ChangeComposer:
    """Composes the changes of one gateway; the caller holds the reader and has fetched the commit."""

    def __init__(self, job: SyncJob, reader: SourceReader, folder: DataFolder, ledger: Ledger) -> None:
        self._job = job
        self._reader = reader
        self._folder = folder
        self._ledger = ledger

    def commit_for(self, changes: LocalVersions) -> CommitId:
        """Return the commit that most of the changes are based on."""
        counted = Counter(file_commit(self._ledger, path) for path in changes)
        return CommitId(max(counted, key=lambda commit: (counted[commit], commit)))

    async def compose(self, changes: LocalVersions, commit: CommitId, largest: int) -> ComposedChanges:
        """Compose those changes that are based on this commit."""
        now = {path: it for path, it in changes.items() if file_commit(self._ledger, path) == commit}
        layout = await self._layout(commit)
        origins = RepositoryOrigins(layout, self._ledger, now)
        answers = await self._reader.look_up(commit, origins.questions())
        found = origins.found(answers)
        texts = await self._texts(found, now)
        files, refused, moving = await run_in_thread(lambda _: self._files(now, found, texts, largest))
        return ComposedChanges(commit, tuple(files), refused, frozenset(moving))

    async def _layout(self, commit: CommitId) -> Layout:
        job = self._job
        made = await self._reader.committed_at(commit)
        values = job.values.at(job.source.ref, commit, made)
        return Layout(job.files, values, TransformSet(job.files.transforms, values))

    async def _texts(self, found: Mapping[str, RepositoryOrigin], changes: LocalVersions) -> dict[str, bytes]:
        """Return the repository's contents of files that are transformed on delivery."""
        wanted = {
            BlobId(one.version.blob)
            for path, one in found.items()
            if one.recipe is not None and one.version is not None and changes[path] is not None
        }
        if not wanted:
            return {}
        blobs = sorted(wanted)
        await self._reader.complete(blobs)
        return await run_in_thread(
            lambda _: {
                str(one.id): b"".join(one.chunks)
                for one in self._reader.contents(blobs)
                if one.size <= MAX_SHAPED
            }
        )

    def _files(
        self,
        changes: LocalVersions,
        found: Mapping[str, RepositoryOrigin],
        texts: Mapping[str, bytes],
        largest: int,
    ) -> tuple[list[ChangedFile], dict[str, str], list[str]]:
        files: list[ChangedFile] = []
        refused: dict[str, str] = {}
        moving: list[str] = []
        size, folder = 0, ""
        for path in sorted(changes):
            above = path.rpartition("/")[0]
            if size > MAX_BATCH_BYTES and (above != folder or size > 2 * MAX_BATCH_BYTES):
                break
            folder = above
            try:
                files.append(self._file(path, changes[path], found.get(path), texts, largest))
                size += len(files[-1].content)
            except _FileStillChanging:
                moving.append(path)
            except InvalidValue as error:
                refused[path] = error.message
        return files, refused, moving

    def _file(
        self,
        path: str,
        version: FileVersion | None,
        origin: RepositoryOrigin | None,
        texts: Mapping[str, bytes],
        largest: int,
    ) -> ChangedFile:
        if origin is None:
            known = path in self._ledger.files
            raise InvalidValue(
                "is generated by the agent and has no file in the repository"
                if known
                else "no mapping covers it, so it has no path in the repository"
            )
        ours = self._ledger.version(path)
        base = origin.version.blob if origin.version is not None else ""
        if origin.recipe is None and ours is not None:
            base = ours.blob  # the delivered content, whatever the commit has now
        if version is None:
            return ChangedFile(path, origin.path, ChangeAction.DELETED, base)
        content = self._content(path, version, largest)
        if origin.recipe is not None and ours is not None:
            content = _merge_gateway_change(content, texts.get(base), origin.recipe, ours.blob)
        blob = blob_of(content, digits=len(version.blob))
        before = _mode(ours) if ours is not None else ""
        return ChangedFile(
            path, origin.path, ChangeAction.WRITTEN, base, blob, content, _mode(version), before
        )

    def _content(self, path: str, version: FileVersion, largest: int) -> bytes:
        content = read_live_file(self._folder, path, largest)
        if content is None:
            if self._is_larger(path, largest):
                raise InvalidValue(f"is larger than {largest} bytes")
            raise _FileStillChanging(path)
        if blob_of(content, digits=len(version.blob)) != version.blob:
            raise _FileStillChanging(path)
        return content

    def _is_larger(self, path: str, largest: int) -> bool:
        try:
            with self._folder.reading(path) as fd:
                return os.fstat(fd).st_size > largest
        except OSError:
            return False


def _mode(version: FileVersion) -> str:
    return PROGRAM if version.executable else PLAIN


class _FileStillChanging(Exception):
    """The file changed again since the last look."""


def _merge_gateway_change(live: bytes, text: bytes | None, recipe: ContentTransform, ours: str) -> bytes:
    """Return the repository's text merged with the gateway's change to the transformed content."""
    if text is None:
        raise InvalidValue("is transformed during delivery, and its source text cannot be read")
    base = recipe.apply(text)
    if blob_of(base, digits=len(ours)) != ours:
        raise InvalidValue(
            "is transformed during delivery, and the transformation has changed since; sync first"
        )
    merged = merge3(base, text, live)
    if merged is None:
        raise InvalidValue("was changed where a template, a normalization or a patch sets a value")
    if recipe.apply(merged) != live:
        raise InvalidValue("cannot be proposed: its transformation would change the content on the next sync")
    return merged
