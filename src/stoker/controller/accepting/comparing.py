"""Three ways: what the gateway began with, what git has now, what the gateway has now. Pure.

    git is as it was at the beginning     the gateway's change is taken
    git has what the gateway has          nothing to do; so a merged request is recognised.
                                          Only a branch that says otherwise is put right
    both have changed it                  lines are put together where they do not touch,
                                          else it is a conflict

A conflict is never settled in silence. On a branch of its own the gateway's file is
proposed and marked as in conflict, whoever wins for now; on the followed branch itself,
where nobody would look at it first, it is taken only if the gateway wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.protocol import Action, ChangedFile
from stoker.engine.objects import Note

Merge = Callable[[bytes, bytes, bytes], bytes | None]
"""Base, git's, the gateway's → all changes in one, or None where they touch."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about a set."""

    edits: Mapping[str, bytes | None]
    """By repository path; None: it shall be gone."""
    changed: tuple[ChangedFile, ...]
    """The files behind the edits."""
    conflicts: tuple[ChangedFile, ...]
    merged: tuple[ChangedFile, ...]
    """Both sides are in them."""
    refused: tuple[Note, ...] = ()
    """By live path."""


def doubtful(files: Sequence[ChangedFile], git: Mapping[str, str]) -> tuple[ChangedFile, ...]:
    """Those that both sides changed, each in its own way."""
    return tuple(one for one in files if git.get(one.repo_path, "") not in (one.blob, one.base))


def compare(
    files: Sequence[ChangedFile],
    git: Mapping[str, str],
    branch: Mapping[str, str] | None,
    contents: Mapping[str, bytes],
    merge: Merge,
    *,
    takes_conflicts: bool,
) -> Verdict:
    """`git` and `branch` have the blob ids at the ref's commit and on the branch that is built on.

    `contents` is what is known of the blobs behind doubts.
    """
    edits: dict[str, bytes | None] = {}
    changed, conflicts, merged = [], [], []
    refused: list[Note] = []
    uncertain = set(doubtful(files, git))
    for one in files:
        there = git.get(one.repo_path, "")
        if there == one.blob and (branch is None or branch.get(one.repo_path, "") == one.blob):
            continue
        wanted = one.content if one.action is Action.WRITTEN else None
        if one in uncertain:
            together = _together(one, there, contents, merge)
            if together is not None:
                wanted = together
                merged.append(one)
            elif takes_conflicts:
                conflicts.append(one)
            else:
                conflicts.append(one)
                refused.append(Note(one.path, "was changed in git as well"))
                continue
        edits[one.repo_path] = wanted
        changed.append(one)
    return Verdict(edits, tuple(changed), tuple(conflicts), tuple(merged), tuple(refused))


def _together(one: ChangedFile, there: str, contents: Mapping[str, bytes], merge: Merge) -> bytes | None:
    if one.action is not Action.WRITTEN or one.base not in contents or there not in contents:
        return None
    return merge(contents[one.base], contents[there], one.content)
