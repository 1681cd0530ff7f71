"""A branch of our own that proposes changes to a ref which others write.

    look → where the ref and the branch are now
    files, contents → what a commit has at some paths
    propose → one commit on the branch, and a push that expects what was looked at

A branch that is not there begins at the ref's commit; one that is there is built on.
One that is begun `anew`, because what it proposed was decided, gets the ref's tree, and
what stood on it stays as a second parent: nothing is ever pushed by force, and no
commit of anybody is lost. One that is brought `up` to the ref gets the ref's tree with
what the branch has of its own, and the ref's commit as a second parent. A commit in
which nothing is left to change is not made, so the same call can be made again after any
failure. Nobody else's branch is touched.
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
    """Where everything is."""

    tip: CommitId
    """Of the ref that is followed."""
    followed: str
    """The branch that the ref is; empty for a tag or an id, into which nothing can be merged."""
    branch: CommitId | None
    """Of our branch; None: it is not there."""


@dataclass(frozen=True, slots=True)
class PushedProposal:
    """Our branch after a push."""

    tip: CommitId | None
    """None: there was nothing to propose, and it is not there."""
    made: bool
    """Whether it took a commit."""
    refused: tuple[PathNote, ...] = ()
    """Edits that could not be made because something else is in their way."""


@dataclass(frozen=True, slots=True)
class ProposalChanges:
    """What a branch has that its ref had not when they parted."""

    fork: CommitId
    changes: tuple[TreeChange, ...]


class MergedFile(NamedTuple):
    """A file that was made of two, and that no commit has yet."""

    content: bytes
    executable: bool = False


ProposedFiles = Mapping[str, FileVersion | MergedFile | None]
"""What a branch keeps when it is brought up to its ref; None: it shall be gone."""


class ProposalBlocked(Retry):
    """The ref has something else in the place of what the branch has; nothing was pushed."""


class ProposalBranches:
    """The branches that we have in one repository beside one ref."""

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
        """For one caller at a time; everything else here is for while it is held."""
        with translate_write_errors():
            async with self._mirror.held():
                yield
        now = self._clock.now()
        if is_cleanup_due(self._cache, now):
            await run_in_worker(lambda: clean_cache(self._cache, now), lambda: None)

    async def look(self, branch: str) -> ProposalBase:
        """Ask the server, and have both commits here."""
        ours = GitRef(f"{HEADS}{branch}")
        name, tip, there = await locate_ref(self._remote, self._followed, ours)
        self._mirror.ready(len(tip))
        await self._mirror.fetch(tip, self._followed)
        if there is not None:
            await self._mirror.fetch(there, ours)
        return ProposalBase(tip, name.removeprefix(HEADS) if name.startswith(HEADS) else "", there)

    async def files(self, commit: CommitId, paths: Collection[str]) -> dict[str, BlobId]:
        """Those of the paths that are regular files in a commit."""
        return {path: version.blob for path, version in (await self.versions(commit, paths)).items()}

    async def versions(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        """The same with their modes."""
        return await git_tree.look_up_files(self._remote.runner, self._mirror.path, commit, paths)

    async def raw(self, commit: CommitId) -> bytes:
        """A commit that was looked at, as git keeps it."""
        return await self._mirror.objects.commit(commit)

    async def contents(self, blobs: Collection[BlobId]) -> dict[BlobId, bytes]:
        """What stands under these ids; raises where the server does not give one out."""
        wanted = list(dict.fromkeys(blobs))
        await self._mirror.complete(wanted)
        return await run_in_worker(lambda: self._contents(wanted), self._mirror.objects.abort)

    async def differing(self, ground: ProposalBase) -> frozenset[str] | None:
        """What the branch has otherwise than the ref, by whoever's doing; None where that cannot be told."""
        if ground.branch is None:
            return frozenset()
        runner, path = self._remote.runner, self._mirror.path
        changes = await git_tree.read_changes(runner, path, ground.tip, ground.branch)
        return None if changes is None else frozenset(change.path for change in changes)

    async def own(self, branch: str, ground: ProposalBase) -> ProposalChanges | None:
        """What the branch has of its own; None where that cannot be told by regular files."""
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
        """The commit on the branch, if that is still where it was looked at; else raises `PushBehind`."""
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
        if tree is None and up is not None:  # what the branch had was taken back, all of it
            tree, known = await self._tree(ground.tip), ground.branch
        if tree is None or (known is not None and tree == await self._tree(known)):
            return PushedProposal(ground.branch, False, refused)
        made = CommitId(pack.add("commit", commit_object(tree, below, commit, second)).hex())
        await run_in_worker(pack.write, lambda: None)
        await push(self._remote, self._mirror.path, GitRef(f"{HEADS}{branch}"), ground.branch, made)
        return PushedProposal(made, True, refused)

    def discard(self) -> None:
        """Forget all of it, because something in it cannot be read; the next look has it anew."""
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
