"""Observations of the resources of a data folder, and their errors.

Each time a resource looks different from before, it goes on record. `resource.json` is
read first and the data after it, so if data is always in place before the `resource.json`
that announces it, no look can find the data of an older version beside a newer one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker_testkit.gateway.resource_reader import MANIFEST, LoadedResource

Version = Mapping[str, bytes]
"""One state of the data folder: the content of each file by its path."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A resource as it was seen in one moment."""

    resource: str
    seen: LoadedResource


class ObservationLog:
    """The record; `sightings` may be read while it grows."""

    def __init__(self) -> None:
        self.sightings: list[Observation] = []
        self._last: dict[str, LoadedResource] = {}

    def put_down(self, resource: str, seen: LoadedResource) -> None:
        if self._last.get(resource) != seen:
            self._last[resource] = seen
            self.sightings.append(Observation(resource, seen))

    def torn(self) -> list[str]:
        """The files that were seen empty, half or missing, each as a path."""
        return [f"{one.resource}/{name}" for one in list(self.sightings) for name in one.seen.torn]

    def unknown(self, history: Sequence[Version]) -> list[str]:
        """The files that were seen with a content that no version has: half-written, of whatever kind.

        `history` is every state that the folder was brought to, in that order.
        """
        known = [{(path, _digest(content)) for path, content in version.items()} for version in history]
        every = set().union(*known)
        seen = {
            (f"{one.resource}/{name}", digest)
            for one in list(self.sightings)
            for name, digest in one.seen.files.items()
        }
        return sorted({path for path, _ in seen - every})

    def out_of_order(self, history: Sequence[Version]) -> list[str]:
        """The places where a `resource.json` was seen beside data that is older than itself."""
        digests = [{path: _digest(content) for path, content in version.items()} for version in history]
        return [
            f"{one.resource}/{name} was older than its {MANIFEST}"
            for one in list(self.sightings)
            for name, digest in one.seen.files.items()
            if _last(digests, f"{one.resource}/{name}", digest)
            < _first(digests, f"{one.resource}/{MANIFEST}", one.seen.manifest)
        ]


def _first(digests: Sequence[Mapping[str, str]], path: str, digest: str) -> int:
    """The first version in which the file was so; before all if it never was."""
    return next((at for at, version in enumerate(digests) if version.get(path) == digest), -1)


def _last(digests: Sequence[Mapping[str, str]], path: str, digest: str) -> int:
    """The last version in which the file was so; before all if it never was."""
    return max((at for at, version in enumerate(digests) if version.get(path) == digest), default=-1)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
