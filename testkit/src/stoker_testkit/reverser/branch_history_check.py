"""Holds the history of a branch against what happened in the cluster.

Read once, after everything has come to rest. For each object: the states that the
reverser wrote are states that it had, in their order; a commit that names an author names
the user who made every change in it. The reverser touched nothing but the files of
selected objects and its marker, and made no commit without a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.domain.git_objects import blob_of
from stoker.reverser.authors.commit_identity import commit_author
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.writer.commit_message import UNKNOWN
from stoker.reverser.writer.ownership_marker import marker_path
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.random_history import History, ObjectLife, all_lives

REVERSER = "gitops-reverser@configbutler.invalid"
_FORMAT = "@%H%x09%ae%x09%ce%x09%(trailers:key=X-ConfigButler-Author,valueonly,separator=%x2C)"


class Edit(NamedTuple):
    """A commit's change to a file; no blob: it was deleted."""

    path: str
    blob: str | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as far as it matters here."""

    id: str
    author: str
    committer: str
    trailer: str
    edits: list[Edit] = field(default_factory=list)

    def __str__(self) -> str:
        edits = ", ".join(f"{edit.path} {(edit.blob or 'gone')[:8]}" for edit in self.edits)
        return f"{self.id[:8]} {self.trailer or self.committer}: {edits}"


def commits_of(repository: Repository, branch: str) -> list[Commit]:
    """All commits of a branch, the oldest first."""
    ref = f"refs/heads/{branch}"
    raw = ("log", "--reverse", "--raw", "--no-abbrev", "--no-renames", f"--format={_FORMAT}", ref, "--")
    commits: list[Commit] = []
    for line in repository.git("-c", "core.quotepath=false", *raw).decode().splitlines():
        if line.startswith("@"):
            name, author, committer, trailer = line[1:].split("\t")
            commits.append(Commit(name, author, committer, trailer))
        elif line.startswith(":"):
            changed, _, path = line.partition("\t")
            _, _, _, blob, status = changed.split(" ")
            commits[-1].edits.append(Edit(path, None if status == "D" else blob))
    return commits


def blobs_of(repository: Repository, branch: str) -> dict[str, str]:
    """The files of a branch now."""
    ref = f"refs/heads/{branch}"
    if not repository.has_branch(branch):
        return {}
    lines = repository.git("-c", "core.quotepath=false", "ls-tree", "-r", "--full-tree", ref).decode()
    found = (line.partition("\t") for line in lines.splitlines())
    return {path: head.split(" ")[2] for head, _, path in found}


def differences(history: History, files: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """The differences between a history's folder, with strangers' files around it, and the expected state.

    Where no object lives, what a stranger wrote in the place of its file may stay: it is no manifest of it.
    """
    theirs = {path: blob_of(content) for path, content in history.strangers.files.items()}
    marker = marker_path(history.base)
    due = {**wanted, **theirs}
    found = {
        path: blob
        for path, blob in files.items()
        if path in due or (path.startswith(f"{history.base}/") and path != marker)
    }
    overwritten = {path: blob_of(content) for path, content in history.strangers.overwritten.items()}
    paths = sorted(
        path
        for path in due.keys() | found.keys()
        if due.get(path) != found.get(path) and (path in due or overwritten.get(path) != found.get(path))
    )
    return [f"{path} is {found.get(path, 'missing')}, not {due.get(path, 'missing')}" for path in paths]


@dataclass
class BranchHistoryCheck:
    """Goes through the commits of one branch on which these histories were written."""

    histories: Sequence[History]
    wrong: list[str] = field(default_factory=list)
    authors: Counter[str] = field(default_factory=Counter)
    """The number of commits by author."""

    def __post_init__(self) -> None:
        self._lives = all_lives(self.histories)
        self._markers = {marker_path(history.base) for history in self.histories}
        self._reached: dict[str, int] = {}
        self._files: dict[str, str | None] = {}

    def hear(self, commits: Sequence[Commit]) -> list[str]:
        """Everything that is wrong with them."""
        for commit in commits:
            if commit.committer == REVERSER:
                self._weigh(commit)
            self._files |= dict(commit.edits)
        return self.wrong

    def _weigh(self, commit: Commit) -> None:
        self.authors[commit.trailer] += 1
        if not commit.edits:
            self.wrong.append(f"{commit} changes nothing")
        named = REVERSER if commit.trailer == UNKNOWN else commit_author(RequestUser(commit.trailer)).email
        if commit.author != named:
            self.wrong.append(f"{commit} has the author {commit.author} and names {commit.trailer}")
        for edit in commit.edits:
            found = self._lives.get(edit.path)
            if found is not None:
                self._follow(found[1], edit.blob, commit)
            elif edit.path not in self._markers:
                self.wrong.append(f"{commit} touches {edit.path}, which is a stranger's")

    def _follow(self, life: ObjectLife, blob: str | None, commit: Commit) -> None:
        """Find the step that was written, not before the one that was written last."""
        start = self._reached.get(life.path, 0)
        fitting = [at for at in range(start, len(life.steps)) if life.steps[at].blob == blob]
        if not fitting:
            self.wrong.append(
                f"{commit} writes what {life.key} was not after step {start} of {described(life)}"
            )
            return
        whose = commit.trailer
        right = next((at for at in fitting if whose == UNKNOWN or self._is_whose(life, at, whose)), None)
        if right is None:
            users = [step.user for step in life.steps[start + 1 : fitting[0] + 1]]
            self.wrong.append(
                f"{commit} names {whose} for changes of {users} to {life.key}: {described(life)}"
            )
        self._reached[life.path] = fitting[0] if right is None else right

    def _is_whose(self, life: ObjectLife, end: int, user: str) -> bool:
        """Whether this user made every change from the state in git to another state.

        A deletion belongs to the user who made it, whatever was deleted, and a new object to the user who
        made it. Otherwise it also holds what others did since the state in git; where
        a stranger wrote last, that state is unknown.
        """
        if life.steps[end].user != user or life.steps[end].blob is None:
            return life.steps[end].user == user
        start, before = self._reached.get(life.path, 0), self._files.get(life.path)
        if before not in {step.blob for step in life.steps}:
            return True
        at = end
        while at > start and life.steps[at].user == user and life.steps[at - 1].blob is not None:
            at -= 1
        return at <= start or life.steps[at].user == user


def described(life: ObjectLife) -> str:
    """The life of an object in one line."""
    return " ".join(f"{step.user}:{(step.blob or 'gone')[:8]}" for step in life.steps)
