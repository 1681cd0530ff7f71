"""A progress bar for a person who waits; nothing in a pipe, nothing for what is done at once.

The keeper tells from a worker thread how far it is. The bar appears on standard
error after half a second, and the library that draws it is loaded only then.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PATIENCE = 0.5


class ProgressBar:
    """Callable as `bar(step, done, total)`; a total of 0 is one that nobody knows."""

    def __init__(self, *, wanted: bool | None = None, patience: float = PATIENCE) -> None:
        self._wanted = sys.stderr.isatty() if wanted is None else wanted
        self._begun = time.monotonic()
        self._patience = patience
        self._bar: Bar | None = None
        self._steps: dict[str, TaskID] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        if not self._wanted or time.monotonic() - self._begun < self._patience:
            return
        bar = self._bar if self._bar is not None else self._shown()
        if step not in self._steps:
            self._steps[step] = bar.add_task(step, total=total or None)
        bar.update(self._steps[step], completed=done, total=total or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _shown(self) -> Bar:
        from rich.console import Console  # noqa: PLC0415 - a third of a second of CPU, for people only
        from rich.progress import Progress  # noqa: PLC0415

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._bar.start()
        return self._bar
