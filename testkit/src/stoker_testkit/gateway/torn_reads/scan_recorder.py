"""Remembers every resource that a scan read wrong, for good: what the torn-file rule forbids.

A gateway that read half a resource may be cured by the next `resource.json`; the
evidence stays. Three things are evidence, and a writer that puts each file into place
whole, data first and `resource.json` last, can cause none of them:

- a file that was whole is empty, half or missing under the same `resource.json`;
- a resource that was read half is whole at a later look;
- a `resource.json` that never matched its data is there, unchanged, when data that
  its signature fits arrives: it was in place before its data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stoker_testkit.gateway.resource_reader import LoadedResource, ResourceReading
from stoker_testkit.gateway.resource_signature import claimed, signature
from stoker_testkit.gateway.torn_reads.observations import ObservationLog


class TornReadKind(StrEnum):
    HALF = "was read half-written"
    EARLY = "had its resource.json before its data"


@dataclass(frozen=True, slots=True)
class TornRead:
    """A resource that a scan read wrong."""

    resource: str
    how: TornReadKind
    files: tuple[str, ...] = ()


@dataclass(slots=True)
class _SignedClaim:
    """A signed `resource.json` whose data was not there when it was first seen."""

    manifest_data: Mapping[str, object]
    manifests: set[str] = field(default_factory=set)
    """Its digest, and that of what the gateway itself made of it."""


class ScanRecorder(ObservationLog):
    """Receives every reading of every scan; survives the gateway's restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.mishaps: list[TornRead] = []
        self._claims: dict[str, _SignedClaim] = {}
        self._fitted: set[tuple[str, str]] = set()

    def saw(self, resource: str, reading: ResourceReading) -> None:
        """A scan read it so."""
        before, now = self._last.get(resource), reading.loaded
        if now.torn and before is not None and not before.torn and before.manifest == now.manifest:
            self._catch(TornRead(resource, TornReadKind.HALF, now.torn))
        self._judge(resource, reading)
        if reading.fits:
            self._fitted.add((resource, now.manifest))
        elif reading.claims and resource not in self._claims and (resource, now.manifest) not in self._fitted:
            self._claims[resource] = _SignedClaim(reading.manifest_data, {now.manifest})
        self.put_down(resource, now)

    def rewrote(self, resource: str, loaded: LoadedResource) -> None:
        """The gateway put a `resource.json` of its own in place of what it just read."""
        self._fitted.add((resource, loaded.manifest))
        if resource in self._claims:
            self._claims[resource].manifests.add(loaded.manifest)
        self.put_down(resource, loaded)

    def stale(self, look: Callable[[str], ResourceReading | None]) -> list[str]:
        """All resources that were ever read wrong; those that may be are looked at once more."""
        suspects = {name for name, last in self._last.items() if last.torn} | self._claims.keys()
        for resource in suspects:
            reading = look(resource)
            if reading is not None:
                self._judge(resource, reading)
        return sorted({mishap.resource for mishap in self.mishaps})

    def _judge(self, resource: str, reading: ResourceReading) -> None:
        """Check earlier readings against a later one."""
        before = self._last.get(resource)
        if before is not None and before.torn and not reading.loaded.torn:
            self._catch(TornRead(resource, TornReadKind.HALF, before.torn))
        claim = self._claims.get(resource)
        if claim is None:
            return
        if reading.loaded.manifest not in claim.manifests:
            del self._claims[resource]
        elif signature(claim.manifest_data, reading.contents) == claimed(claim.manifest_data):
            self._catch(TornRead(resource, TornReadKind.EARLY))
            del self._claims[resource]

    def _catch(self, mishap: TornRead) -> None:
        if mishap not in self.mishaps:
            self.mishaps.append(mishap)
