"""Runs one child process on the event loop: start it, read its output, end it.

The child runs in its own process group, so that its own children (ssh, http helpers, indexers) are killed
with it on timeout, on cancellation and when it prints too much. The event loop reads the pipes directly,
because asyncio's own subprocesses cost a thread each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from stoker.domain.secrets import HIDDEN
from stoker.git.process.dumb_http import DUMB_HTTP_MESSAGE, DumbHttpWatch

MAX_STDERR = 16 * 1024
_CHUNK = 1 << 16
_FIRST_POLL_SECONDS = 0.0002


class ChildResult(NamedTuple):
    """The exit code and the output of a child process."""

    code: int
    output: bytes | None
    """None if there was more than allowed."""
    complaint: bytes


async def run_child(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    stdin: bytes,
    max_output: int,
    timeout: float,
    hidden: Sequence[str] = (),
    watch: DumbHttpWatch | None = None,
) -> ChildResult:
    """Run the child to its end; raise TimeoutError if it does not end in time.

    The strings in `hidden` are removed from its stderr, even if only the end of stderr is kept. The child
    is killed as soon as `watch` sees a request for files of a dumb HTTP server.
    """
    with contextlib.ExitStack() as files:
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own start blocks just as long, and costs more
            argv,
            stdin=files.enter_context(_memory_file(stdin)) if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment if watch is None else {**environment, **watch.environment},
            pass_fds=() if watch is None else (watch.writing,),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
    said = _ChildOutput(process, max_output, hidden, watch)
    try:
        async with asyncio.timeout(timeout):
            await said.everything()
            await _reap_closed(process)
    except BaseException:
        kill_group(process.pid)
        await _reap_killed(process)
        raise
    finally:
        said.close()
    if watch is not None and watch.is_dumb:
        return ChildResult(process.returncode or 1, said.output, DUMB_HTTP_MESSAGE)
    return ChildResult(process.returncode, said.output, said.complaint)


def kill_group(pid: int) -> None:
    """Kill a process and everything that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class _ChildOutput:
    """Reads both pipes of a child; an unread pipe would fill up and block the child for ever."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        max_output: int,
        hidden: Sequence[str],
        watch: DumbHttpWatch | None,
    ) -> None:
        self._process = process
        self._left = max_output
        self._parts: list[bytes] = []
        self._tail = b""
        self._hidden = sorted((secret.encode() for secret in hidden if secret), key=len, reverse=True)
        self._margin = max(map(len, self._hidden), default=1) - 1
        self._is_cut = False
        self._pipes = (
            _ChildPipe(process.stdout, self._on_output),
            _ChildPipe(process.stderr, self._on_complaint),
        )
        self._watch = watch
        self._requests = None if watch is None else _ChildPipe(watch.file, self._on_request)
        if watch is not None:
            watch.started()

    @property
    def output(self) -> bytes | None:
        return b"".join(self._parts) if self._left >= 0 else None

    @property
    def complaint(self) -> bytes:
        """The end of stderr without secrets; git prints the reason last, after any output of the server.

        A secret may be cut in two where the kept text begins. `_tail` therefore keeps a margin of one
        secret's length more than is shown, so that a secret which reaches into the shown part is found whole.
        """
        at = self._margin if self._is_cut else 0
        shown, begin = [], 0
        for match in re.finditer(b"|".join(map(re.escape, self._hidden)) or rb"(?!)", self._tail):
            shown.append(self._tail[max(begin, at) : match.start()])
            shown.append(HIDDEN.encode() if match.end() > at else b"")
            begin = match.end()
        return b"".join((*shown, self._tail[max(begin, at) :]))

    async def everything(self) -> None:
        for pipe in self._pipes:
            await pipe.ended
        if self._requests is not None:  # all writers of the trace have ended
            await self._requests.ended

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        if self._requests is not None:
            self._requests.close()

    def _on_request(self, chunk: bytes) -> None:
        if self._watch is not None and self._watch.saw(chunk):
            kill_group(self._process.pid)

    def _on_output(self, chunk: bytes) -> None:
        if self._left < 0:
            return
        self._left -= len(chunk)
        if self._left < 0:
            self._parts.clear()
            kill_group(self._process.pid)
        else:
            self._parts.append(chunk)

    def _on_complaint(self, chunk: bytes) -> None:
        tail, most = self._tail + chunk, MAX_STDERR + self._margin
        self._is_cut = self._is_cut or len(tail) > most
        self._tail = tail[-most:]


class _ChildPipe:
    """One pipe that the event loop reads whenever it has data."""

    def __init__(self, file: IO[bytes] | None, take: Callable[[bytes], None]) -> None:
        if file is None:
            raise ValueError("the process was started without pipes")
        self._file = file
        self._take = take
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(file.fileno(), False)
        self._loop.add_reader(file.fileno(), self._on_readable)

    def close(self) -> None:
        if not self._file.closed:
            self._loop.remove_reader(self._file.fileno())
            self._file.close()
        if not self.ended.done():
            self.ended.set_result(None)

    def _on_readable(self) -> None:
        try:
            chunk = os.read(self._file.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if chunk:
            self._take(chunk)
        else:
            self.close()


async def _reap_closed(process: subprocess.Popen[bytes]) -> None:
    """Poll for the end of a process that has closed its pipes: it ends soon, so no thread is needed."""
    pause = _FIRST_POLL_SECONDS
    while process.poll() is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


async def _reap_killed(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a killed process, despite repeated cancellation, for ten seconds at most."""
    pause = _FIRST_POLL_SECONDS
    while process.poll() is None and pause < 5:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(pause)
        pause *= 2


def _memory_file(content: bytes) -> IO[bytes]:
    """Return a file with `content` as stdin, so that no writer has to feed a pipe."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("stdin", os.MFD_CLOEXEC), "w+b")
    else:
        import tempfile  # noqa: PLC0415 - Linux has memfd and does not need it

        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file
