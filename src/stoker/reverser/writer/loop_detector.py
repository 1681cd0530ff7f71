"""Detect sync loops: a file that changes from A to B and back to A, twice, within a short time.

This happens when one process applies git to the cluster while another process or person changes the cluster.
The file's path is held: it is not written until it has been quiet for a whole window, and all other paths
continue. Pure bookkeeping: callers pass in the time, and the number of remembered paths is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

WINDOW = 60.0
MAX_PATHS = 10_000
# States A, other, A, other, A.
_TELLING = 5


class _PathState(NamedTuple):
    state: str
    at: float


class LoopDetector:
    """Remembers the last states of changing paths."""

    def __init__(self, window: float = WINDOW, most: int = MAX_PATHS) -> None:
        self._window = window
        self._most = most
        self._steps: OrderedDict[str, tuple[_PathState, ...]] = OrderedDict()
        self._held: dict[str, float] = {}

    @property
    def held(self) -> tuple[str, ...]:
        """The paths that are not written until their loop ends."""
        return tuple(self._held)

    def goes_on(self, path: str, known: str, now: str, at: float) -> bool:
        """Record a change of state; return whether its path is in a loop."""
        steps = self._steps.pop(path, ())
        if not steps or (steps[-1].state != known and path not in self._held):
            steps = (_PathState(known, at),)
        steps = (*steps, _PathState(now, at))[-_TELLING:]
        self._steps[path] = steps
        if len(self._steps) > self._most:
            self._steps.popitem(last=False)
        if path in self._held or self._is_loop(steps):
            self._held[path] = at + self._window
            return True
        return False

    def calmed(self, at: float) -> tuple[str, ...]:
        """Release and return the paths that have been quiet for a whole window."""
        quiet = tuple(path for path, until in self._held.items() if until <= at)
        for path in quiet:
            del self._held[path]
            self._steps.pop(path, None)
        return quiet

    def next_calm(self) -> float | None:
        """Return when the next held path may be released."""
        return min(self._held.values(), default=None)

    def _is_loop(self, steps: tuple[_PathState, ...]) -> bool:
        if len(steps) < _TELLING or steps[-1].at - steps[0].at > self._window:
            return False
        first, _, third, _, last = (step.state for step in steps)
        return first == third == last
