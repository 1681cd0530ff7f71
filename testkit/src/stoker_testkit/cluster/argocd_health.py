"""Argo CD's health of an object: the shipped script, run by a real Lua in Argo CD's narrow sandbox.

Argo CD runs Lua 5.1 without the libraries for text, files and processes; so does this.
It needs the package `lupa`, which only tests have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CLOSED = ("string", "io", "os", "debug", "package", "require", "dofile", "loadfile", "python", "math")


class ArgoHealth:
    """One script."""

    def __init__(self, script: str) -> None:
        from lupa import lua51  # noqa: PLC0415 - a dependency of tests alone

        self._lua: Any = lua51.LuaRuntime(unpack_returned_tuples=True, register_eval=False)
        for name in _CLOSED:
            self._lua.execute(f"{name} = nil")
        self._script = script

    def of(self, found: Mapping[str, Any]) -> tuple[str, str]:
        """Health status and message."""
        self._lua.globals().obj = self._table(found)
        health = self._lua.execute(self._script)
        return health["status"], health["message"]

    def _table(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._lua.table_from({key: self._table(one) for key, one in value.items()})
        if isinstance(value, list):
            return self._lua.table_from([self._table(one) for one in value])
        return value
