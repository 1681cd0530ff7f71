"""Real server processes: started with a log file, awaited, stopped, and never left behind.

Every server that tests and the demo run (etcd, the API server, sshd) is a
`Process`. It dies with the program that started it, even when that program is
killed without a chance to clean up: the kernel is asked to kill it (Linux), so
no run leaves an orphan that holds a port or a core. A process that ends before
it was ready is reported with the end of its own log, which says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from stoker.domain.errors import StokerError
from stoker_testkit.secret_leaks.captured_output import keep_metrics
from stoker_testkit.secret_leaks.tracked_credentials import RUN
from stoker_testkit.stoppable import Stoppable

GRACE_SECONDS = 5.0
POLL_SECONDS = 0.02
TAIL_LINES = 15
TAIL_BYTES = 16 * 1024
PORT_ATTEMPTS = 5

EGRESS_ALLOW, LOOPBACK = "STOKER_EGRESS_ALLOW", "127.0.0.0/8,::1,localhost"
"""What every process of ours may connect to unless it is told otherwise: the doubles of tests and demo."""

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

# The kernel ties a child to the *thread* that started it, not to the process. All
# are started from this one thread, which lives as long as the program; otherwise a
# server that was started in a short-lived worker thread would die with that thread.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-spawner")


class ProcessFailed(StokerError):
    """A server ended before it was ready, or was not ready in time."""


class PortTaken(ProcessFailed):
    """Somebody else took the port between our looking and the server's binding; try another."""


class Process(Stoppable):
    """One running server."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen
        self._cleared = False

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start it in a session of its own, so that Ctrl-C reaches us first and we stop it in order."""
        parent = os.getpid()

        def spawn() -> subprocess.Popen[bytes]:
            with log.open("ab") as sink:
                return subprocess.Popen(
                    [str(part) for part in argv],
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    env={EGRESS_ALLOW: LOOPBACK, **(os.environ if env is None else env)},
                    cwd=cwd,
                    start_new_session=True,
                    preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 - one system call, takes no lock
                )

        return cls(name, _SPAWNER.submit(spawn).result(), log)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        return self._popen.poll()

    @property
    def running(self) -> bool:
        return self.returncode is None

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Return as soon as `ready` says so; raise with the end of the log if it cannot become ready."""
        deadline = time.monotonic() + timeout
        while True:
            # The process is looked at after the answer: on a lost port the answer is somebody else's.
            answered = ready()
            self.check()
            if answered:
                return
            if time.monotonic() >= deadline:
                raise self._failed(f"{self.name} was not ready within {timeout:g} s")
            time.sleep(POLL_SECONDS)

    def wait(self, timeout: float) -> bool:
        """Whether it ends by itself within `timeout` seconds."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def check(self) -> None:
        """Raise, with the end of its log, if it has ended by itself."""
        if not self.running:
            raise self._failed(f"{self.name} ended with {_exit(self.returncode)}")

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Ask it to end, insist after `grace` seconds, and take its children with it."""
        if self.running:
            keep_metrics(self.name, self.log)
            self._signal(signal.SIGTERM)
            self.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End it and everything in its session now, as a crash would."""
        if self._cleared:  # the number of its process group may be somebody else's by now
            return
        self._signal(signal.SIGKILL)
        self._popen.wait()
        self._cleared = True

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines that it logged."""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _failed(self, what: str) -> ProcessFailed:
        tail = self.tail()
        error = PortTaken if "address already in use" in tail.lower() else ProcessFailed
        return error(f"{what}; the end of {self.log}:\n{tail}")


_PORTS = (12_000, 32_000)
_GIVEN: set[int] = set()
_RESERVED = "ports"
"""A file in the folder of a test run. Each byte stands for a port; a lock on it reserves the port."""


def free_ports(count: int) -> list[int]:
    """Ports for programs that must be told one: free now, and in a test run not given to another worker.

    They are below those that the system gives to connections: a port that was free a moment
    ago would otherwise be taken by the next client of another test.
    """
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(range(*_PORTS))
        if port not in _GIVEN and _reserve(port) and _is_free(port):
            _GIVEN.add(port)
            found.append(port)
    return found


def _reserve(port: int) -> bool:
    """Whether no other process of the test run has been given it; outside of one there is nothing to ask."""
    run = os.environ.get(RUN)
    if run is None or not Path(run).is_dir():
        return True
    try:
        fcntl.lockf(_reservations(run), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    return True


@functools.cache
def _reservations(run: str) -> int:
    # Never closed: the kernel gives the locks back when the process ends.
    return os.open(Path(run, _RESERVED), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]


def on_free_ports(count: int, start: Callable[[list[int]], T]) -> T:
    """Call `start` with free ports, and again with others when somebody took one in between."""
    for _ in range(PORT_ATTEMPTS - 1):
        with contextlib.suppress(PortTaken):
            return start(free_ports(count))
    return start(free_ports(count))


def _die_with(parent: int) -> None:
    """Runs in the child before the server's own program: ask the kernel for a kill on the parent's death."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request; nobody would send the signal any more
            os._exit(1)


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
