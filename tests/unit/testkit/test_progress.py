"""Progress lines of a slow step."""

from __future__ import annotations

import io
import re

from stoker_testkit.progress import PIPE_SECONDS, TERMINAL_SECONDS, TerminalProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_whole_lines_now_and_then() -> None:
    pipe = io.StringIO()
    progress = TerminalProgress("[1/4] building etcd", pipe)
    progress.tick()
    progress.done()
    assert progress.interval == PIPE_SECONDS
    assert (
        pipe.getvalue()
        == "[1/4] building etcd…\n[1/4] building etcd… 0 s\n[1/4] building etcd: done in 0 s\n"
    )


def test_a_terminal_gets_one_line_that_is_rewritten() -> None:
    terminal = Terminal()
    progress = TerminalProgress("building", terminal)
    progress.tick()
    progress.failed()
    assert progress.interval == TERMINAL_SECONDS <= 10
    assert terminal.getvalue().count("\n") == 1
    assert re.split(r"\r\x1b\[K", terminal.getvalue()) == [
        "",
        "building…",
        "building… 0 s",
        "building: failed after 0 s\n",
    ]
