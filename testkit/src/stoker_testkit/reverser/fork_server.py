"""Starts reversers quickly: one process that has loaded everything, and a fork of it for each of them.

A history kills and starts replicas by the hundred; most of what a start costs is the
loading of modules, which is always the same. Each fork is the command `stoker reverser`
in a session of its own, with a log file, and with failpoints if there are any. They all
end when the fork server ends, and that ends with the program that started it.

    python -m stoker_testkit.reverser.fork_server    reads orders line by line, answers with process numbers
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_testkit.faults.failpoints import FailpointAction, arm
from stoker_testkit.processes import EGRESS_ALLOW, LOOPBACK, TAIL_BYTES
from stoker_testkit.stoppable import Stoppable

_LOADED = ("stoker.cli.run.reverser", "stoker.reverser.process", "stoker.reverser.authors.process")
_PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 15.0


class Replica:
    """One running reverser."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._life = os.pidfd_open(pid)
        self._buried = False

    @property
    def running(self) -> bool:
        return not self._buried and not select.select([self._life], [], [], 0)[0]

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does, as a machine that is suspended."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it on the spot."""
        self._send(signal.SIGKILL)
        self._bury()

    def stop(self, grace: float = GRACE_SECONDS) -> bool:
        """Ask it to end, and insist in the end; whether that was not needed."""
        self.thaw()
        self._send(signal.SIGTERM)
        willing = self._buried or bool(select.select([self._life], [], [], grace)[0])
        self.kill()
        return willing

    def tail(self, size: int = TAIL_BYTES) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - size))
            return log.read().decode(errors="replace")

    def _send(self, number: signal.Signals) -> None:
        if not self._buried:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._life, number)

    def _bury(self) -> None:
        if not self._buried:
            select.select([self._life], [], [])
            os.close(self._life)
            self._buried = True


class ReverserForkServer(Stoppable):
    """The process that forks them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={EGRESS_ALLOW: LOOPBACK, **os.environ},
        )

    def start(self, arguments: Sequence[str], *, log: Path, failures: Sequence[str] = ()) -> Replica:
        """`stoker reverser` with these arguments; `failures` as `faults.failpoints` has them."""
        order = {"arguments": list(arguments), "failures": list(failures), "log": str(log)}
        assert self._process.stdin is not None  # noqa: S101 - both were asked for
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Replica(int(self._process.stdout.readline()), log)

    def stop(self) -> None:
        self._process.communicate()


def main() -> None:
    for name in _LOADED:
        importlib.import_module(name)  # by name: the command is above this module in the house
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # this process does not wait for them
    fork_server = os.getpid()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _live(json.loads(line), fork_server)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _live(order: dict[str, list[str]], fork_server: int) -> None:
    """The fork: never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != fork_server:
        os._exit(1)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with Path(str(order["log"])).open("ab") as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    code = 1
    try:
        if order["failures"]:
            arm(*map(FailpointAction.parsed, order["failures"]))
        sys.argv = ["stoker", "reverser", *order["arguments"]]
        runpy.run_module("stoker", run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
