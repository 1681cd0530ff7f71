"""One program as a child of the event loop: started, listened to, ended.

It runs in a process group of its own, so that whatever it started (ssh, http
helpers, indexers) is killed together with it on timeout, on cancellation and when
it prints too much. Pipes are read by the loop itself; asyncio's own children cost
a thread each.
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
    """How it ended and what it said."""

    code: int
    output: bytes | None
    """None if it was more than allowed."""
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
    """Run it to its end; raises TimeoutError when that does not come in time.

    What it complains of comes without `hidden`, also where only the end of it is kept. It is killed as
    soon as `watch` sees that it asks a dumb server for files.
    """
    with contextlib.ExitStack() as files:
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own way blocks just as long, and costs more
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
    """End it and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class _ChildOutput:
    """What comes through both pipes; one left unread would stop the child for ever."""

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
        """The end of it, without secrets; the reason stands last, however much a server says before.

        Before the end lies a margin, in which the rest of a secret that was cut in two must lie.
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
        if self._requests is not None:  # every process that could write to it has ended
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
    """One pipe, read whenever there is something."""

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
    """A process that has closed its pipes is all but gone; it is not worth a thread to wait for it."""
    pause = _FIRST_POLL_SECONDS
    while process.poll() is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


async def _reap_killed(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of what was killed, however often we are told to hurry; for ten seconds at most."""
    pause = _FIRST_POLL_SECONDS
    while process.poll() is None and pause < 5:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(pause)
        pause *= 2


def _memory_file(content: bytes) -> IO[bytes]:
    """Something to read `content` from that needs nobody to write it meanwhile."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("stdin", os.MFD_CLOEXEC), "w+b")
    else:
        import tempfile  # noqa: PLC0415 - Linux has something better

        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file
