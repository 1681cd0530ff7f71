"""Decides each file by three versions: the gateway's base, git now, and the gateway now. Pure.

    git still has the base                take the gateway's change
    git has the gateway's version         nothing to do; this recognises a merged pull request.
                                          Only a branch with another version is corrected
    both have changed it                  merge lines where the changes do not overlap,
                                          else it is a conflict
    another author changed it on the      the same, with the version on the branch
    gateway's branch

A conflict is never resolved silently. On a branch of its own, the gateway's file is proposed and marked as a
conflict under every strategy. On the followed branch itself, where no review comes first, the gateway's file
is taken only if the gateway wins. The gateway decides whether a file is executable if that was changed there,
else git does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.git_objects import FileVersion, PathNote
from stoker.domain.protocol import ChangeAction, ChangedFile

FileVersions = Mapping[str, FileVersion]
"""By repository path."""
TextMerge = Callable[[bytes, bytes, bytes], bytes | None]
"""Base, git's and the gateway's content → the merged content, or None where changes overlap."""


@dataclass(frozen=True, slots=True)
class MergeDecision:
    """The edits for a change set, with conflicts and refusals."""

    edits: Mapping[str, bytes | None]
    """By repository path; None deletes the file."""
    changed: tuple[ChangedFile, ...]
    """The files behind the edits."""
    conflicts: tuple[ChangedFile, ...]
    merged: tuple[ChangedFile, ...]
    """Files with the changes of both sides."""
    refused: tuple[PathNote, ...] = ()
    """By live path."""
    kept: tuple[str, ...] = ()
    """Repository files proposed earlier that the ref has changed since: in conflict."""
    programs: frozenset[str] = frozenset()
    """Paths among the edits that become executable."""


def changed_on_both_sides(files: Sequence[ChangedFile], git: FileVersions) -> tuple[ChangedFile, ...]:
    """Files that both sides changed, each in its own way."""
    return tuple(one for one in files if blob_at(git, one.repo_path) not in (one.blob, one.base))


def changed_on_shared_branch(
    files: Sequence[ChangedFile], git: FileVersions, branch: FileVersions | None
) -> tuple[ChangedFile, ...]:
    """Files of which a branch with other authors has a version of its own."""
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
    """Decide the edits; `git` and `branch` have the versions at the ref's commit and on our branch.

    `contents` has the known blobs of files that both sides changed. `shared`: others have written to the
    branch.
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
    """The blob id at a path; empty if there is no file."""
    found = versions.get(path)
    return str(found.blob) if found is not None else ""


def _has_version(versions: FileVersions, one: ChangedFile, executable: bool) -> bool:
    found = versions.get(one.repo_path)
    if found is None or not one.blob:
        return found is None and not one.blob
    return (str(found.blob), found.executable) == (one.blob, executable)


def _executable(one: ChangedFile, git: FileVersions, reviewed: FileVersions | None) -> bool:
    """Whether the file becomes executable; `reviewed` is the branch if others have written to it."""
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
    """Merge with another author's version on the branch; a reverted change cannot be merged."""
    taken_back = one.blob == one.base and not one.changes_mode
    if wanted is None or taken_back or one.base not in contents or there not in contents:
        return None
    return merge(contents[one.base], contents[there], wanted)
