"""Three ways: what the gateway began with, what git has now, what the gateway has now. Pure.

    git is as it was at the beginning     the gateway's change is taken
    git has what the gateway has          nothing to do; so a merged request is recognised.
                                          Only a branch that says otherwise is put right
    both have changed it                  lines are put together where they do not touch,
                                          else it is a conflict
    somebody else changed it on the       the same, with what stands on the branch
    gateway's branch

A conflict is never settled in silence. On a branch of its own the gateway's file is
proposed and marked as in conflict, whoever wins at present; on the followed branch itself,
where nobody would look at it first, it is taken only if the gateway wins. Whether a file may
be executed is the gateway's to say where somebody changed that there, else git's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.git_objects import FileVersion, PathNote
from stoker.domain.protocol import ChangeAction, ChangedFile

FileVersions = Mapping[str, FileVersion]
"""By repository path."""
TextMerge = Callable[[bytes, bytes, bytes], bytes | None]
"""Base, git's, the gateway's → all changes in one, or None where they touch."""


@dataclass(frozen=True, slots=True)
class MergeDecision:
    """What is to be done about a set."""

    edits: Mapping[str, bytes | None]
    """By repository path; None: it shall be gone."""
    changed: tuple[ChangedFile, ...]
    """The files behind the edits."""
    conflicts: tuple[ChangedFile, ...]
    merged: tuple[ChangedFile, ...]
    """Both sides are in them."""
    refused: tuple[PathNote, ...] = ()
    """By live path."""
    kept: tuple[str, ...] = ()
    """Files of the repository, proposed before, that the ref has changed as well since: in conflict."""
    programs: frozenset[str] = frozenset()
    """Those of the edits that shall be executable."""


def changed_on_both_sides(files: Sequence[ChangedFile], git: FileVersions) -> tuple[ChangedFile, ...]:
    """Those that both sides changed, each in its own way."""
    return tuple(one for one in files if blob_at(git, one.repo_path) not in (one.blob, one.base))


def changed_on_shared_branch(
    files: Sequence[ChangedFile], git: FileVersions, branch: FileVersions | None
) -> tuple[ChangedFile, ...]:
    """Those of which a branch that others write as well has a version of its own."""
    if branch is None:
        return ()
    return tuple(
        one
        for one in files
        if blob_at(branch, one.repo_path) not in (one.base, one.blob, blob_at(git, one.repo_path))
    )


def decide_changes(
    files: Sequence[ChangedFile],
    git: FileVersions,
    branch: FileVersions | None,
    contents: Mapping[str, bytes],
    merge: TextMerge,
    *,
    takes_conflicts: bool,
    shared: bool = False,
) -> MergeDecision:
    """`git` and `branch` have what is at the ref's commit and on the branch that is built on.

    `contents` is what is known of the blobs behind doubts. `shared`: others have written to the branch.
    """
    edits: dict[str, bytes | None] = {}
    programs: set[str] = set()
    changed: list[ChangedFile] = []
    conflicts: list[ChangedFile] = []
    merged: list[ChangedFile] = []
    refused: list[PathNote] = []
    uncertain, touched = (
        set(changed_on_both_sides(files, git)),
        set(changed_on_shared_branch(files, git, branch) if shared else ()),
    )
    for one in files:
        there = blob_at(git, one.repo_path)
        executable = _executable(one, git, branch if shared else None)
        if _has_version(git, one, executable) and (branch is None or _has_version(branch, one, executable)):
            continue
        wanted = one.content if one.action is ChangeAction.WRITTEN else None
        if one in uncertain:
            together = _merge_contents(one, there, contents, merge)
            if together is not None:
                wanted = together
                merged.append(one)
            elif takes_conflicts:
                conflicts.append(one)
            else:
                conflicts.append(one)
                refused.append(PathNote(one.path, "was changed in git as well"))
                continue
        if one in touched and branch is not None:
            both = _merge_with_branch(one, blob_at(branch, one.repo_path), wanted, contents, merge)
            if both is not None:
                wanted = both
                merged += [one] if one not in merged else []
            else:
                conflicts += [one] if one not in conflicts else []
        edits[one.repo_path] = wanted
        if executable and wanted is not None:
            programs.add(one.repo_path)
        changed.append(one)
    return MergeDecision(
        edits,
        tuple(changed),
        tuple(conflicts),
        tuple(merged),
        tuple(refused),
        programs=frozenset(programs),
    )


def blob_at(versions: FileVersions, path: str) -> str:
    """Its blob id; empty where no file is."""
    found = versions.get(path)
    return str(found.blob) if found is not None else ""


def _has_version(versions: FileVersions, one: ChangedFile, executable: bool) -> bool:
    found = versions.get(one.repo_path)
    if found is None or not one.blob:
        return found is None and not one.blob
    return (str(found.blob), found.executable) == (one.blob, executable)


def _executable(one: ChangedFile, git: FileVersions, reviewed: FileVersions | None) -> bool:
    """Whether it shall be; `reviewed` is the branch where others have written to it."""
    if one.changes_mode or not one.base:
        return one.executable
    taken_back = bool(one.base_mode) and one.blob == one.base
    beside = reviewed.get(one.repo_path) if reviewed is not None and not taken_back else None
    found = beside or git.get(one.repo_path)
    return found.executable if found is not None else one.executable


def _merge_contents(
    one: ChangedFile, there: str, contents: Mapping[str, bytes], merge: TextMerge
) -> bytes | None:
    if one.action is not ChangeAction.WRITTEN or one.base not in contents or there not in contents:
        return None
    return merge(contents[one.base], contents[there], one.content)


def _merge_with_branch(
    one: ChangedFile, there: str, wanted: bytes | None, contents: Mapping[str, bytes], merge: TextMerge
) -> bytes | None:
    """With what somebody made of it on the branch; what was taken back is no change that could go with it."""
    taken_back = one.blob == one.base and not one.changes_mode
    if wanted is None or taken_back or one.base not in contents or there not in contents:
        return None
    return merge(contents[one.base], contents[there], wanted)
