"""The names of snapshots and of their stored objects.

A snapshot is named `{gateway}-{YYYYMMDD-HHMMSS}`, in UTC; a second snapshot within the same second gets
`-2`. Its objects are `{id}.manifest` and `{id}.pack`; `{id}.pack.bad` marks a damaged pack. An object with
any other name is foreign and is never touched.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable

MAX_NAME = 150

MANIFEST = ".manifest"
PACK = ".pack"
CORRUPT_SUFFIX = ".bad"
PART = ".part"
"""Suffix of an object that is still being written."""

_ID = re.compile(
    rf"(?P<name>.{{1,{MAX_NAME}}})-(?P<stamp>\d{{8}}-\d{{6}})(-(?P<turn>[1-9]\d{{0,5}}))?", re.ASCII
)
_OBJECT = re.compile(r"(?P<id>.+?)(\.manifest|\.pack|\.pack\.bad)(\.part)?", re.ASCII)
_SAFE = re.compile(r"[A-Za-z0-9_][-._A-Za-z0-9]*", re.ASCII)


def safe_name(gateway: str) -> str:
    """Return a gateway's name as a safe folder name; different names stay different."""
    safe = re.sub(r"[^-._A-Za-z0-9]|^[.-]", "_", gateway) or "_"
    if safe == gateway and len(gateway) <= MAX_NAME:
        return gateway
    tail = "-" + hashlib.sha256(gateway.encode(errors="surrogatepass")).hexdigest()[:8]
    return safe[: MAX_NAME - len(tail)] + tail


def is_snapshot_id(text: str) -> bool:
    """Whether the text is a valid snapshot id, which cannot cause a path traversal."""
    match = _ID.fullmatch(text)
    return match is not None and _SAFE.fullmatch(match["name"]) is not None


def belongs_to(gateway: str, snapshot_id: str) -> bool:
    match = _ID.fullmatch(snapshot_id)
    return match is not None and match["name"] == safe_name(gateway)


def snapshot_order(snapshot_id: str) -> tuple[str, int]:
    """Return the sort key of a snapshot of a gateway; a later snapshot has a greater key."""
    match = _ID.fullmatch(snapshot_id)
    return ("", 0) if match is None else (match["stamp"], int(match["turn"] or 1))


def next_id(gateway: str, now: float, taken: Iterable[str]) -> str:
    """Return the id of a new snapshot; it sorts after all others, even if the clock went back."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    turn = 1
    last, last_turn = max(map(snapshot_order, taken), default=("", 0))
    if last >= stamp:
        stamp, turn = last, last_turn + 1
    return f"{safe_name(gateway)}-{stamp}" + (f"-{turn}" if turn > 1 else "")


def snapshot_id_of(name: str) -> str:
    """Return the snapshot id in an object's name; empty for a foreign object."""
    match = _OBJECT.fullmatch(name)
    return match["id"] if match is not None and is_snapshot_id(match["id"]) else ""
