"""Checks whether a repository accepts pushes, without writing to it.

The check starts a push and ends it after the server has listed its refs. By then the server has answered,
accepted the credentials and granted write access. A read would not prove this: many servers allow anonymous
reads and do not check the password for them. Protection rules of single branches show only in a real push.

The check pushes all branches of a repository that has none, so it could change nothing even if git ignored
`--dry-run`.
"""

from __future__ import annotations

from stoker.domain.errors import StokerError
from stoker.domain.refs import RepoUrl
from stoker.git.commit.push import COMMAND, ObjectFormatMismatch, push_error, translate_write_errors
from stoker.git.errors import GitFailed
from stoker.git.mirror.bare_repository import make_bare
from stoker.git.private_files import folder_for_one_call
from stoker.git.remote.remote import Remote

TIMEOUT = 60.0

_ALL_OF_NONE = "refs/heads/*:refs/heads/*"
_EMPTY_TOO = "No refs in common and none specified"
"""git's error message for a push of no branches to an empty repository, which is a success here."""


class _PushPossible(GitFailed):
    """The push would work, although git reports an error."""


async def check_push_access(remote: Remote) -> None:
    """Raise the error that a push would raise before it sends anything."""
    try:
        with translate_write_errors(), folder_for_one_call(remote.runner.home) as folder:
            await remote.git(
                [*COMMAND, "--dry-run"],
                [remote.url, _ALL_OF_NONE],
                repository=make_bare(folder / "repository", 40),
                timeout=TIMEOUT,
                judge=_push_check_error,
            )
    except (_PushPossible, ObjectFormatMismatch):
        return
    except OSError as error:
        raise GitFailed(f"folder {remote.runner.home} cannot be written: {error.strerror}") from error


def _push_check_error(said: str, url: RepoUrl | None, max_bytes: int | None = None) -> StokerError:
    return _PushPossible(_EMPTY_TOO) if _EMPTY_TOO in said else push_error(said, url, max_bytes)
