"""Where two lines of commits parted.

For a branch of our own that has to be brought up to the ref it is proposed to: what it
has of its own is what differs from there. Mirrors hold no history, so the commits
(without contents) are fetched into a repository of their own, which is thrown away. A
commit that both lines have is the answer only if all that came after it is known: where
they met once more behind the end of what was fetched, an older one would count what
others changed since as the branch's own, and merging it would take their work back.
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
    """The latest commit that is in the history of both; None: there is none, or nobody can say."""
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
                    except GitFailed:  # it says nothing and ends with 1 where there is none
                        continue
                    return fork
    except TimeoutError:
        raise SourceUnreachable(
            f"repository {without_userinfo(remote.url)} did not give out the history of {other} "
            f"within {MAX_SECONDS:g} s"
        ) from None
    return None
