"""Brings a gateway's branch up to the ref, if files came to the ref after the branch began.

A gateway follows the ref, and its branch stays where it began. A file that came to the ref since is on the
gateway and not on the branch: deleting it on the branch has no effect, and writing it adds a second file of
the same name. The controller therefore makes a merge commit with the ref's tree plus the branch's own
changes, and with both as parents, so that no author's commit is lost. Where both sides have changed a file,
lines are merged if the changes do not overlap; else the branch's version stays and is reported as a conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.controller.bidirectional.three_way_decision import FileVersions, TextMerge
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import BlobId, FileVersion, TreeChange, blob_of
from stoker.domain.protocol import ChangedFile
from stoker.git.commit.proposal_branch import (
    MergedFile,
    ProposalBase,
    ProposalBranches,
    ProposalChanges,
    ProposedFiles,
)

ContentsReader = Callable[[Collection[BlobId]], Awaitable[Mapping[BlobId, bytes]]]

REBASE_CONFLICT_MESSAGE = (
    "was added to the ref after the branch was created, and the branch cannot be rebased: merge or close "
    "its pull request first"
)


@dataclass(frozen=True, slots=True)
class RebasedBranch:
    """The content of a branch after it was brought up to the ref."""

    up: ProposedFiles
    conflicts: tuple[str, ...] = ()
    """Repository files that both sides have changed."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Merged contents by blob id; they are in no repository yet."""

    def files(self, paths: Collection[str], git: FileVersions) -> dict[str, FileVersion]:
        """The versions at `paths` on the rebased branch; `git` has those of the ref."""
        found = dict(git)
        digits = next((len(one.blob) for one in git.values()), 40)
        for path in self.up.keys() & set(paths):
            found.pop(path, None)
            there = self.up[path]
            if isinstance(there, FileVersion):
                found[path] = there
            elif there is not None:
                found[path] = FileVersion(blob_of(there.content, digits=digits), there.executable)
        return found


def missing_on_branch(
    files: Sequence[ChangedFile], git: FileVersions, branch: FileVersions
) -> tuple[ChangedFile, ...]:
    """Files to change that the ref has and the branch lacks."""
    return tuple(
        one
        for one in files
        if one.repo_path in git and one.repo_path not in branch and git[one.repo_path].blob != one.blob
    )


async def rebase_branch(
    proposals: ProposalBranches,
    branch: str,
    ground: ProposalBase,
    wanted: Sequence[ChangedFile],
    git: FileVersions,
    merge: TextMerge,
) -> RebasedBranch | ProposalChanges | None:
    """Return the rebased branch, or `ProposalChanges` if the files existed when the branch began.

    None: the branch's own changes cannot be determined or cannot be carried over.
    """
    own = await proposals.own(branch, ground)
    if own is None:
        return None
    before = await proposals.files(own.fork, [one.repo_path for one in wanted])
    if all(before.get(one.repo_path) == git[one.repo_path].blob for one in wanted):
        return own  # the branch itself has deleted them
    theirs = await proposals.versions(ground.tip, [change.path for change in own.changes])
    return await rebase_changes(own.changes, theirs, proposals.contents, merge)


async def rebase_changes(
    changes: Sequence[TreeChange], theirs: Mapping[str, FileVersion], read: ContentsReader, merge: TextMerge
) -> RebasedBranch:
    """Apply a branch's changes to the ref's current versions."""
    up: dict[str, FileVersion | MergedFile | None] = {}
    conflicts: list[str] = []
    contents: dict[str, bytes] = {}
    for path, before, after in changes:
        there = theirs.get(path)
        if there == after:
            continue
        up[path] = after
        if there == before:
            continue
        together = await _merge_versions(before, there, after, read, merge)
        if together is None:
            conflicts.append(path)
            continue
        up[path] = together
        if isinstance(together, MergedFile) and there is not None:
            contents[blob_of(together.content, digits=len(there.blob))] = together.content
    return RebasedBranch(up, tuple(conflicts), contents)


async def _merge_versions(
    before: FileVersion | None,
    there: FileVersion | None,
    after: FileVersion | None,
    read: ContentsReader,
    merge: TextMerge,
) -> FileVersion | MergedFile | None:
    if before is None or there is None or after is None:
        return None
    executable = after.executable if there.executable == before.executable else there.executable
    if there.blob == before.blob:
        return FileVersion(after.blob, executable)
    if after.blob in (before.blob, there.blob):
        return FileVersion(there.blob, executable)
    blobs = (before.blob, there.blob, after.blob)
    try:
        known = await read(blobs)
    except StokerError:  # if the server provides no single objects, the conflict remains
        return None
    # A line-by-line merge takes CPU time.
    content = await asyncio.to_thread(merge, *(known[blob] for blob in blobs))
    return None if content is None else MergedFile(content, executable)
