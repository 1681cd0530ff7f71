"""Runs whole `stoker` commands as processes, started quickly, with failpoints set.

Starting Python costs more than a small sync. So one process imports the command once and waits. For each call
it forks, and the child runs the command with its own arguments, output and exit code; it can be killed like
any process. This does not cover the start-up of a command; `python -m stoker_testkit.faults.failpoints` runs
a command with failpoints from the start.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker_testkit.faults.failpoints import FailpointAction, arm
from stoker_testkit.secret_leaks.captured_output import keep

# Imported by name: the command line is in a higher layer than this module.
_USED = (
    *("cli.main", "cli.commands"),
    *(f"cli.sync.{name}" for name in ("sync", "plan", "sync_request", "sync_setup", "resources")),
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    """Negative: the number of the signal that ended it."""
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object that `--output=json` prints."""
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def changed(self) -> list[str]:
        """The changed paths according to its report."""
        return [path for key in ("added", "modified", "deleted") for path in self.document[key]]


class Commands:
    """Runs each command in a process of its own, one at a time."""

    def __init__(self, parent: subprocess.Popen[str], folder: Path) -> None:
        self._parent = parent
        self._out, self._err = folder / "out", folder / "err"

    @classmethod
    @contextmanager
    def ready(cls, *more: str) -> Iterator[Commands]:
        """Start the fork server; `more` modules are imported once, so that no command has to import them."""
        command = [sys.executable, "-m", __spec__.name, *more]
        with (
            tempfile.TemporaryDirectory(prefix="stoker-commands-") as folder,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent,
        ):
            yield cls(parent, Path(folder))
            if parent.stdin is not None:
                parent.stdin.close()

    def run(self, *arguments: str, failures: Sequence[str] = ()) -> CommandResult:
        if self._parent.stdin is None or self._parent.stdout is None:
            raise ValueError("the process that starts the others was started without pipes")
        self._parent.stdin.write(json.dumps([arguments, failures, str(self._out), str(self._err)]) + "\n")
        self._parent.stdin.flush()
        code = int(self._parent.stdout.readline())
        ended = CommandResult(
            code, self._out.read_text(encoding="utf-8"), self._err.read_text(encoding="utf-8")
        )
        keep("said", f"the output of {arguments[0]}", ended.out, ended.err)
        return ended


def _become(arguments: list[str], failures: list[str], out: str, err: str) -> int:
    """Run the command in the forked child; return its exit code."""
    for path, fd in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), fd)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    try:
        arm(*map(FailpointAction.parsed, failures))
        sys.argv = ["stoker", *arguments]
        importlib.import_module("stoker.cli.main").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    else:
        return 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    for name in (*_USED, *sys.argv[1:]):
        importlib.import_module(f"stoker.{name}")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(_become(*json.loads(line)))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
