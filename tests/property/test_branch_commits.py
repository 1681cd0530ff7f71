"""Laws of writing to a branch while others write to it too, over any batches and any pushes in between.

Whatever happens in whatever order: the branch ends as if our edits had been made, one
commit after the other, on top of what others had pushed before each of our pushes; our
commits are there once, in order, with their authors; nothing of others is touched.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain import failpoints
from stoker.domain.clock import SystemClock
from stoker.domain.refs import RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.commit.branch import RemoteBranch
from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit
from stoker.git.errors import GitFailed
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker_testkit.repositories.bare_repository import WHEN, Repository

# Few names, so that files and folders get into each other's way, and values that come back.
PATHS = st.sampled_from(["a", "a/b", "a/c", "a/b/d", "e/f", "e/g", "h"])
CONTENTS = st.sampled_from(["1", "2", None])
EDITS = st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=4)
WRITTEN = st.dictionaries(PATHS, st.sampled_from(["1", "2"]), min_size=1, max_size=3)


@dataclass(frozen=True)
class Step:
    """One call of ours, and what others and the machine do meanwhile."""

    batch: list[tuple[str, dict[str, str | None]]]
    theirs: list[dict[str, str]]
    """A push by another client before each of our pushes, as long as there are any."""
    fails_after: bool
    """Our push arrives, and its response is lost."""
    forgets: bool
    """The call is made by a process that knows nothing yet."""


STEPS = st.builds(
    Step,
    batch=st.lists(st.tuples(st.sampled_from(["Alice", "Bob"]), EDITS), max_size=4),
    theirs=st.lists(WRITTEN, max_size=2),
    fails_after=st.booleans(),
    forgets=st.booleans(),
)


class Impatient(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Model:
    """What the branch should be: its files, and the commits that lead to them."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.commits: list[tuple[str, str]] = []

    def others(self, repository: Repository, number: int) -> None:
        """git itself says what a push of others makes of the files."""
        self.files = {path: content.decode() for path, content in repository.files().items()}
        self.commits.append(("Test Author", f"theirs {number}"))

    def ours(self, author: str, message: str, edits: Mapping[str, str | None]) -> None:
        before = dict(self.files)
        for path, content in edits.items():
            if content is None:
                self.files.pop(path, None)
        for path, content in sorted(edits.items(), key=lambda edit: -edit[0].count("/")):
            blocked = any(
                other.startswith(path + "/") or path.startswith(other + "/") for other in self.files
            )
            if content is not None and not blocked:
                self.files[path] = content
        if self.files != before:
            self.commits.append((author, message))


class CommitRun:
    def __init__(self, folder: Path) -> None:
        self.repository = Repository.create(folder / "r.git")
        self.cache = folder / "cache"
        self.model = Model()
        self.count = 0
        self.branch = self.new_branch()

    def new_branch(self) -> RemoteBranch:
        remote = Remote(
            GitRunner(self.cache), RepoUrl(self.repository.path.as_uri()), fixed_access(RepoAccess())
        )
        return RemoteBranch(remote, self.cache, "main", clock=Impatient())

    async def take(self, step: Step) -> None:
        if step.forgets:
            self.branch = self.new_branch()
        batch = [self.new_commit(author, edits) for author, edits in step.batch]
        theirs = iter(step.theirs)
        failing = step.fails_after

        def listener(name: str) -> None:
            nonlocal failing
            if name == "push.before" and (files := next(theirs, None)) is not None:
                self.push_of_others(files)
            if name == "push.after" and failing:
                failing = False
                raise OSError("the machine was in trouble")

        failpoints.listen(listener)
        try:
            try:
                await self.branch.commit(batch)
            except GitFailed:
                self.apply(step.batch, batch)
                for files in theirs:
                    self.push_of_others(files)
                await self.branch.commit(batch)
            else:
                self.apply(step.batch, batch)
        finally:
            failpoints.listen(None)

    def new_commit(self, author: str, edits: Mapping[str, str | None]) -> NewCommit:
        self.count += 1
        files = tuple(FileEdit(path, None if it is None else it.encode()) for path, it in edits.items())
        who = CommitAuthor(author, f"{author.lower()}@example.test")
        return NewCommit(who, who, f"ours {self.count}", files, WHEN + self.count)

    def push_of_others(self, files: Mapping[str, str]) -> None:
        self.count += 1
        self.repository.commit(files, message=f"theirs {self.count}")
        self.model.others(self.repository, self.count)

    def apply(self, edits: list[tuple[str, dict[str, str | None]]], commits: list[NewCommit]) -> None:
        for (author, changes), commit in zip(edits, commits, strict=True):
            self.model.ours(author, commit.message, changes)

    def check(self) -> None:
        if not self.model.commits:
            assert not self.repository.has_branch("main")
            return
        files = {path: content.decode() for path, content in self.repository.files().items()}
        assert files == self.model.files
        log = self.repository.git("log", "--reverse", "--format=%an\t%s", "main").decode().splitlines()
        assert [tuple(line.split("\t")) for line in log] == self.model.commits


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=5))
def test_our_commits_follow_what_others_pushed_and_nothing_is_lost_or_made_twice(steps: list[Step]) -> None:
    async def live(folder: Path) -> None:
        run = CommitRun(folder)
        for step in steps:
            await run.take(step)
            run.check()
        run.repository.git("fsck", "--strict")

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))
