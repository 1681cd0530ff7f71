"""Decodes the ConfigMap of the emergency stop, which the controller obeys, for the page. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.domain.clock import rfc3339, rfc3339_or


class EmergencyStopState(NamedTuple):
    """Whether the emergency stop is active, and since when."""

    active: bool
    since: str | None = None


NOT_STOPPED = EmergencyStopState(active=False)


class _StopManager(msgspec.Struct, frozen=True):
    time: str | None = None


class _StopMetadata(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: str | None = None
    managed_fields: tuple[_StopManager, ...] | None = None


class _StopBody(msgspec.Struct, frozen=True):
    metadata: _StopMetadata = _StopMetadata()
    data: dict[str, str] | None = None


_body = msgspec.json.Decoder(_StopBody)


def decode_emergency_stop(raw: bytes) -> EmergencyStopState:
    """Decode it as the controller does; `since` is the API server's time of the last write."""
    body = _body.decode(raw)
    if (body.data or {}).get("paused", "").strip() != "true":
        return NOT_STOPPED
    of = body.metadata
    times = [one.time for one in of.managed_fields or () if one.time]
    return EmergencyStopState(
        active=True, since=_latest_time([*times, *([of.creation_timestamp] if not times else [])])
    )


def _latest_time(times: list[str | None]) -> str | None:
    moments = [moment for text in times if (moment := rfc3339_or(text, None)) is not None]
    return rfc3339(max(moments)) if moments else None
