"""Server processes of tests and the demo: started with a log file, awaited, stopped, never left behind.

Every server that tests and the demo run (etcd, the API server, sshd) is a `Process`. It dies with the program
that started it, even if that program is killed without a chance to clean up: on Linux the kernel kills it. So
no run leaves an orphan that holds a port or a core. A process that ends before it was ready is reported with
the end of its log, which contains the cause.
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
"""Default egress of all our processes: only loopback, where the doubles of tests and the demo listen."""

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

# PR_SET_PDEATHSIG ties a child to the *thread* that started it, not to the process. All are
# started from this thread, which lives as long as the program; a server that was started in a
# short-lived worker thread would be killed when that thread ends.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-spawner")


class ProcessFailed(StokerError):
    """A server ended before it was ready, or was not ready in time."""


class PortTaken(ProcessFailed):
    """Another process took the port between our check and the server's bind; try another port."""


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
        """Start it in its own session, so that Ctrl-C reaches only us and we stop servers in order."""
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
        """Return as soon as `ready` is true; raise with the end of the log if it cannot become ready."""
        deadline = time.monotonic() + timeout
        while True:
            # Check the process after the answer: if it lost the port, the answer came from another server.
            answered = ready()
            self.check()
            if answered:
                return
            if time.monotonic() >= deadline:
                raise self._failed(f"{self.name} was not ready within {timeout:g} s")
            time.sleep(POLL_SECONDS)

    def wait(self, timeout: float) -> bool:
        """Return whether it ends by itself within `timeout` seconds."""
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
        """Send SIGTERM, kill it after `grace` seconds, and kill its children with it."""
        if self.running:
            keep_metrics(self.name, self.log)
            self._signal(signal.SIGTERM)
            self.wait(grace)
        self.kill()

    def kill(self) -> None:
        """Kill it and everything in its session now, as a crash would."""
        if self._cleared:  # the id of its process group may have been reused
            return
        self._signal(signal.SIGKILL)
        self._popen.wait()
        self._cleared = True

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log."""
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
"""A file in the folder of a test run. Each byte represents a port; a lock on it reserves the port."""


def free_ports(count: int) -> list[int]:
    """Ports for programs that need a port number: free now, and not given to another worker of the test run.

    They are below the range from which the system picks ports of connections; otherwise a client of another
    test could take the port a moment later.
    """
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(range(*_PORTS))
        if port not in _GIVEN and _reserve(port) and _is_free(port):
            _GIVEN.add(port)
            found.append(port)
    return found


def _reserve(port: int) -> bool:
    """Return whether no other process of the test run has reserved the port; True outside of a test run."""
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
    # Never closed: the kernel releases the locks when the process ends.
    return os.open(Path(run, _RESERVED), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """One free port, as `free_ports` finds it."""
    return free_ports(1)[0]


def on_free_ports(count: int, start: Callable[[list[int]], T]) -> T:
    """Call `start` with free ports, and again with others if another process took one meanwhile."""
    for _ in range(PORT_ATTEMPTS - 1):
        with contextlib.suppress(PortTaken):
            return start(free_ports(count))
    return start(free_ports(count))


def _die_with(parent: int) -> None:
    """Run in the child before the server's program: make the kernel kill it when the parent dies."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl, so the signal will never come
            os._exit(1)


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
