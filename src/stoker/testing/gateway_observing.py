"""A reader that never looks away: a thread that reads all resources again and again.

It is the witness of "nothing half-written is ever visible": each time a resource
looks different from before, what was seen goes on record. It reads `resource.json`
first and the data after it, so if data is always in place before the `resource.json`
that announces it, no look can find the data of an older version beside a newer one.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.testing.gateway_loading import MANIFEST, LoadedResource, read_resource, resource_folders

PAUSE = 0.002
"""Seconds between two rounds: what is watched needs some of the processor, too."""

Version = Mapping[str, bytes]
"""One state of the data folder: the content of each file by its path."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A resource as it was seen in one moment."""

    resource: str
    seen: LoadedResource


class Observer:
    """Looks until it is stopped; `sightings` may be read meanwhile."""

    def __init__(self, data_dir: Path, roots: Sequence[str] = ("projects", "config")) -> None:
        self.sightings: list[Sighting] = []
        self.rounds = 0
        self._data_dir = data_dir
        self._roots = roots
        self._last: dict[str, LoadedResource] = {}
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="gateway-observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it; raises what made it blind, because a witness that saw nothing proves nothing."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def torn(self) -> list[str]:
        """The files that were seen empty, half or missing, each as a path."""
        return [f"{one.resource}/{name}" for one in list(self.sightings) for name in one.seen.torn]

    def out_of_order(self, history: Sequence[Version]) -> list[str]:
        """Where a `resource.json` was seen beside data that is older than itself.

        `history` is every state that the folder was brought to, in that order.
        """
        digests = [{path: _digest(content) for path, content in version.items()} for version in history]
        return [
            f"{one.resource}/{name} was older than its {MANIFEST}"
            for one in list(self.sightings)
            for name, digest in one.seen.files.items()
            if _last(digests, f"{one.resource}/{name}", digest)
            < _first(digests, f"{one.resource}/{MANIFEST}", one.seen.manifest)
        ]

    def _watch(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                self.look()
        except OSError as error:
            self._failure = error

    def look(self) -> None:
        """One round over all resources."""
        for root in self._roots:
            for folder in resource_folders(self._data_dir / root):
                seen = read_resource(folder)
                name = str(folder.relative_to(self._data_dir))
                if seen is not None and self._last.get(name) != seen:
                    self._last[name] = seen
                    self.sightings.append(Sighting(name, seen))
        self.rounds += 1


def _first(digests: Sequence[Mapping[str, str]], path: str, digest: str) -> int:
    """The first version in which the file was so; before all if it never was."""
    return next((at for at, version in enumerate(digests) if version.get(path) == digest), -1)


def _last(digests: Sequence[Mapping[str, str]], path: str, digest: str) -> int:
    """The last version in which the file was so; before all if it never was."""
    return max((at for at, version in enumerate(digests) if version.get(path) == digest), default=-1)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
