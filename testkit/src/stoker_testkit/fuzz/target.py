"""One parser of foreign bytes, what it may raise, and how much memory it may take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_testkit.memory_peak import peak_of

TIMES = 64
"""A dict for every three bytes of JSON is 30 times its text; twice that is no parser of ours."""


class PropertyBroken(AssertionError):
    """An input for which a parser does not keep its promise."""


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """A parser under test."""

    name: str
    parse: Callable[[bytes], object]
    raises: tuple[type[Exception], ...]
    """The documented errors: what the parser raises for input that it refuses."""
    seeds: Callable[[], Sequence[bytes]]
    """Valid inputs, made with the product's own writers where there are some."""
    largest: int = 64 << 10
    """Bytes of an input; longer ones are cut."""
    memory: int = 256 << 10
    """Bytes that one call may allocate whatever the input, and beyond that `TIMES` the size of the input."""

    def run(self, data: bytes) -> None:
        """Parse once; raises for an error that is not documented, with the input's own traceback."""
        try:
            self.parse(data[: self.largest])
        except self.raises:
            return

    def run_measured(self, data: bytes) -> None:
        """The same, and raises if it took more memory than it may."""
        peak = peak_of(lambda: self.run(data))
        if peak > self.memory + TIMES * len(data):
            raise PropertyBroken(f"{self.name}: {len(data)} bytes of input took {peak} bytes of memory")


@contextmanager
def file_with(data: bytes) -> Iterator[Path]:
    """A file in memory, for parsers that take a path."""
    descriptor = os.memfd_create("fuzz")
    try:
        os.write(descriptor, data)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def text_of(data: bytes) -> str:
    """As the API server and HTTP libraries hand it over: any text, no lone surrogates."""
    return data.decode(errors="replace")
