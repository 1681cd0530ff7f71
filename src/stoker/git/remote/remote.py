"""A repository's address together with its credentials, which are read again for every call.

To rotate a token or a key, an operator only changes the Secret or the file: the next call uses the
new value. If the server refuses the credentials, because they were rotated during a call, `Remote`
reads them again. It runs git a second time only if they have changed, so that a wrong password costs
one login attempt and not two.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from stoker.domain.refs import RepoUrl
from stoker.git.auth.credentials import RepoAccess, RepoAccessReader, access_identity, fixed_access
from stoker.git.errors import SourceAuthFailed, error_for
from stoker.git.process.runner import MAX_OUTPUT, GitErrorMapper, GitRunner


class Remote:
    """One remote repository: runs git against it with the current credentials."""

    def __init__(self, runner: GitRunner, url: RepoUrl, access: RepoAccessReader) -> None:
        self.runner = runner
        self.url = url
        self._read_access = access

    async def git(
        self,
        command: Sequence[str],
        operands: Sequence[str] = (),
        *,
        repository: Path | None = None,
        stdin: bytes = b"",
        max_output: int = MAX_OUTPUT,
        max_bytes: int | None = None,
        timeout: float | None = None,
        judge: GitErrorMapper = error_for,
    ) -> bytes:
        """Run git with the current credentials and return its output."""

        async def run(access: RepoAccess) -> bytes:
            return await self.runner.run(
                command,
                operands,
                repository=repository,
                url=self.url,
                access=access,
                stdin=stdin,
                max_output=max_output,
                max_bytes=max_bytes,
                timeout=timeout,
                judge=judge,
            )

        access = await self._read_access()
        try:
            return await run(access)
        except SourceAuthFailed:
            if access.refused is not None:
                access.refused()
            renewed = await self._read_access()
            if renewed == access:
                raise
        return await run(renewed)

    async def identity(self, key: bytes) -> str:
        """Return the name of the mirror folder for this address and these credentials."""
        return access_identity(key, self.url, await self._read_access())


def local_remote(runner: GitRunner, repository: Path) -> Remote:
    """A repository on this machine, which needs no credentials; only file permissions apply."""
    return Remote(runner, RepoUrl(f"file://{quote(str(repository.absolute()))}"), fixed_access(RepoAccess()))
