"""The only code that starts git.

Each call is one process with a fixed argument list, without a shell, in a process
group of its own that is killed as a whole on timeout or cancellation. The
environment is built from nothing: no setting of the machine, the user or a
repository reaches git, and everything that would run a program (hooks, helpers,
submodules, transports beyond the four that an address may have) is switched off.
Operands always follow `--end-of-options`, so none of them can become an option,
whatever type let it through. Credentials travel in the environment of the one
process that needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.domain.secrets import HIDDEN
from stoker.git.credentials import Credentials, askpass_environment, install_askpass
from stoker.git.errors import GitError, GitFailed, SourceUnreachable, error_for
from stoker.git.private import private_folder, write_private

TIMEOUT = 120.0
MAX_OUTPUT = 1 << 20
MAX_STDERR = 16 * 1024
_CHUNK = 1 << 16

_CONFIG = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.bigFileThreshold": "4m",  # larger blobs are streamed, not held in memory
    "credential.helper": "",
    "fetch.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.http.allow": "always",
    "protocol.ssh.allow": "always",
    "protocol.file.allow": "always",
    # askpass would answer the host that a redirect leads to.
    "http.followRedirects": "false",
}


class GitRunner:
    """Runs git for one user of the cache folder."""

    def __init__(self, cache: Path, *, timeout: float = TIMEOUT) -> None:
        self._home = private_folder(private_folder(cache) / "home")
        self._askpass = install_askpass(self._home)
        self._timeout = timeout

    async def run(
        self,
        command: Sequence[str],
        operands: Sequence[str] = (),
        *,
        repository: Path | None = None,
        url: RepoUrl | None = None,
        credentials: Credentials | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> bytes:
        """What git printed; raises one of `stoker.git.errors` if it fails, hangs or says too much."""
        process = await self._started(command, operands, self._environment(repository, url, credentials))
        try:
            async with asyncio.timeout(self._timeout):
                # One pipe left unread would stop git for ever, so both are read at once.
                output, complaint = await asyncio.gather(_bounded(process, max_output), _tail(process))
                code = await process.wait()
        except BaseException as error:
            _kill_group(process.pid)
            await process.wait()
            if isinstance(error, TimeoutError):
                raise _too_long(command[0], self._timeout, url) from None
            raise
        if output is None:
            raise _too_much(command[0], max_output, url)
        if code != 0:
            raise self._failed(complaint, url, credentials)
        return output

    @contextmanager
    def stream(self, command: Sequence[str], *, repository: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A git that answers questions about local objects; for a worker thread, never for the event loop."""
        with subprocess.Popen(
            ["git", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment(repository, None, None),
            cwd=self._home,
            start_new_session=True,
            bufsize=0,
        ) as process:
            try:
                yield process
            finally:
                _kill_group(process.pid)

    async def _started(
        self, command: Sequence[str], operands: Sequence[str], environment: dict[str, str]
    ) -> asyncio.subprocess.Process:
        argv = ["git", *command, *(["--end-of-options", *operands] if operands else [])]
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=self._home,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise Misconfigured("the git program is not on PATH") from error

    def _environment(
        self, repository: Path | None, url: RepoUrl | None, credentials: Credentials | None
    ) -> dict[str, str]:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._home),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes",
            # Without a repository of ours git must not find one that lies above the folder it starts in.
            "GIT_CEILING_DIRECTORIES": str(self._home.parent),
        }
        # Whoever would end a silent git may be killed first; then it ends by itself.
        config = _CONFIG | {"http.lowSpeedLimit": "1", "http.lowSpeedTime": str(math.ceil(self._timeout))}
        if repository is not None:
            environment["GIT_DIR"] = str(repository)
            config["safe.directory"] = str(repository)
        for number, (key, value) in enumerate(config.items()):
            environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        environment["GIT_CONFIG_COUNT"] = str(len(config))
        if url is not None and url.scheme == "file":
            environment["GIT_CONFIG_GLOBAL"] = str(self._trusting(url))
        if url is not None and credentials is not None:
            environment |= askpass_environment(self._askpass, url, credentials)
        return environment

    def _trusting(self, url: RepoUrl) -> Path:
        """A configuration that names one local repository as safe.

        A mirror that is mounted into a pod usually belongs to another user, and
        git then says "detected dubious ownership". The process that reads it is
        started by git without our variables; only a file reaches it.
        """
        place = unquote(urlsplit(url).path).rstrip("/")
        if not place.isprintable():
            raise InvalidValue(f"repository address {str(url)!r} holds an escaped control character")
        folders = [f"{root}{tail}" for root in {place, os.path.realpath(place)} for tail in ("", "/.git")]
        quoted = (folder.replace("\\", "\\\\").replace('"', '\\"') for folder in folders)
        content = "[safe]\n" + "".join(f'\tdirectory = "{folder}"\n' for folder in quoted)
        config = self._home / f"trust-{hashlib.sha256(url.encode()).hexdigest()[:16]}.gitconfig"
        write_private(config, content.encode(), 0o600)
        return config

    @staticmethod
    def _failed(complaint: bytes, url: RepoUrl | None, credentials: Credentials | None) -> GitError:
        said = complaint.decode(errors="replace")
        if credentials is not None and credentials.password:
            said = said.replace(credentials.password.reveal(), HIDDEN)
        return error_for(said, url)


async def _bounded(process: asyncio.subprocess.Process, limit: int) -> bytes | None:
    """All that git prints; None, and git is killed, as soon as it is more than allowed."""
    parts: list[bytes] = []
    size = 0
    while process.stdout is not None and (chunk := await process.stdout.read(_CHUNK)):
        size += len(chunk)
        if size > limit:
            _kill_group(process.pid)
            return None
        parts.append(chunk)
    return b"".join(parts)


async def _tail(process: asyncio.subprocess.Process) -> bytes:
    """The end of what was said; git's reason stands last, however much a server says before."""
    kept = b""
    while process.stderr is not None and (chunk := await process.stderr.read(_CHUNK)):
        kept = (kept + chunk)[-MAX_STDERR:]
    return kept


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _too_long(command: str, seconds: float, url: RepoUrl | None) -> GitError:
    if url is None:
        return GitFailed(f"git {command} took longer than {seconds:g} s")
    return SourceUnreachable(
        f"repository {without_userinfo(url)} did not finish git {command} within {seconds:g} s"
    )


def _too_much(command: str, limit: int, url: RepoUrl | None) -> GitError:
    if url is None:
        return GitFailed(f"git {command} printed more than {limit} bytes")
    return SourceUnreachable(
        f"repository {without_userinfo(url)} answered git {command} with over {limit} bytes"
    )
