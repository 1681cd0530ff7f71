"""Records which files of the product a process runs, and when. `walk` has every process of a story run it.

Each process appends a line per file and tenth of a second to a file of its own: a kill loses nothing.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType


def start(root: str, folder: str) -> None:
    seen: set[tuple[str, int]] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        """Note the file of a called function; module and class bodies are imports, not work."""
        code = frame.f_code
        if (
            event != "call"
            or not code.co_filename.startswith(root)
            or not code.co_flags & inspect.CO_OPTIMIZED
        ):
            return
        moment = int(time.time() * 10)
        if (key := (code.co_filename, moment)) not in seen:
            seen.add(key)
            line = f"{moment} {code.co_filename.removeprefix(root)}\n"
            with (Path(folder) / str(os.getpid())).open(
                "a"
            ) as lines:  # by its id: a forked child gets its own
                lines.write(line)

    sys.setprofile(record)
    threading.setprofile(record)
