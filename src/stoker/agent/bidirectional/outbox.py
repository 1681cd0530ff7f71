"""The outbox: cuts a change set to size and sends it through ConfigMaps, whole or not at all.

The controller creates eight ConfigMaps for all gateways of a resource and empties them; each holds at most 1
MiB. `pack_changes` keeps the files of one folder together if possible, so that no resource arrives in half;
the rest goes with the next change set, and a file that does not fit even alone is refused by name. It has no
I/O and runs in a worker thread, because compressing takes time.

`OutboxSender` places each chunk of a change set in a ConfigMap with enough room. It writes by server-side
apply with a separate field manager, so that the report's keys and those of other gateways are never touched.
The controller accepts a change set only when all its chunks are present. If a chunk finds no room, the
earlier chunks are removed and the change set waits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import msgspec

from stoker.agent.config_maps import ConfigMapKeys, changes_manager
from stoker.agent.identity import AgentIdentity
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue, Retry, Stalled, StokerError
from stoker.domain.protocol import CHANGE_MAPS, ChangedFile, ChangeSet, changes_map_name
from stoker.domain.protocol.change_set_codec import (
    MAX_LINE,
    MAX_SET_FILES,
    MAX_UNPACKED,
    ChangeSetChunk,
    chunk_key,
    encode,
    is_complete,
    unpacked_size,
)
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import Invalid, NotFound
from stoker.kube.client.resources import CONFIG_MAPS

T = TypeVar("T")

MAP_BYTES = 1 << 20
"""The API server's limit for a ConfigMap."""
SEND_SECONDS = 60.0


class ChangeTooLarge(Stalled):
    """A single file is larger than a change set can be."""

    default_reason = Reason.CHANGE_REFUSED

    def __init__(self, path: str) -> None:
        super().__init__(
            f"is larger than a change set may be: {MAX_UNPACKED >> 20} MiB, and compressed what "
            f"{CHANGE_MAPS} ConfigMaps hold"
        )
        self.path = path


def pack_changes(changes: ChangeSet) -> tuple[ChangeSet, tuple[bytes, ...]]:
    """Return as many whole folders as fit, or as many files of the first folder, with their chunks."""
    pieces = [tuple(some) for _, some in groupby(changes.files, key=_folder)]
    while pieces:
        now = replace(changes, files=tuple(one for some in pieces for one in some))
        chunks = _encode_within_limit(now)
        if chunks is not None:
            return now, chunks
        if len(now.files) == 1:
            raise ChangeTooLarge(now.files[0].path)
        if len(pieces) == 1:
            pieces = [(one,) for one in pieces[0]]
        pieces = pieces[: len(pieces) // 2]
    return changes, ()


def _encode_within_limit(changes: ChangeSet) -> tuple[bytes, ...] | None:
    if not _fits_in_outbox(changes.files):
        return None
    try:
        return encode(changes)
    except InvalidValue:
        return None


def _folder(one: ChangedFile) -> str:
    return one.path.rpartition("/")[0]


def _fits_in_outbox(files: Sequence[ChangedFile]) -> bool:
    return len(files) <= MAX_SET_FILES and unpacked_size(files) + MAX_LINE <= MAX_UNPACKED


class _OutboxMap(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a ConfigMap that show how full it is, and of which keys."""

    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None

    @property
    def used(self) -> int:
        texts = sum(len(text.encode()) for text in (self.data or {}).values())
        return texts + sum(map(len, (self.binary_data or {}).values()))


class OutboxFull(Retry):
    """All outbox ConfigMaps are full, or the controller has not created them yet."""

    default_reason = Reason.CHANGE_PENDING


class OutboxSender:
    """Sends the change sets of one pod's agent."""

    def __init__(self, client: KubeClient, identity: AgentIdentity, clock: Clock) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._keys = ConfigMapKeys(client, identity.namespace, changes_manager(identity.pod))

    async def send(self, key: str, set_id: str, chunks: Sequence[bytes]) -> None:
        """Store all chunks of a change set; on an error none remain, as far as the API server answers."""
        await self._in_time(self._send(key, set_id, chunks))

    async def is_there(self, key: str, set_id: str) -> bool:
        """Return whether the whole change set still waits for the controller."""
        return await self._in_time(self._is_there(key, set_id))

    async def _send(self, key: str, set_id: str, chunks: Sequence[bytes]) -> None:
        maps = await self._maps()
        await self._clear(key, set_id, maps)
        room = {name: MAP_BYTES - found.used for name, found in maps.items()}
        placed: dict[str, dict[str, bytes]] = {}
        waiting = [(chunk_key(key, set_id, number), chunk) for number, chunk in enumerate(chunks)]
        full: set[str] = set()
        try:
            while waiting:
                where = _assign_chunks(waiting, room, full)
                waiting = []
                for name, some in where.items():
                    whole = {**placed.get(name, {}), **some}
                    try:
                        await self._put(name, whole)
                    except (Invalid, NotFound):  # another agent took the room, or the ConfigMap was deleted
                        full.add(name)
                        waiting += some.items()
                    else:
                        placed[name] = whole
                        room[name] -= sum(map(len, some.values()))
        except StokerError:
            for name in placed:
                await self._put(name, {})
            raise

    async def _is_there(self, key: str, set_id: str) -> bool:
        mine = re.compile(re.escape(chunk_key(key, set_id, 0)).removesuffix("0") + r"\d+")
        chunks = [
            raw
            for found in (await self._maps()).values()
            for name, raw in (found.binary_data or {}).items()
            if mine.fullmatch(name)
        ]
        try:
            return is_complete(map(ChangeSetChunk.parse, chunks))
        except InvalidValue:
            return False

    async def _clear(self, key: str, set_id: str, maps: dict[str, _OutboxMap]) -> None:
        """Remove chunks of earlier change sets of this gateway: this agent no longer waits for a reply."""
        mine = re.compile(re.escape(key) + r"\.(\d{8}-\d{6}(?:-\d{1,4})?)\.\d+")
        for name, found in maps.items():
            hits = (mine.fullmatch(one) for one in found.binary_data or {})
            left = {hit[0]: None for hit in hits if hit is not None and hit[1] != set_id}
            if left:
                body = {"binaryData": left}
                maps[name] = await self._client.patch(
                    CONFIG_MAPS, body, name, self._identity.namespace, into=_OutboxMap
                )

    async def _maps(self) -> dict[str, _OutboxMap]:
        """Return the existing outbox ConfigMaps."""
        found: dict[str, _OutboxMap] = {}
        for number in range(CHANGE_MAPS):
            name = changes_map_name(self._identity.door, self._identity.resource, number)
            try:
                found[name] = await self._client.get(
                    CONFIG_MAPS, name, self._identity.namespace, into=_OutboxMap
                )
            except NotFound:
                continue
        return found

    async def _put(self, name: str, chunks: Mapping[str, bytes]) -> None:
        keys = {key: base64.b64encode(chunk).decode() for key, chunk in chunks.items()}
        await self._keys.apply(name, "binaryData", keys)

    async def _in_time(self, work: Awaitable[T]) -> T:
        try:
            async with deadline(self._clock, SEND_SECONDS):
                return await work
        except TimeoutError:
            raise Retry(
                f"the API server did not answer within {SEND_SECONDS:g} s", reason=Reason.UNREACHABLE
            ) from None


def _assign_chunks(
    chunks: Sequence[tuple[str, bytes]], room: Mapping[str, int], full: set[str]
) -> dict[str, dict[str, bytes]]:
    """Assign each chunk to the first ConfigMap with enough room; raise if there is none."""
    left = {name: free for name, free in room.items() if name not in full}
    where: dict[str, dict[str, bytes]] = {}
    for key, chunk in chunks:
        name = next((name for name, free in left.items() if free >= len(chunk)), None)
        if name is None:
            raise OutboxFull(
                "the ConfigMaps for changes are full with changes of other gateways"
                if room
                else "the controller has not created the ConfigMaps for changes yet"
            )
        where.setdefault(name, {})[key] = chunk
        left[name] -= len(chunk)
    return where
