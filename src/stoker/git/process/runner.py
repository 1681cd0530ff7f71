"""The only code that starts git.

Each call is one process with a fixed argument list in an environment built from
nothing (`stoker.git.process.env`). Operands always follow `--end-of-options`, so
none of them can become an option, whatever type let it through. Credentials travel
in the environment of the one process that needs them, or in a file that goes away
with it (`stoker.git.auth.git_env`).

A git that talks to somebody else runs under limits of the kernel: on memory always,
because a server can make git hold what it sends, and on the size of a file where
the caller caps what may be received. They hold for http, ssh and local sources
alike, since all that arrives is written as one pack.
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
"""Makes an error of what git said, the repository it talked to, and what it might receive."""

_NO_ACCESS = RepoAccess()
_NO_CREDENTIALS = GitEnvironment({}, {})
# A limit that is lower already stays. Without the trap git would be killed silently instead of saying why.
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
    """Runs git for one user of the cache folder."""

    def __init__(self, cache: Path, *, timeout: float = TIMEOUT, max_memory: int = MAX_MEMORY) -> None:
        self.cache = cache.absolute()
        self._timeout = timeout
        self._max_memory = max_memory
        self._helpers = self._furnished()
        self._fixed = environments.base_environment(self._helpers.home)

    @property
    def home(self) -> Path:
        """A folder of this user alone, for what lives as long as one call."""
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
        """What git printed; raises one of `stoker.git.errors` if it fails, hangs or says too much.

        `url` is the repository that it talks to, if it talks to one; `max_bytes` then caps what may
        be received.
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
        """A git that answers questions about local objects; for a worker thread, never for the event loop.

        `limited`: what it is fed comes from somebody else, so that it runs under the limit on memory.
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
        """The helpers, put back if somebody has emptied the cache."""
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
        """git under limits; the shell runs a fixed text and hands its arguments on untouched."""
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
        # Whoever would end a silent git may be killed first; then it ends by itself.
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
        from stoker.git.auth.ssh import host_key_error, strip_ssh_debug  # noqa: PLC0415 - most gits never speak ssh

        if _UNTRUSTED_HOST_KEY in said:
            return host_key_error(said, url, access.login)
        said = strip_ssh_debug(said)
    return judged(said)


def _git_verb(command: Sequence[str]) -> str:
    """What git is asked to do; settings may stand before it."""
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
