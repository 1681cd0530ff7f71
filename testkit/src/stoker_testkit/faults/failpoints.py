"""A process that ends, or meets a broken disk, at a named place.

    python -m stoker_testkit.faults.failpoints NAME[:N][=ACTION] [...] -- <arguments of stoker>

runs the command and, when it comes to the failpoint NAME for the N-th time (the
first unless given), does one of these: `kill` (the default) ends the
process on the spot, as the kernel or a power cut would; `enospc`, `eio` and `erofs`
let that step fail as a full, a broken or a read-only disk does, from then on each
time; `pause@FILE` makes FILE and waits until it is removed. The names are in
`ALL`, `IMPORTING`, `WRITING`, `REVERSING`, `GATEWAY`, `SNAPSHOT` and `GOING_BACK` of
`stoker.domain.failpoints`.
"""

from __future__ import annotations

import errno
import os
import re
import runpy
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from stoker.domain import failpoints

_SPEC = re.compile(r"(?P<name>[a-z.]+)(:(?P<turn>[0-9]+))?(=(?P<action>[a-z]+)(@(?P<file>.+))?)?")
_ERRORS = {"enospc": errno.ENOSPC, "eio": errno.EIO, "erofs": errno.EROFS}
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class FailpointAction:
    """An action at a failpoint, at its n-th call."""

    name: str
    turn: int = 1
    action: str = "kill"
    file: Path | None = None

    @classmethod
    def parsed(cls, text: str) -> FailpointAction:
        match = _SPEC.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not NAME[:N][=ACTION]")
        action = match["action"] or "kill"
        known = (
            *failpoints.ALL_FAILPOINTS,
            *failpoints.IMPORTING,
            *failpoints.WRITING,
            *failpoints.REVERSING,
            *failpoints.GATEWAY,
            *failpoints.SNAPSHOT,
            *failpoints.ROLLBACK_FAILPOINTS,
        )
        if match["name"] not in known:
            raise ValueError(f"there is no failpoint {match['name']!r}")
        if action not in ("kill", "pause", *_ERRORS) or (action == "pause") != bool(match["file"]):
            raise ValueError(f"{text!r} names no action: kill, {', '.join(_ERRORS)} or pause@FILE")
        return cls(
            match["name"], int(match["turn"] or 1), action, Path(match["file"]) if match["file"] else None
        )

    def happen(self, turn: int) -> None:
        if turn < self.turn:
            return
        if self.action in _ERRORS:
            raise OSError(_ERRORS[self.action], os.strerror(_ERRORS[self.action]))
        if turn > self.turn:
            return
        if self.file is None:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # until the signal is there
        else:
            self.file.touch()
            while self.file.exists():
                time.sleep(_PAUSE)


def arm(*failures: FailpointAction) -> None:
    """From now on this process fails at these failpoints."""
    turns: Counter[str] = Counter()

    def listener(name: str) -> None:
        turns[name] += 1
        for failure in failures:
            if failure.name == name:
                failure.happen(turns[name])

    failpoints.listen(listener)


def main(arguments: list[str]) -> None:
    try:
        cut = arguments.index("--")
        failures = [FailpointAction.parsed(text) for text in arguments[:cut]]
    except ValueError as error:
        sys.exit(f"python -m stoker_testkit.faults.failpoints NAME[:N][=ACTION] ... -- ARGUMENTS: {error}")
    arm(*failures)
    sys.argv = ["stoker", *arguments[cut + 1 :]]
    # By name: the command is above this module in the house.
    runpy.run_module("stoker", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
