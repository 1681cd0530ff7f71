"""Builds new commits on top of a tip as objects of the mirror, without changing any ref.

`stoker.git.commit.branch` knows the tip, drafts commits here and then pushes them. The drafter builds the
trees first, in a worker thread, because they need only the edits. Then it builds the commits one after
another, because each names its parent and may have to be signed. It omits a commit whose edits change
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.domain.git_objects import PathNote
from stoker.domain.refs import CommitId
from stoker.git.commit.packfile import PackBuilder
from stoker.git.commit.tracking_ref import TrackedBranch
from stoker.git.commit.tree_editor import TreeEditor, TreeFolder
from stoker.git.commit.types import CommitSigner, NewCommit, commit_object, with_signature
from stoker.git.mirror.mirror import Mirror
from stoker.git.process.pipe import run_in_worker


@dataclass(frozen=True, slots=True)
class CommitDraft:
    """Commits that are ready to be pushed."""

    base: CommitId | None
    commits: tuple[CommitId, ...]
    root: TreeFolder
    """The tree of the last commit."""
    bytes: int
    refused: tuple[PathNote, ...]

    @property
    def tip(self) -> CommitId | None:
        return self.commits[-1] if self.commits else self.base


class CommitDrafter:
    """Builds commits on a tracked branch; it edits the branch's tree in place."""

    def __init__(self, mirror: Mirror, known: TrackedBranch, digits: int) -> None:
        self._mirror = mirror
        self._tip = known.tip
        self._root = known.root
        self._digits = digits
        self._pack = PackBuilder(mirror.path, digits)
        self._trees: list[tuple[NewCommit, str]] = []
        self._refused: list[PathNote] = []

    async def edit(self, commits: Sequence[NewCommit]) -> None:
        """Build the trees."""
        await run_in_worker(lambda: self._edit(commits), self._mirror.objects.abort)

    async def finish(self, signer: CommitSigner | None) -> CommitDraft:
        """Build the commits and write all objects to disk."""
        made: list[CommitId] = []
        for commit, tree in self._trees:
            raw = commit_object(tree, made[-1] if made else self._tip, commit)
            if signer is not None:
                raw = with_signature(raw, await signer.sign(raw), self._digits)
            made.append(CommitId(self._pack.add("commit", raw).hex()))
        size = await run_in_worker(self._pack.write, lambda: None) if made else 0
        return CommitDraft(self._tip, tuple(made), self._root or TreeFolder(), size, tuple(self._refused))

    def _edit(self, commits: Sequence[NewCommit]) -> None:
        load = self._mirror.objects.tree
        if self._root is None:
            self._root = TreeFolder(b"" if self._tip is None else load(f"{self._tip}^{{tree}}"))
        editor = TreeEditor(self._root, self._pack, load)
        for commit in commits:
            tree = editor.apply(commit.edits)
            if tree is not None:
                self._trees.append((commit, tree))
        self._refused = editor.refused
