"""The only code that starts git.

Each call is one process with a fixed argument list and an environment built from scratch
(`stoker.git.process.env`). Operands always follow `--end-of-options`, so git can never read an operand as
an option, even if its type failed to validate it. Credentials are passed in the environment of the one
process that needs them, or in a file that is removed with it (`stoker.git.auth.git_env`).

A git that contacts a remote runs under kernel limits (ulimit): always on memory, because a server can make
git hold what it sends, and on file size if the caller limits the bytes to receive. The limits work for
http, ssh and local remotes alike, because git writes everything that it receives as one pack.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from stoker.domain.errors import Misconfigured, StokerError
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.domain.text import redact_secrets
from stoker.git.auth.credentials import GitSshKey, RepoAccess
from stoker.git.auth.git_env import CredentialHelpers, GitEnvironment, git_credentials
from stoker.git.auth.pinned_address import NO_PIN, PinnedAddress, pin_address
from stoker.git.errors import GitFailed, SourceTooLarge, SourceUnreachable, error_for
from stoker.git.private_files import private_folder, remove_leftovers
from stoker.git.process import env as environments
from stoker.git.process.child import ChildResult, kill_group, run_child
from stoker.git.process.dumb_http import DumbHttpWatch

TIMEOUT = 120.0
MAX_OUTPUT = 1 << 20
MAX_MEMORY = 1 << 30

GitErrorMapper = Callable[[str, RepoUrl | None, int | None], StokerError]
"""Maps git's error output, the address of the remote and the byte limit to an error."""

_NO_ACCESS = RepoAccess()
_NO_CREDENTIALS = GitEnvironment({}, {})
# A limit that is already lower stays in force. Without the trap, SIGXFSZ would kill git without an error
# message when the file size limit is reached.
_LIMITED = """\
trap "" XFSZ
ulimit -d "$1" 2>/dev/null || :
[ "$2" = none ] || ulimit -f "$2" 2>/dev/null || :
shift 2
exec git "$@"
"""
_NOT_FOUND = 127
_NO_GIT = "the git program is not on PATH"
_UNTRUSTED_HOST_KEY = "Host key verification failed"


class GitRunner:
    """Runs git with the helper programs and private files of one cache folder."""

    def __init__(self, cache: Path, *, timeout: float = TIMEOUT, max_memory: int = MAX_MEMORY) -> None:
        self.cache = cache.absolute()
        self._timeout = timeout
        self._max_memory = max_memory
        self._helpers = self._furnished()
        self._fixed = environments.base_environment(self._helpers.home)

    @property
    def home(self) -> Path:
        """A folder that only this user can enter, for files that exist during one call."""
        return self._at_home().home

    async def run(
        self,
        command: Sequence[str],
        operands: Sequence[str] = (),
        *,
        repository: Path | None = None,
        url: RepoUrl | None = None,
        access: RepoAccess = _NO_ACCESS,
        stdin: bytes = b"",
        max_output: int = MAX_OUTPUT,
        max_bytes: int | None = None,
        timeout: float | None = None,
        judge: GitErrorMapper = error_for,
    ) -> bytes:
        """Return git's output; raise one of `stoker.git.errors` if git fails, times out or prints too much.

        `url` is the remote repository that git contacts, if any; `max_bytes` then limits what git may
        receive.
        """
        seconds = self._timeout if timeout is None else timeout
        argv = [*command, *(["--end-of-options", *operands] if operands else [])]
        pin = NO_PIN if url is None else await pin_address(url, access)
        with self._opened(url, access) as opened:
            ended = await self._converse(
                ["git", *argv] if url is None else self._limited(argv, max_bytes),
                self._environment(repository, url, opened, seconds, pin),
                stdin,
                max_output,
                (_git_verb(command), seconds, url),
                opened.hidden,
            )
            if ended.output is None:
                raise _output_limit_error(_git_verb(command), max_output, url)
            if ended.code == _NOT_FOUND and url is not None:
                raise Misconfigured(_NO_GIT)
            if ended.code != 0:
                raise _git_error(ended.complaint, url, access, lambda said: judge(said, url, max_bytes))
        return ended.output

    @contextmanager
    def stream(
        self, command: Sequence[str], *, repository: Path, limited: bool = False
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Yield a git process that reads or writes local objects; for a worker thread, not the event loop.

        `limited` applies the memory limit, for a process whose input comes from an untrusted source.
        """
        with subprocess.Popen(
            self._limited(command, None) if limited else ["git", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment(repository, None, _NO_CREDENTIALS, self._timeout),
            cwd=self._at_home().home,
            start_new_session=True,
            bufsize=0,
        ) as process:
            try:
                yield process
            finally:
                kill_group(process.pid)

    def _furnished(self) -> CredentialHelpers:
        home = private_folder(private_folder(self.cache) / "home")
        try:
            remove_leftovers(home)
            return CredentialHelpers(home)
        except OSError as error:
            raise GitFailed(f"folder {home} cannot be written: {error.strerror}") from error

    def _at_home(self) -> CredentialHelpers:
        """Return the helpers; install them again if the cache folder was emptied."""
        if not self._helpers.intact:
            self._helpers = self._furnished()
        return self._helpers

    @contextmanager
    def _opened(self, url: RepoUrl | None, access: RepoAccess) -> Iterator[GitEnvironment]:
        helpers = self._at_home()
        with contextlib.ExitStack() as stack:
            try:
                opened = (
                    _NO_CREDENTIALS
                    if url is None
                    else stack.enter_context(git_credentials(helpers, url, access))
                )
            except OSError as error:
                raise GitFailed(f"folder {helpers.home} cannot be written: {error.strerror}") from error
            yield opened

    def _limited(self, argv: Sequence[str], max_bytes: int | None) -> list[str]:
        """Return the command for git under limits; the fixed shell script passes arguments unchanged."""
        blocks = "none" if max_bytes is None else str(max(1, max_bytes // 512))
        return ["/bin/sh", "-c", _LIMITED, "sh", str(self._max_memory // 1024), blocks, *argv]

    def _environment(
        self,
        repository: Path | None,
        url: RepoUrl | None,
        opened: GitEnvironment,
        seconds: float,
        pin: PinnedAddress = NO_PIN,
    ) -> dict[str, str]:
        own = {"PATH": os.environ.get("PATH", os.defpath)}
        # This process may be killed before it can end a stalled git; with this setting git ends by itself.
        config = {"http.lowSpeedTime": str(math.ceil(min(seconds, self._timeout)))}
        if repository is not None:
            own["GIT_DIR"] = str(repository)
            config["safe.directory"] = str(repository)
        if url is not None:
            config[f"protocol.{url.scheme}.allow"] = "always"
            if url.scheme == "file":
                own["GIT_CONFIG_GLOBAL"] = str(
                    environments.write_safe_directory_config(self._helpers.home, url)
                )
        config |= opened.config | pin.config
        own |= opened.environment | pin.environment
        return environments.with_config(self._fixed, config) | own

    async def _converse(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        stdin: bytes,
        max_output: int,
        told: tuple[str, float, RepoUrl | None],
        hidden: Sequence[str],
    ) -> ChildResult:
        command, seconds, url = told
        watch = DumbHttpWatch() if url is not None and url.scheme in ("http", "https") else None
        try:
            return await run_child(
                argv,
                environment=environment,
                cwd=self._helpers.home,
                stdin=stdin,
                max_output=max_output,
                timeout=seconds,
                hidden=hidden,
                watch=watch,
            )
        except FileNotFoundError as error:
            raise Misconfigured(_NO_GIT) from error
        except TimeoutError:
            raise _timeout_error(command, seconds, url) from None
        finally:
            if watch is not None:
                watch.close()


def _git_error(
    complaint: bytes,
    url: RepoUrl | None,
    access: RepoAccess,
    judged: Callable[[str], StokerError],
) -> StokerError:
    said = redact_secrets(complaint.decode(errors="replace"))
    if url is not None and url.scheme == "ssh" and isinstance(access.login, GitSshKey):
        from stoker.git.auth.ssh import host_key_error, strip_ssh_debug  # noqa: PLC0415 - most never use ssh

        if _UNTRUSTED_HOST_KEY in said:
            return host_key_error(said, url, access.login)
        said = strip_ssh_debug(said)
    return judged(said)


def _git_verb(command: Sequence[str]) -> str:
    """Return git's subcommand; `-c` settings may precede it."""
    return next(word for word in command if word[0] != "-" and word.replace("-", "").isalpha())


def _timeout_error(command: str, seconds: float, url: RepoUrl | None) -> StokerError:
    if url is None:
        return GitFailed(f"git {command} took longer than {seconds:g} s")
    return SourceUnreachable(
        f"repository {without_userinfo(url)} did not finish git {command} within {seconds:g} s"
    )


def _output_limit_error(command: str, limit: int, url: RepoUrl | None) -> StokerError:
    if url is None:
        return GitFailed(f"git {command} printed more than {limit} bytes")
    return SourceTooLarge(
        f"repository {without_userinfo(url)} answered git {command} with over {limit} bytes"
    )
