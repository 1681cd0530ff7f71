"""A branch that began before a file came to the ref, brought up to the ref.

A gateway follows the ref, and its branch stands where it began. What came to the ref
since is on the gateway and not on the branch: to delete it there changes nothing, and to
write it is a second file of the same name. Both are told by a commit that has the ref's
tree with what the branch has of its own, and both as parents, so that no commit of
anybody is lost. What both sides have changed is put together line by line where it does
not touch; else the branch's version stays and is named as a conflict, as everywhere.
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
    "came to the ref after the branch began, which cannot be brought up to it: merge or close it first"
)


@dataclass(frozen=True, slots=True)
class RebasedBranch:
    """A branch as it is once it has what the ref has."""

    up: ProposedFiles
    conflicts: tuple[str, ...] = ()
    """Files of the repository that both have changed."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Of what was put together, by blob id; nobody else has these yet."""

    def files(self, paths: Collection[str], git: FileVersions) -> dict[str, FileVersion]:
        """What it has at some paths, of which `git` knows those of the ref."""
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
    """Those that are to change something which the ref has and the branch has not."""
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
    """The branch with what the ref has; `ProposalChanges` where the files in question were there when it
    began.

    None: nobody can say what the branch has of its own, or it is nothing that can be carried over.
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
    """What a branch has changed, onto what the ref has now."""
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
    except StokerError:  # a server that gives out no single objects leaves a conflict what it is
        return None
    # Finding out which lines touch takes its time.
    content = await asyncio.to_thread(merge, *(known[blob] for blob in blobs))
    return None if content is None else MergedFile(content, executable)
