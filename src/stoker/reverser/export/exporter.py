"""Write all objects that rules select to a folder or a branch, once.

    view → for each list: objects → noise, secret policy, sanitize, render, path → put
                                                                                   ↓
         finish ← digests of encrypted files ← deletion of orphans (only with prune)

The exporter makes no decisions of its own: the same functions as in the reverser decide what is written and
how. An object that cannot be read or written is reported and does not stop the export. A file that already
holds the same values stays as it is, with its comments. Deletions happen only if the user requested them,
only for manifests of objects that a completely read list does not show, never in a folder of another cluster,
and never beyond the limits of the deletion guard without an approval of exactly that plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker.domain.deletion_guard import DeletionCandidate, DeletionCause, decide_deletions, deletions_digest
from stoker.domain.errors import Retry, StokerError
from stoker.domain.git_objects import PathNote, blob_of
from stoker.domain.secrets import Secret
from stoker.git.commit.types import FileEdit
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import ApiError, Unauthorized
from stoker.reverser.encryption.digests import MIN_KEY_BYTES, DigestKeys
from stoker.reverser.export.cluster_view import ClusterView, list_objects, read_cluster_view
from stoker.reverser.export.types import ExportJob, ExportReport, ExportStore, FileUnwritable
from stoker.reverser.manifest.compare import describes, has_same_values
from stoker.reverser.manifest.named_secrets import why_undecided
from stoker.reverser.manifest.path import ManifestKey, manifest_path, object_at_path
from stoker.reverser.manifest.secret_policy import (
    SecretPolicy,
    UnchangedSecret,
    WithheldSecret,
    is_secret,
    never_written_reason,
    object_content,
)
from stoker.reverser.selection.noise import noise_reason
from stoker.reverser.selection.rules import ChangeOperation, DestinationRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.writer.batch import PendingFileChange, PlannedCommit
from stoker.reverser.writer.commit_message import CommitOrigin, commit_message
from stoker.reverser.writer.orphans import OrphanFile, find_orphans
from stoker.reverser.writer.ownership_marker import marker_cluster, marker_path

if TYPE_CHECKING:
    from stoker.reverser.encryption.sealer import SopsSealer

NAME = "stoker-export"
"""Distinguishes an export from a reverser in the trailers of a commit."""
_READ_BATCH = 50

ExportProgress = Callable[[str, int, int], None]


class _FileRewrite(NamedTuple):
    """An existing file that may be overwritten, because its bytes differ."""

    ref: DestinationRef
    key: ManifestKey
    path: str
    content: bytes
    in_clear: bool


class Exporter:
    """Runs one export."""

    def __init__(
        self,
        client: KubeClient,
        job: ExportJob,
        store: ExportStore,
        to: str,
        progress: ExportProgress = lambda *_: None,
    ) -> None:
        self._client = client
        self._job = job
        self._store = store
        self._progress = progress
        self._report = ExportReport(to)
        self._listed: set[WatchedKind] = set()
        self._claimed: set[str] = set()
        # Keyed by path, because a list that restarts shows objects twice.
        self._changes: dict[str, PendingFileChange] = {}
        self._same: set[str] = set()
        self._rewrites: list[_FileRewrite] = []
        self._of_others: set[str] = set()
        """Base folders whose marker names another cluster."""
        self._in_clear: set[str] = set()
        self._left: set[ManifestKey] = set()
        self._sealed: dict[DestinationRef, list[FileEdit]] = {}
        self._sealers: dict[DestinationRef, SopsSealer] = {}

    async def run(self) -> ExportReport:
        self._progress("asking what is served", 0, 0)
        view = await read_cluster_view(self._client, self._job)
        self._report.errors += view.troubles
        self._report.notices += view.notices
        self._progress("looking at what is there", 0, 0)
        await self._store.begin({target.base for target in self._job.targets.values()})
        self._sealers = await self._begin_sealing()
        await self._tell_owners(view)
        watched = view.selection.watched
        for number, each in enumerate(watched):
            self._progress("exporting", number, len(watched))
            await self._take(view, each)
        await self._leave_or_delete(view)
        self._join_digests()
        return await self._finish(view)

    async def _take(self, view: ClusterView, watched: WatchedKind) -> None:
        try:
            async for key, obj in list_objects(self._client, watched):
                self._export(view, key, obj)
                if len(self._rewrites) >= _READ_BATCH:
                    await self._rewrite()
        except Unauthorized:
            raise
        except ApiError as error:
            self._fail(str(watched.resource), error.message)
        else:
            self._listed.add(watched)
        await self._rewrite()

    async def _rewrite(self) -> None:
        """Write the files whose values differ; the others keep their comments and layout."""
        rewrites, self._rewrites = self._rewrites, []
        there = await self._store.read([each.path for each in rewrites])
        for each in rewrites:
            if has_same_values(there.get(each.path, b""), each.content):
                self._same.add(each.path)
                continue
            try:
                self._put(each, ChangeOperation.UPDATE)
            except FileUnwritable as error:
                self._fail(str(each.key), error.message)

    def _export(self, view: ClusterView, key: ManifestKey, obj: dict[str, Any]) -> None:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        taken = view.selection.taken_by(key, labels, view.labels_of(key.namespace))
        if not taken or never_written_reason(obj, key, view.own or ()) or noise_reason(obj, key):
            self._left.add(key)
            return
        for ref in taken:
            try:
                self._write(ref, view, key, obj)
            except Retry:
                raise  # the disk is the cause, not this object
            except StokerError as error:
                self._fail(str(key), error.message)

    def _write(self, ref: DestinationRef, view: ClusterView, key: ManifestKey, obj: dict[str, Any]) -> None:
        target = self._job.targets[ref]
        path = manifest_path(key, target.base)
        self._claimed.add(path)  # the object exists, so its file is no orphan, whether or not it is written
        if omission_reason(obj, key, view, target.policy) is not None:
            self._left.add(key)
            return
        content = object_content(
            obj, key, path, policy=target.policy, own=view.own or (), sealer=self._sealers.get(ref)
        )
        if isinstance(content, WithheldSecret):
            self._claimed.discard(path)
            self._left.add(key)
            return
        in_clear = is_secret(key) and target.policy is SecretPolicy.INCLUDE
        if in_clear:
            self._in_clear.add(path)
        there = self._store.blob(path)
        if isinstance(content, UnchangedSecret) or blob_of(content, digits=self._store.digits) == there:
            self._same.add(path)
            return
        rewrite = _FileRewrite(ref, key, path, content, in_clear)
        if there is None:
            self._put(rewrite, ChangeOperation.CREATE)
        else:
            self._rewrites.append(rewrite)

    def _put(self, file: _FileRewrite, operation: ChangeOperation) -> None:
        self._store.put(file.path, file.content, private=file.in_clear)
        self._note(file.key, file.path, operation)
        if is_secret(file.key):
            self._sealed.setdefault(file.ref, []).append(FileEdit(file.path, file.content))

    async def _begin_sealing(self) -> dict[DestinationRef, SopsSealer]:
        """Return a sealer for each destination that encrypts; with keys it recognizes its own files."""
        refs = [r for r, target in self._job.targets.items() if target.policy is SecretPolicy.ENCRYPT]
        if not refs:
            return {}
        from stoker.reverser.encryption.sealer import SopsSealer  # noqa: PLC0415 - few encrypt, and it takes a library

        keys = self._job.keys or DigestKeys(Secret(os.urandom(MIN_KEY_BYTES)))
        sealers = {
            ref: SopsSealer(
                self._job.recipients.get(ref, ()),
                keys,
                self._job.targets[ref].base,
                self._store.blob,
                digits=self._store.digits,
            )
            for ref in refs
        }
        if self._job.keys is not None:
            there = await self._store.read([sealer.path for sealer in sealers.values()])
            for sealer in sealers.values():
                sealer.load(there.get(sealer.path))
        return sealers

    async def _tell_owners(self, view: ClusterView) -> None:
        markers = {marker_path(target.base): target.base for target in self._job.targets.values()}
        for path, content in (await self._store.read(sorted(markers))).items():
            self._report.notices.append(f"{path} says that a reverser writes to this folder by itself")
            if marker_cluster(content) != view.cluster_uid:
                self._of_others.add(markers[path])

    async def _leave_or_delete(self, view: ClusterView) -> None:
        """Report orphans, and delete them with `prune`."""
        orphans = sorted(set(self._orphans(view)))
        if not self._job.prune:
            self._report.orphans_kept += (orphan.path for orphan in orphans)
            return
        described = await self._described(orphans)
        for orphan in self._released([orphan for orphan in orphans if orphan.path in described], orphans):
            try:
                self._store.put(orphan.path, None)
            except FileUnwritable as error:
                self._fail(orphan.path, error.message)
            else:
                self._note(orphan.key, orphan.path, ChangeOperation.DELETE)
                for ref in self._sealers:
                    self._sealed.setdefault(ref, []).append(FileEdit(orphan.path, None))

    async def _described(self, orphans: list[OrphanFile]) -> set[str]:
        """Return the paths of files that are manifests of their object."""
        described: set[str] = set()
        for start in range(0, len(orphans), _READ_BATCH):
            some = orphans[start : start + _READ_BATCH]
            contents = await self._store.read([orphan.path for orphan in some])
            described |= {
                orphan.path
                for orphan in some
                if describes(contents.get(orphan.path, b""), orphan.key, orphan.kind)
            }
        return described

    def _released(self, ours: list[OrphanFile], orphans: list[OrphanFile]) -> list[OrphanFile]:
        """Return the orphans that may be deleted; report the others as kept, held deletions as an error."""
        digest = deletions_digest(orphan.path for orphan in ours if not self._is_of_others(orphan))
        approved = self._job.approved_plan
        plan = [
            DeletionCandidate(orphan.path, DeletionCause.ORPHAN, ours=not self._is_of_others(orphan))
            for orphan in ours
        ]
        files = sum(1 for _ in self._canonical())
        decision = decide_deletions(plan, files, self._job.budget, digest=digest, approved=approved)
        if decision.hold:
            self._fail("--prune", f"{decision.why} (--approve-plan {digest})")
        elif decision.stale:
            self._fail("--approve-plan", f"{approved} names another plan; the plan is {digest} now")
        deleted = set() if decision.hold or decision.stale else {each.path for each in decision.delete}
        self._report.orphans_kept += (orphan.path for orphan in orphans if orphan.path not in deleted)
        return [orphan for orphan in ours if orphan.path in deleted]

    def _is_of_others(self, orphan: OrphanFile) -> bool:
        return any(not base or orphan.path.startswith(f"{base}/") for base in self._of_others)

    def _orphans(self, view: ClusterView) -> Iterator[OrphanFile]:
        def shows(watched: WatchedKind, key: ManifestKey) -> bool | None:
            return False if watched in self._listed else None

        for ref, target in self._job.targets.items():
            unclaimed = [path for path in self._store.paths(target.base) if path not in self._claimed]
            yield from find_orphans(unclaimed, target.base, ref, view.selection, shows).orphans

    def _canonical(self) -> Iterator[str]:
        bases = {target.base for target in self._job.targets.values()}
        return (path for base in bases for path in self._store.paths(base) if object_at_path(path, base))

    def _join_digests(self) -> None:
        if self._job.keys is None:
            return
        for ref, sealer in self._sealers.items():
            for edit in sealer.joined(self._sealed.get(ref, ())):
                try:
                    self._store.put(edit.path, edit.content)
                except FileUnwritable as error:
                    self._fail(edit.path, error.message)

    async def _finish(self, view: ClusterView) -> ExportReport:
        self._progress("finishing", 0, 0)
        origin = CommitOrigin(view.cluster_uid, "", NAME, NAME)
        changes = tuple(self._changes.values())
        message = commit_message(PlannedCommit(None, changes), origin) if changes else "Export\n"
        finished = await self._store.finish(message)
        refused = {note.path for note in finished.refused}
        self._report.errors += finished.refused
        self._report.commit = finished.commit
        self._report.unchanged = len(self._same - self._changes.keys())
        self._report.in_clear = len(self._in_clear)
        self._report.left_out = len(self._left)
        lists = {
            ChangeOperation.CREATE: self._report.added,
            ChangeOperation.UPDATE: self._report.modified,
            ChangeOperation.DELETE: self._report.deleted,
        }
        for change in changes:
            if change.path not in refused:
                lists[change.operation].append(change.path)
        return self._report

    def _note(self, key: ManifestKey, path: str, operation: ChangeOperation) -> None:
        self._changes.setdefault(path, PendingFileChange(key, path, None, operation, 0.0))

    def _fail(self, what: str, why: str) -> None:
        self._report.errors.append(PathNote(what, why))


def omission_reason(
    obj: dict[str, Any], key: ManifestKey, view: ClusterView, policy: SecretPolicy
) -> str | None:
    """Return why an export omits an object that rules and noise would include; None if it does not."""
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return "it is being deleted"
    tells = policy in (SecretPolicy.INCLUDE, SecretPolicy.ENCRYPT)
    if is_secret(key) and view.own is None and tells:
        return "it is not known which Secrets resources of this product name"
    return why_undecided(key.namespace, view.own or ()) if is_secret(key) and tells else None
