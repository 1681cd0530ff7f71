"""Whether a repository can be written, found out without writing to it.

The server is spoken to as by a push, and hung up on when it has said what it has: it
answers, lets us in, and takes pushes from us. Reading alone would not tell: many servers
let everybody read, and never look at a password for that. What single branches are
protected from shows only when they are written.

What is pushed are all branches of a repository that has none, so nothing could be changed
by it even if git took `--dry-run` for something else.
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
"""What git says, and calls a failure, where the other side is as empty as ours."""


class _PushPossible(GitFailed):
    """It works, whatever git calls it."""


async def check_push_access(remote: Remote) -> None:
    """Raises what a push would raise before it has sent anything."""
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
