"""Memory that a large pass needed, given back to the system.

A first sync touches ten thousand objects; what it frees stays with the process for
ever unless the allocator is told. An agent rests for weeks after a second's work, and
there is one beside every gateway.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

LARGE = 500
"""Files that a pass must have changed to be worth it."""


def give_back() -> None:
    """Collect what nobody needs and return whole pages; where the C library cannot, nothing happens."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
