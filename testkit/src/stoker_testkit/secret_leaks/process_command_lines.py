"""The command lines of this machine, seen in passing for as long as a run of tests takes.

A look costs a third of a millisecond, so there are ten in a second and no more: of the
many thousand programs that a run starts each kind is seen often, but not each program. A
test that must miss none looks harder, for a shorter time: at every process, each time.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

PAUSE = 0.1
MOST = 200_000
_PROC = Path("/proc")


def running() -> dict[str, str]:
    """The command line of each process by its id, arguments with a space between."""
    lines = {}
    for process in os.listdir(_PROC):  # noqa: PTH208 - Path.glob fails when a process ends meanwhile
        if process.isdecimal():
            with suppress(OSError):  # it has ended
                text = (_PROC / process / "cmdline").read_bytes()
                lines[process] = text.replace(b"\0", b" ").decode(errors="replace")
    return lines


class CommandLines:
    """All that were seen, until `stop`."""

    def __init__(self, *, pause: float = PAUSE, always: bool = False) -> None:
        """`always`: a process is read at every look, and not only when it is new."""
        self.seen: set[bytes] = set()
        self._pause = pause
        self._always = always
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="command-lines", daemon=True)

    def start(self) -> None:
        if _PROC.is_dir():
            self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        known: set[str] = set()
        fresh: set[str] = set()
        while not self._over.wait(self._pause):
            there = {name for name in os.listdir(_PROC) if name.isdecimal()}  # noqa: PTH208 - the names alone
            # Twice: between its start and its program a process still has the line of its parent.
            for process in there if self._always else (there - known) | (fresh & there):
                with suppress(OSError):  # it has ended
                    line = (_PROC / process / "cmdline").read_bytes()
                    if len(self.seen) < MOST:
                        self.seen.add(line)
            fresh, known = there - known, there


def program_of(line: bytes) -> str:
    """The end of its name, which is enough to tell it by."""
    return line.partition(b"\0")[0].decode(errors="replace")[-40:]
