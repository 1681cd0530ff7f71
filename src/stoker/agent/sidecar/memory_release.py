"""Memory that a large pass needed, given back to the system.

There is an agent beside every gateway, and it rests for weeks after a second's work. A
first sync makes some hundred thousand objects; Python returns memory by the megabyte,
and only if nothing at all is left in it. So whatever stays (modules, threads) is made
before the first pass, and the ledger, which was made in the middle of it, is let go
of afterwards and read again: 59 MB in place of 66 after ten thousand files. What libraries
take at once for uses that are not ours is not given to them: another 3 MB.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from stoker.agent.sync.threads import run_in_thread

LARGE = 500
"""Files after whose change it is worth to read the ledger anew."""
SOON = 3.0

_SYNC_MODULES = (
    "stoker.engine.transform.json_check",
    "stoker.ignition.sync.gateway_hook",
    "stoker.ignition.content.noise",
)
_LEAN_IMPORT_ENVIRONMENT = {
    # aiohttp reads all authorities of the system when imported; our connections have their own contexts.
    "SSL_CERT_FILE": os.devnull,
    # A list of a few signals, for which the whole run-time library of C++ would be loaded.
    "FROZENLIST_NO_EXTENSIONS": "1",
}


def import_aiohttp_lean() -> None:
    """Before anything imports aiohttp, in a process that is to be small; who wants an authority names it."""
    before = {name: os.environ.get(name) for name in _LEAN_IMPORT_ENVIRONMENT}
    os.environ.update(_LEAN_IMPORT_ENVIRONMENT)
    try:
        import_module("aiohttp")
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


async def preload_modules() -> None:
    """Have everything that stays before anything that goes."""
    for name in _SYNC_MODULES:
        import_module(name)
    await run_in_thread(lambda _: None)
    gc.collect()


class MemoryTrimmer:
    """Gives back once after a while, however many passes there were meanwhile."""

    def __init__(self) -> None:
        self._pending = False
        self._forget: Callable[[], None] | None = None

    def soon(self, forget: Callable[[], None] | None = None) -> None:
        """In a moment, when the report of the pass has been told and let go of."""
        self._forget = forget or self._forget
        if not self._pending:
            self._pending = True
            asyncio.get_running_loop().call_later(SOON, self._give_back)

    def _give_back(self) -> None:
        """Collect what nobody needs and return whole pages; where the C library cannot, nothing happens."""
        forget, self._forget, self._pending = self._forget, None, False
        if forget is not None:
            forget()
        gc.collect()
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
