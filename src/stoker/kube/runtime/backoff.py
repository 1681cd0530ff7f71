"""Computes the delay after the n-th failure in a row.

The reflector uses it between requests to the API server, and the work queue between attempts at one key. The
delays double up to a ceiling, with random jitter, so that clients that failed together do not come back
together. It keeps no state: the caller counts the failures, because it knows what a success is. It must
never raise for any number of failures, because a loop that has failed for a week still needs a delay.
"""

from __future__ import annotations

import math
import random as chance
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of `base`, twice `base`, four times `base` … `ceiling` seconds.

    Jitter shortens each delay by up to that fraction and never lengthens it, so `ceiling` is never exceeded.
    """

    base: float = 0.5
    ceiling: float = 30.0
    jitter: float = 0.5
    random: Callable[[], float] = chance.random

    def __post_init__(self) -> None:
        if not 0.0 < self.base <= self.ceiling < math.inf:
            raise ValueError(f"a back-off from {self.base} s to {self.ceiling} s does not grow")
        if not 0.0 <= self.jitter <= 1.0:
            raise ValueError(f"a jitter of {self.jitter} is not a share of the pause")

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after `failures` failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        # Compare before computing: a thousand doublings overflow a float.
        if failures - 1 < math.log2(self.ceiling) - math.log2(self.base):
            pause = math.ldexp(self.base, failures - 1)
        else:
            pause = self.ceiling
        return pause * (1.0 - self.jitter * self.random())
