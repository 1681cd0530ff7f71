"""Finds the merge base of two commits.

`stoker.git.commit.proposal_branch` needs it to update a proposal branch to its ref: the branch's own
changes are its differences from the merge base. Mirrors hold no history, so the commits (without contents)
are fetched into a temporary repository. A common commit counts only if all history after it is known. If
the two lines met again beyond the end of a shallow fetch, an older common commit would count changes of
others since then as the branch's own, and merging them would revert work of others.
"""

from __future__ import annotations

import asyncio

from stoker.domain.refs import CommitId, GitRef, without_userinfo
from stoker.git.errors import GitFailed, SourceUnreachable
from stoker.git.mirror.bare_repository import make_bare
from stoker.git.remote.remote import Remote
from stoker.git.signature.ancestry import FETCH_DEPTHS, MAX_SECONDS, fetch_history, is_cut_off
from stoker.git.signature.programs import temporary_folder

_ONE, _OTHER = "refs/stoker/one", "refs/stoker/other"
_WHERE = ("--no-replace-objects", "merge-base")


async def merge_base(
    remote: Remote, one: CommitId, one_ref: GitRef, other: CommitId, other_ref: GitRef
) -> CommitId | None:
    """Return the latest common ancestor; None if there is none or the history is not available."""
    try:
        async with asyncio.timeout(MAX_SECONDS):
            with temporary_folder(remote.runner) as folder:
                history = make_bare(folder / "history.git", len(one))
                for depth in FETCH_DEPTHS:
                    await fetch_history(remote, history, one, one_ref, depth, _ONE)
                    await fetch_history(remote, history, other, other_ref, depth, _OTHER)
                    try:
                        said = await remote.runner.run(_WHERE, [one, other], repository=history)
                        fork = CommitId(said.decode().split()[0])
                        if await is_cut_off(remote.runner, history, [one, other, f"^{fork}"]):
                            continue
                    except GitFailed:  # git exits with 1 and no output if there is no merge base
                        continue
                    return fork
    except TimeoutError:
        raise SourceUnreachable(
            f"repository {without_userinfo(remote.url)} did not give out the history of {other} "
            f"within {MAX_SECONDS:g} s"
        ) from None
    return None
