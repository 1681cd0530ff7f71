"""Returns the memory of a large sync to the system.

An agent runs beside every gateway and rests for weeks after a second of work. A first sync creates some
hundred thousand objects. Python returns memory in megabyte blocks, and only if a block is entirely unused. So
long-lived objects (modules, threads) are created before the first sync, and the ledger, which is created
during it, is dropped afterwards and read again: 59 MB instead of 66 MB after ten thousand files. Skipping
data that libraries load at import and the agent does not use saves another 3 MB.
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
"""Changed files from which dropping and reading the ledger again is worthwhile."""
SOON = 3.0

_SYNC_MODULES = (
    "stoker.engine.transform.json_check",
    "stoker.ignition.sync.gateway_hook",
    "stoker.ignition.content.noise",
)
_LEAN_IMPORT_ENVIRONMENT = {
    # aiohttp loads the system's CA certificates at import; the agent's connections use their own.
    "SSL_CERT_FILE": os.devnull,
    # frozenlist's extension would load the whole C++ runtime library for a list of a few signals.
    "FROZENLIST_NO_EXTENSIONS": "1",
}


def import_aiohttp_lean() -> None:
    """Import aiohttp without data that the agent does not use; call it before any other import of aiohttp.

    Callers that need a CA certificate name it themselves.
    """
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
    """Create long-lived objects before the short-lived objects of the first sync."""
    for name in _SYNC_MODULES:
        import_module(name)
    await run_in_thread(lambda _: None)
    gc.collect()


class MemoryTrimmer:
    """Trims memory once after a delay, however many syncs ran meanwhile."""

    def __init__(self) -> None:
        self._pending = False
        self._forget: Callable[[], None] | None = None

    def soon(self, forget: Callable[[], None] | None = None) -> None:
        """Trim memory after `SOON` seconds, when the report of the sync has been published and freed."""
        self._forget = forget or self._forget
        if not self._pending:
            self._pending = True
            asyncio.get_running_loop().call_later(SOON, self._give_back)

    def _give_back(self) -> None:
        """Collect garbage and return whole pages; does nothing if the C library cannot."""
        forget, self._forget, self._pending = self._forget, None, False
        if forget is not None:
            forget()
        gc.collect()
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
