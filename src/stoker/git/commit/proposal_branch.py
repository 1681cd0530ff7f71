"""Writes Stoker's own branches, which propose changes to a ref that others write.

    look → the current commits of the ref and of the branch
    files, contents → the files of a commit at some paths
    propose → one commit on the branch, and a push that expects the commits that `look` found

A new branch starts at the ref's commit. An existing branch gets the commit on top.
With `anew`, after the earlier proposal was merged or closed, the branch restarts from the ref's tree, and
its old tip becomes a second parent. So there is never a forced push, and no commit is lost.
With `up`, the branch is updated to the ref: it gets the ref's tree plus the branch's own changes, and the
ref's commit as a second parent.
A commit that would change nothing is not made, so that the same call can be repeated after any failure.
This module never writes to a branch of others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Retry
from stoker.domain.git_objects import BlobId, FileVersion, PathNote, TreeChange
from stoker.domain.refs import CommitId, GitRef
from stoker.git.commit.merge_base import merge_base
from stoker.git.commit.packfile import PackBuilder
from stoker.git.commit.push import push, translate_write_errors
from stoker.git.commit.tree_editor import TreeEditor, TreeFolder
from stoker.git.commit.types import FileEdit, NewCommit, commit_object
from stoker.git.errors import GitFailed, SourceTooLarge
from stoker.git.mirror import tree as git_tree
from stoker.git.mirror.cleanup import clean_cache, is_cleanup_due
from stoker.git.mirror.mirror import Mirror
from stoker.git.process.pipe import run_in_worker
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import locate_ref

MAX_READ_BYTES = 64 << 20
HEADS = "refs/heads/"
_LIMITS = FetchLimits(fetch=1 << 30, mirror=1 << 30, left_out="blob:none")


@dataclass(frozen=True, slots=True)
class ProposalBase:
    """The current commits of the followed ref and of the proposal branch."""

    tip: CommitId
    """The commit of the followed ref."""
    followed: str
    """The name of the branch that the ref is; empty for a tag or an id, into which nothing can be merged."""
    branch: CommitId | None
    """The commit of the proposal branch; None if the branch does not exist."""


@dataclass(frozen=True, slots=True)
class PushedProposal:
    """The proposal branch after a push."""

    tip: CommitId | None
    """None: there was nothing to propose, and the branch does not exist."""
    made: bool
    """Whether a commit was made and pushed."""
    refused: tuple[PathNote, ...] = ()
    """Edits that were not made because a foreign file or folder is in the way."""


@dataclass(frozen=True, slots=True)
class ProposalChanges:
    """The branch's own changes since the merge base with its ref."""

    fork: CommitId
    changes: tuple[TreeChange, ...]


class MergedFile(NamedTuple):
    """A new file content, merged from two versions, that is in no commit yet."""

    content: bytes
    executable: bool = False


ProposedFiles = Mapping[str, FileVersion | MergedFile | None]
"""The branch's own files when it is updated to its ref; None deletes a file."""


class ProposalBlocked(Retry):
    """A file or folder of the ref is in the way of the branch's own file; nothing was pushed."""


class ProposalBranches:
    """The proposal branches of one repository for one followed ref."""

    def __init__(
        self,
        remote: Remote,
        cache: Path,
        followed: GitRef,
        *,
        clock: Clock | None = None,
        limits: FetchLimits = _LIMITS,
    ) -> None:
        self._remote = remote
        self._cache = cache
        self._followed = followed
        self._clock = clock if clock is not None else SystemClock()
        self._mirror = Mirror(remote, cache, self._clock, limits, purpose=f"proposals {followed}")

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Lock the mirror for one caller; call all other methods inside this context."""
        with translate_write_errors():
            async with self._mirror.held():
                yield
        now = self._clock.now()
        if is_cleanup_due(self._cache, now):
            await run_in_worker(lambda: clean_cache(self._cache, now), lambda: None)

    async def look(self, branch: str) -> ProposalBase:
        """Resolve the ref and the branch on the server, and fetch both commits."""
        ours = GitRef(f"{HEADS}{branch}")
        name, tip, there = await locate_ref(self._remote, self._followed, ours)
        self._mirror.ready(len(tip))
        await self._mirror.fetch(tip, self._followed)
        if there is not None:
            await self._mirror.fetch(there, ours)
        return ProposalBase(tip, name.removeprefix(HEADS) if name.startswith(HEADS) else "", there)

    async def files(self, commit: CommitId, paths: Collection[str]) -> dict[str, BlobId]:
        """Return those of the paths that are regular files in a commit."""
        return {path: version.blob for path, version in (await self.versions(commit, paths)).items()}

    async def versions(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        """Return the same as `files`, with modes."""
        return await git_tree.look_up_files(self._remote.runner, self._mirror.path, commit, paths)

    async def raw(self, commit: CommitId) -> bytes:
        """Return a commit that `look` fetched, as git stores it."""
        return await self._mirror.objects.commit(commit)

    async def contents(self, blobs: Collection[BlobId]) -> dict[BlobId, bytes]:
        """Return the contents of these blobs, fetching missing ones; raise if the server refuses one."""
        wanted = list(dict.fromkeys(blobs))
        await self._mirror.complete(wanted)
        return await run_in_worker(lambda: self._contents(wanted), self._mirror.objects.abort)

    async def differing(self, ground: ProposalBase) -> frozenset[str] | None:
        """Return the paths in which branch and ref differ, whichever side changed them; None if unknown."""
        if ground.branch is None:
            return frozenset()
        runner, path = self._remote.runner, self._mirror.path
        changes = await git_tree.read_changes(runner, path, ground.tip, ground.branch)
        return None if changes is None else frozenset(change.path for change in changes)

    async def own(self, branch: str, ground: ProposalBase) -> ProposalChanges | None:
        """Return the branch's own changes.

        None if there is no merge base, or the changes are not all regular files.
        """
        if ground.branch is None:
            return None
        ours = GitRef(f"{HEADS}{branch}")
        fork = await merge_base(self._remote, ground.tip, self._followed, ground.branch, ours)
        if fork is None:
            return None
        await self._mirror.fetch(fork, GitRef(fork))
        runner, path = self._remote.runner, self._mirror.path
        changes = await git_tree.read_changes(runner, path, fork, ground.branch)
        return None if changes is None else ProposalChanges(fork, changes)

    async def propose(
        self,
        branch: str,
        commit: NewCommit,
        ground: ProposalBase,
        *,
        anew: bool = False,
        up: ProposedFiles | None = None,
    ) -> PushedProposal:
        """Push the commit to the branch; raise `PushBehind` if the branch moved since `look`."""
        below = ground.tip if anew or ground.branch is None else ground.branch
        second = ground.branch if anew and ground.branch not in (None, below) else None
        if up is not None:
            second = ground.tip
        root = ground.tip if up is not None else below
        pack = PackBuilder(self._mirror.path, len(below))
        edits = (*(FileEdit(path, None) for path, it in (up or {}).items() if it is None), *commit.edits)

        def edit() -> tuple[str | None, tuple[PathNote, ...]]:
            load = self._mirror.objects.tree
            editor = TreeEditor(TreeFolder(load(f"{root}^{{tree}}")), pack, load)
            kept = {path: _pack_file(it, pack) for path, it in (up or {}).items() if it is not None}
            return editor.apply(edits, kept), tuple(editor.refused)

        tree, refused = await run_in_worker(edit, self._mirror.objects.abort)
        lost = {note.path for note in refused} & (up or {}).keys()
        if lost:
            raise ProposalBlocked(
                f"branch {branch} cannot be brought up to its ref: {sorted(lost)[0]} is in the way"
            )
        known = second if anew else None
        if tree is None and up is not None:  # none of the branch's own changes is left
            tree, known = await self._tree(ground.tip), ground.branch
        if tree is None or (known is not None and tree == await self._tree(known)):
            return PushedProposal(ground.branch, False, refused)
        made = CommitId(pack.add("commit", commit_object(tree, below, commit, second)).hex())
        await run_in_worker(pack.write, lambda: None)
        await push(self._remote, self._mirror.path, GitRef(f"{HEADS}{branch}"), ground.branch, made)
        return PushedProposal(made, True, refused)

    def discard(self) -> None:
        """Remove the mirror, because something in it cannot be read; the next `look` rebuilds it."""
        self._mirror.discard()

    async def _tree(self, commit: CommitId) -> str:
        word, _, tree = (await self.raw(commit)).partition(b"\n")[0].decode().partition(" ")
        if word != "tree":
            raise GitFailed(f"commit {commit} cannot be read; the mirror is damaged")
        return tree

    def _contents(self, blobs: Collection[BlobId]) -> dict[BlobId, bytes]:
        contents: dict[BlobId, bytes] = {}
        left = MAX_READ_BYTES
        for blob in self._mirror.objects.contents(list(blobs)):
            left -= blob.size
            if left < 0:
                raise SourceTooLarge(f"the files to be compared have more than {MAX_READ_BYTES} bytes")
            contents[blob.id] = b"".join(blob.chunks)
        return contents


def _pack_file(file: FileVersion | MergedFile, pack: PackBuilder) -> FileVersion:
    if isinstance(file, FileVersion):
        return file
    return FileVersion(BlobId(pack.add("blob", file.content).hex()), file.executable)
