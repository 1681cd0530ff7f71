"""Shows the commits of a repository in the demo: their author, and the lines that they changed."""

from __future__ import annotations

import time
from collections.abc import Callable

from stoker.domain.refs import CommitId
from stoker_testkit.demo.output import WIDTH, say
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually

MOST_LINES = 6
PATIENCE_SECONDS = 90.0


def show_commit(repository: Repository, ref: str, path: str) -> CommitId:
    """Print the commit at a ref: author, subject, and its changes to one file."""
    commit = repository.tip(ref)
    author, subject = _asked(repository, "log", "-1", "--format=%an <%ae>%n%s", str(commit))[:2]
    say(f"{commit.short} by {author}", about="git")
    say(subject[:WIDTH], about="git")
    for line in _changed(repository, commit, path):
        say(line, about="git")
    return commit


def merge_change(repository: Repository, branch: str, path: str, describe: Callable[[], str]) -> CommitId:
    """Wait for the branch with a gateway's change, show it, and merge it as a person would."""
    began = time.monotonic()
    eventually(
        lambda: repository.has_branch(branch), PATIENCE_SECONDS, lambda: f"branch {branch}: {describe()}"
    )
    say(f"branch {branch} after {time.monotonic() - began:.1f} s", about="git")
    tip = show_commit(repository, f"refs/heads/{branch}", path)
    repository.set_branch("main", str(tip))
    repository.delete_branch(branch)
    say(f"merged by a person: main at {tip.short}", about="git")
    return tip


def author_of(repository: Repository, path: str, branch: str = "main") -> str:
    """The author of the last change to a file; empty if there is no such file."""
    if not repository.has_branch(branch):
        return ""
    return "".join(_asked(repository, "log", "-1", "--format=%an", f"refs/heads/{branch}", "--", path))


def _changed(repository: Repository, commit: CommitId, path: str) -> list[str]:
    shown = _asked(repository, "show", "--format=", "--unified=0", str(commit), "--", path)
    lines = [line[:WIDTH] for line in shown if line[:1] in ("+", "-") and not line.startswith(("+++", "---"))]
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"… and {more} lines more"]


def _asked(repository: Repository, *words: str) -> list[str]:
    return repository.git(*words).decode(errors="replace").splitlines()
