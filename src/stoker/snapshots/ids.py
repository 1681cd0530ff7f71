"""What snapshots and the objects of a storage are called.

`{gateway}-{YYYYMMDD-HHMMSS}` names a snapshot, in UTC; a second one within a second
gets `-2`. Its objects are `{id}.manifest` and `{id}.pack`; `{id}.pack.bad` says that
something in that pack is not what it was. A name that is none of these belongs to
somebody else and is left alone.
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
"""Behind the name of an object that is still being written."""

_ID = re.compile(
    rf"(?P<name>.{{1,{MAX_NAME}}})-(?P<stamp>\d{{8}}-\d{{6}})(-(?P<turn>[1-9]\d{{0,5}}))?", re.ASCII
)
_OBJECT = re.compile(r"(?P<id>.+?)(\.manifest|\.pack|\.pack\.bad)(\.part)?", re.ASCII)
_SAFE = re.compile(r"[A-Za-z0-9_][-._A-Za-z0-9]*", re.ASCII)


def safe_name(gateway: str) -> str:
    """A gateway's name as a folder can have it; another name never becomes the same one."""
    safe = re.sub(r"[^-._A-Za-z0-9]|^[.-]", "_", gateway) or "_"
    if safe == gateway and len(gateway) <= MAX_NAME:
        return gateway
    tail = "-" + hashlib.sha256(gateway.encode(errors="surrogatepass")).hexdigest()[:8]
    return safe[: MAX_NAME - len(tail)] + tail


def is_snapshot_id(text: str) -> bool:
    """Whether a snapshot could be called so; nothing that passes leads anywhere but to its own name."""
    match = _ID.fullmatch(text)
    return match is not None and _SAFE.fullmatch(match["name"]) is not None


def belongs_to(gateway: str, snapshot_id: str) -> bool:
    match = _ID.fullmatch(snapshot_id)
    return match is not None and match["name"] == safe_name(gateway)


def snapshot_order(snapshot_id: str) -> tuple[str, int]:
    """Greater for the later one of two snapshots of a gateway."""
    match = _ID.fullmatch(snapshot_id)
    return ("", 0) if match is None else (match["stamp"], int(match["turn"] or 1))


def next_id(gateway: str, now: float, taken: Iterable[str]) -> str:
    """The id of a snapshot of now: later than all others, even where the clock went back."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    turn = 1
    last, last_turn = max(map(snapshot_order, taken), default=("", 0))
    if last >= stamp:
        stamp, turn = last, last_turn + 1
    return f"{safe_name(gateway)}-{stamp}" + (f"-{turn}" if turn > 1 else "")


def snapshot_id_of(name: str) -> str:
    """The snapshot that an object belongs to; empty for what is none of ours."""
    match = _OBJECT.fullmatch(name)
    return match["id"] if match is not None and is_snapshot_id(match["id"]) else ""
