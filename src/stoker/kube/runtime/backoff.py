"""How long to wait after the n-th failure in a row.

Used by the reflector between attempts to reach the API server and by the work
queue between attempts at one key. The pauses double up to a ceiling, and a part
of each is left to chance, so that what failed together does not come back
together. It keeps no state: who counts the failures is the one who knows what
a success is. It must never raise for any number of failures, because a loop
that has failed for a week still has to wait for something.
"""

from __future__ import annotations

import math
import random as chance
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses of `base`, twice `base`, four times `base` … `ceiling` seconds.

    Each is shortened by up to `jitter` of itself, and never lengthened, so that `ceiling` is a promise.
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
        """Seconds to wait after `failures` failures in a row; none after none."""
        if failures <= 0:
            return 0.0
        # Compared before it is computed: a thousand doublings no longer fit into a float.
        if failures - 1 < math.log2(self.ceiling) - math.log2(self.base):
            pause = math.ldexp(self.base, failures - 1)
        else:
            pause = self.ceiling
        return pause * (1.0 - self.jitter * self.random())
