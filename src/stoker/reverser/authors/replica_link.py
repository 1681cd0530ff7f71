"""The connection from one replica to another: a bounded queue, sent in batches.

`stoker.reverser.authors.fact_exchange` has one link per peer. One batch is in flight at a time; facts that
arrive meanwhile go with the next batch, so a quiet link sends at once and a busy link sends large batches. A
failed batch is put back and retried. A full queue drops its oldest facts first, and facts that are too old to
be needed are always dropped.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, deque
from typing import NamedTuple

import aiohttp
import msgspec

from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue
from stoker.http_server.tls.mutual import MutualTls
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import get_logger

PATH = "/facts"
BATCH = 500
MAX_BATCH_BYTES = 1 << 20
MAX_WAITING = 5000
MAX_WAITING_BYTES = 4 << 20
MAX_FACT_AGE_SECONDS = 60.0
SEND_SECONDS = 5.0
BACKOFF = Backoff(base=0.1, ceiling=5.0, jitter=0.3)

log = get_logger(__name__)


class ReplicaAddress(NamedTuple):
    """The address at which a replica receives facts."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, text: str) -> ReplicaAddress | None:
        """Parse the address that a peer reports of itself; None if it is no address."""
        host, _, port = text.rpartition(":")
        try:
            peer = cls(str(ipaddress.ip_address(host.strip("[]"))), int(port))
        except ValueError:
            return None
        return peer if 0 < peer.port < 65536 else None


class PendingFact(NamedTuple):
    """A fact that waits to be sent to a peer."""

    since: float
    data: bytes


class _SentFacts(msgspec.Struct):
    instance: str
    address: str
    facts: list[msgspec.Raw]


class _PeerAnswer(msgspec.Struct):
    instance: str


_ANSWER = msgspec.json.Decoder(_PeerAnswer)


class ReplicaLink:
    """Sends facts to one peer."""

    def __init__(self, peer: ReplicaAddress, mutual: MutualTls, clock: Clock, counts: Counter[str]) -> None:
        self._peer = peer
        self._mutual = mutual
        self._clock = clock
        self._counts = counts
        self._waiting: deque[PendingFact] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._nudged = asyncio.Event()
        self._is_self = False
        self.reached = False
        self.failures = 0
        """The number of consecutive failed requests."""

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, waiting: PendingFact) -> None:
        if self._is_self:
            return
        self._waiting.append(waiting)
        self._size += len(waiting.data)
        self._bound()
        self._wake.set()

    def nudge(self) -> None:
        """Retry at once, because the peer was heard from."""
        self._nudged.set()

    async def run(self, session: aiohttp.ClientSession, instance: str, address: str) -> None:
        """Greet the peer, then send facts as they come; return if the peer is this replica itself."""
        while not self._is_self:
            batch = self._next()
            if batch or not self.reached:
                facts = [msgspec.Raw(each.data) for each in batch]
                if await self._sent(session, _SentFacts(instance, address, facts)):
                    self._counts["sent"] += len(batch)
                    self.failures = 0
                    continue
                self._put_back(batch)
                self.failures += 1
                await self._pause(BACKOFF.delay(self.failures))
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _pause(self, seconds: float) -> None:
        self._nudged.clear()
        await wait_for_event(self._nudged, self._clock, seconds)

    def _next(self) -> list[PendingFact]:
        """Return the next batch, without facts that are too old to be needed."""
        now = self._clock.monotonic()
        batch: list[PendingFact] = []
        size = 0
        while self._waiting and len(batch) < BATCH:
            first = self._waiting[0]
            if now - first.since > MAX_FACT_AGE_SECONDS:
                self._drop("late")
                continue
            size += len(first.data)
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
            self._size -= len(first.data)
        return batch

    def _put_back(self, batch: list[PendingFact]) -> None:
        self._waiting.extendleft(reversed(batch))
        self._size += sum(len(each.data) for each in batch)
        self._bound()

    def _bound(self) -> None:
        while len(self._waiting) > MAX_WAITING or self._size > MAX_WAITING_BYTES:
            self._drop("overflow")

    def _drop(self, why: str) -> None:
        self._size -= len(self._waiting.popleft().data)
        self._counts[why] += 1

    async def _sent(self, session: aiohttp.ClientSession, sent: _SentFacts) -> bool:
        """Return whether the peer received the batch, or is this replica itself."""
        if self._mutual.client is None:
            return False
        try:
            async with session.post(
                f"https://{self._peer}{PATH}",
                data=msgspec.json.encode(sent),
                headers={"Content-Type": "application/json"},
                ssl=self._mutual.client,
                server_hostname=self._mutual.name,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=SEND_SECONDS),
            ) as answer:
                if answer.status != 200:
                    raise InvalidValue(f"it answers with status {answer.status}")
                told = _ANSWER.decode(await answer.content.read(4096))
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.MsgspecError, InvalidValue) as error:
            if self.reached:
                log.info("peer.unreached", peer=str(self._peer), error=str(error) or type(error).__name__)
            self.reached = False
            return False
        if told.instance == sent.instance:
            self._is_self = True
            self._waiting.clear()
            self._size = 0
            return True
        if not self.reached:
            log.info("peer.reached", peer=str(self._peer))
        self.reached = True
        return True
