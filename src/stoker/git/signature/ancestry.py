"""Checks whether a commit descends from the commit that was applied before it.

If rewriting history is not allowed, a ref may only move forward, so that no force-push, moved tag or
replaced repository reaches a gateway. Mirrors hold little history, and at the end of a shallow history git
answers "not an ancestor" although the answer is unknown. So the answer is "yes" when the older commit was
reached, and "no" only when the whole history was walked to its roots. Otherwise the commits (without
contents) are fetched into a temporary repository. The mirror never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, without_userinfo
from stoker.git.errors import FilterRefused, GitFailed, RefNotFound, SourceUnreachable
from stoker.git.mirror.bare_repository import QUIET_FETCH, make_bare
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import full_names
from stoker.git.signature.programs import temporary_folder

MAX_HISTORY_BYTES = 256 << 20
MAX_SECONDS = 240.0
# Usually the commit applied last is near. git treats the last depth as unlimited.
FETCH_DEPTHS = (100, 2000, 2**31 - 1)
# A server without filters sends contents too; then only the depth and the byte limit bound the transfer.
_FILTERS = ("--filter=tree:0", "--filter=blob:none", "--no-filter")
_HISTORY = "refs/stoker/history"
# Files that make git use other parents than those in the commits themselves.
_UNTRUSTED_HISTORY_FILES = ("info/grafts", "objects/info/commit-graph", "objects/info/commit-graphs")


class HistoryRewritten(Stalled):
    """The commit does not descend from the commit applied last, or this cannot be proven."""

    default_reason = Reason.HISTORY_REWRITTEN


async def check_descent(
    remote: Remote, repository: Path, *, ancestor: CommitId, commit: CommitId, ref: GitRef
) -> None:
    """Raise `HistoryRewritten` unless `commit` descends from `ancestor`."""
    if not await is_descendant(remote, repository, ancestor=ancestor, commit=commit, ref=ref):
        raise HistoryRewritten(
            f"ref {str(ref)!r} was rewritten: commit {commit} does not descend from {ancestor}, "
            "which was applied last"
        )


async def is_descendant(
    remote: Remote, repository: Path, *, ancestor: CommitId, commit: CommitId, ref: GitRef
) -> bool:
    """Whether `ancestor` is `commit` or in its history; fetches history if the mirror has too little."""
    if ancestor == commit:
        return True
    if len(ancestor) != len(commit):  # the repository was replaced by another object format
        return False
    known = await _is_descendant_here(remote.runner, repository, ancestor, commit)
    if known is not None:
        return known
    place = without_userinfo(remote.url)
    try:
        async with asyncio.timeout(MAX_SECONDS):
            known = await _is_descendant_at_source(remote, ancestor, commit, ref)
    except TimeoutError:
        raise SourceUnreachable(
            f"repository {place} did not give out the history of {commit} within {MAX_SECONDS:g} s"
        ) from None
    if known is None:
        raise HistoryRewritten(
            f"it cannot be shown that commit {commit} descends from {ancestor}, which was applied last: "
            f"repository {place} does not give out the whole history of ref {str(ref)!r}"
        )
    return known


async def _is_descendant_at_source(
    remote: Remote, ancestor: CommitId, commit: CommitId, ref: GitRef
) -> bool | None:
    with temporary_folder(remote.runner) as folder:
        history = make_bare(folder / "history.git", len(commit))
        for depth in FETCH_DEPTHS:
            await fetch_history(remote, history, commit, ref, depth)
            known = await _is_descendant_here(remote.runner, history, ancestor, commit)
            if known is not None:
                return known
    return None


async def _is_descendant_here(
    runner: GitRunner, repository: Path, ancestor: CommitId, commit: CommitId
) -> bool | None:
    """Return the answer from this repository alone; None if it has too little history."""
    if any((repository / name).exists() for name in _UNTRUSTED_HISTORY_FILES):
        return None
    try:
        here = await _commits_here(runner, repository, (ancestor, commit))
        if commit not in here:
            return None
        if ancestor in here and not await _list_commits(
            runner, repository, ["--max-count=1"], [ancestor, f"^{commit}"]
        ):
            return True
        return None if await is_cut_off(runner, repository, [commit]) else False
    except GitFailed:  # a missing parent or a damaged mirror, which a later read repairs
        return None


async def is_cut_off(runner: GitRunner, repository: Path, operands: Sequence[str]) -> bool:
    """Whether the commits that `rev-list` lists for the operands reach the shallow boundary."""
    return bool(
        await _list_commits(runner, repository, ["--max-parents=0"], operands) & _shallow_commits(repository)
    )


async def _commits_here(runner: GitRunner, repository: Path, ids: Sequence[CommitId]) -> set[str]:
    """Return those of the ids that are commits in this repository."""
    lines = await runner.run(
        ["--no-replace-objects", "cat-file", "--batch-check=%(objectname) %(objecttype)"],
        repository=repository,
        stdin="".join(f"{id_}\n" for id_ in ids).encode(),
    )
    return {line.partition(" ")[0] for line in lines.decode().splitlines() if line.endswith(" commit")}


async def _list_commits(
    runner: GitRunner, repository: Path, options: Sequence[str], operands: Sequence[str]
) -> set[str]:
    listing = await runner.run(
        ["--no-replace-objects", "rev-list", *options], operands, repository=repository
    )
    return set(listing.decode().splitlines())


def _shallow_commits(repository: Path) -> set[str]:
    """Return the commits at the shallow boundary, whose parents are missing; git treats them as roots."""
    try:
        return set((repository / "shallow").read_text().splitlines())
    except FileNotFoundError:
        return set()
    except (OSError, UnicodeDecodeError) as error:
        raise GitFailed(f"the mirror {repository} does not say where its history ends") from error


async def fetch_history(
    remote: Remote, history: Path, commit: CommitId, ref: GitRef, depth: int, into: str = _HISTORY
) -> None:
    """Fetch the history of `commit` to `depth`; by the ref if the server refuses requests by id."""
    names = [str(commit), *(full_names(ref) if str(ref) != str(commit) else ())]
    for name in names:
        try:
            await _fetch_filtered(remote, history, name, depth, into)
        except RefNotFound:
            if name == names[-1]:
                raise
        else:
            return


async def _fetch_filtered(remote: Remote, history: Path, name: str, depth: int, into: str) -> None:
    for filtering in _FILTERS:
        try:
            await remote.git(
                [*QUIET_FETCH, f"--depth={depth}", filtering],
                [remote.url, f"+{name}:{into}"],
                repository=history,
                max_bytes=MAX_HISTORY_BYTES,
            )
        except FilterRefused:
            if filtering == _FILTERS[-1]:
                raise
        else:
            return
