"""A progress bar for a person at a terminal; none in a pipe, and none for work that ends at once.

The sync reports its progress, also from a worker thread. The bar appears on standard error after half a
second, even if no progress was reported by then, because the longest wait is for a server. The library that
draws it is loaded only then.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PROGRESS_DELAY_SECONDS = 0.5


class ProgressBar:
    """Callable as `bar(step, done, total)`; a total of 0 means unknown."""

    def __init__(self, *, wanted: bool | None = None, patience: float = PROGRESS_DELAY_SECONDS) -> None:
        self._wanted = sys.stderr.isatty() if wanted is None else wanted
        self._now = ("", 0, 0)
        self._lock = threading.Lock()
        self._timer = threading.Timer(patience, self._appear)
        self._timer.daemon = True
        self._bar: Bar | None = None
        self._steps: dict[str, TaskID] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        if not self._wanted:
            return
        self._now = (step, done, total)
        if self._bar is not None:
            with self._lock:
                self._draw(self._bar)

    def __enter__(self) -> Self:
        if self._wanted:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._wanted = False
            if self._bar is not None:
                self._bar.stop()

    def _appear(self) -> None:
        _preload_logging()
        from rich.console import Console  # noqa: PLC0415 - a third of a second of CPU, for people only
        from rich.progress import Progress  # noqa: PLC0415

        with self._lock:
            if self._wanted:
                bar = Progress(console=Console(stderr=True), transient=True)
                bar.start()
                self._draw(bar)
                self._bar = bar

    def _draw(self, bar: Bar) -> None:
        step, done, total = self._now
        if not step:
            return
        if step not in self._steps:
            for before in self._steps.values():  # steps of unknown length are complete once the next begins
                bar.update(before, total=1, completed=1)
            self._steps[step] = bar.add_task(step, total=total or None)
        bar.update(self._steps[step], completed=done, total=total or None)


def _preload_logging() -> None:
    """Wait until that module is loaded, perhaps by another thread: it hides `rich` while it loads."""
    import stoker.telemetry.structlog_light  # noqa: F401, PLC0415
