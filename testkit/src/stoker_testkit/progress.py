"""Shows a person at a terminal which slow step is running.

One line per step: on a terminal it counts the seconds in place; in a pipe it is repeated now and then, so
that a log shows that the work continues. Everything goes to standard error; standard output is for results.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

TERMINAL_SECONDS = 1.0
PIPE_SECONDS = 30.0


class TerminalProgress:
    """One running step: call `tick` every `interval` seconds, then `done` or `failed`."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._in_place = self._stream.isatty()
        self._begun = time.monotonic()
        self.interval = TERMINAL_SECONDS if self._in_place else PIPE_SECONDS
        self._say("…", last=False)

    def tick(self) -> None:
        self._say(f"… {self._elapsed()}", last=False)

    def done(self) -> None:
        self._say(f": done in {self._elapsed()}", last=True)

    def failed(self) -> None:
        self._say(f": failed after {self._elapsed()}", last=True)

    def _elapsed(self) -> str:
        minutes, seconds = divmod(round(time.monotonic() - self._begun), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

    def _say(self, text: str, *, last: bool) -> None:
        line = f"\r\033[K{self._what}{text}" if self._in_place else f"{self._what}{text}"
        self._stream.write(line + ("\n" if last or not self._in_place else ""))
        self._stream.flush()
