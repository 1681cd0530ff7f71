"""Hands what one replica learned about authors to all the others.

The replica that the API server asks is seldom the one that holds the branch's Lease, so
each fact goes to every other replica (DECISIONS part 0, 14). They find each other by the
name of a headless Service, which needs no permission, and speak mutual TLS on a port of
their own. Who starts greets those it finds: then they know it before the name does, and
tell it what they learned in the last moments.

Telling never waits: each peer has a queue with a bound, sent in batches and tried again
until what it holds is too old to matter. A peer that is gone costs its queue until the
name forgets it. Facts that came from a peer are never handed on.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import aiohttp
import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue
from stoker.http_server.tls.mutual import MutualTls
from stoker.reverser.authors.attribution import AuthorAttribution
from stoker.reverser.authors.facts import MAX_GROUP_TEXT, MAX_GROUPS, MAX_NAME_LENGTH, AuthorFact
from stoker.reverser.authors.replica_link import BATCH, MAX_WAITING, PendingFact, ReplicaAddress, ReplicaLink
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import MetricReading, Metrics

PORT = 9444

RESOLVE_SECONDS = 3.0
MAX_PEERS = 32
MAX_BODY = 2 << 20
RECENT_SECONDS = 30.0
"""How far back a replica that has just started is told."""
PEER_TTL_SECONDS = 120.0
"""How long a greeting counts while the name does not lead there."""
_MAX_ID_LENGTH = 256

log = get_logger(__name__)


class FactBatch(msgspec.Struct):
    """What one replica sends to another."""

    instance: str
    address: str = ""
    facts: list[AuthorFact] = []


class _HeardReplica(NamedTuple):
    """When a replica has spoken last, and which one it was."""

    since: float
    instance: str


PeerResolver = Callable[[], Awaitable[Iterable[ReplicaAddress]]]

_BATCH = msgspec.json.Decoder(FactBatch)


def peer_resolver(names: Sequence[str], port: int) -> PeerResolver:
    """Looks names up: of a headless Service, or of single hosts; each may carry a port of its own."""

    async def resolve() -> list[ReplicaAddress]:
        loop = asyncio.get_running_loop()
        found: list[ReplicaAddress] = []
        for name in names:
            host, _, own = name.rpartition(":") if name.count(":") == 1 else (name, "", "")
            for *_, address in await loop.getaddrinfo(host, int(own or port), type=socket.SOCK_STREAM):
                found.append(ReplicaAddress(str(address[0]), int(address[1])))
        return found

    return resolve


class ReplicaPeers:
    """All other replicas. `tell` from the one event loop that also runs `run`."""

    def __init__(
        self,
        authors: AuthorAttribution,
        mutual: MutualTls,
        resolve: PeerResolver,
        *,
        instance: str,
        address: str = "",
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._authors = authors
        self._mutual = mutual
        self._resolve = resolve
        self._instance = instance
        self._address = address
        self._clock = clock or SystemClock()
        self._links: dict[ReplicaAddress, ReplicaLink] = {}
        self._tasks: dict[ReplicaAddress, asyncio.Task[None]] = {}
        self._heard: dict[ReplicaAddress, _HeardReplica] = {}
        self._named: frozenset[ReplicaAddress] = frozenset()
        self._recent: deque[PendingFact] = deque(maxlen=MAX_WAITING)
        self._look = asyncio.Event()
        self._unnamed = ""
        self.counts: Counter[str] = Counter(dict.fromkeys(("sent", "late", "overflow", "received"), 0))
        if metrics is not None:
            metrics.collect_from(self._readings)

    @property
    def reached(self) -> tuple[ReplicaAddress, ...]:
        """The peers that have answered last."""
        return tuple(peer for peer, link in self._links.items() if link.reached)

    def tell(self, fact: AuthorFact) -> None:
        """Hand a fact to every peer, sooner or later or, if it cannot be reached, never."""
        waiting = PendingFact(self._clock.monotonic(), msgspec.json.encode(fact, enc_hook=str))
        self._recent.append(waiting)
        for link in self._links.values():
            link.tell(waiting)

    async def heard(self, body: bytes) -> bytes:
        """The answer to a batch of a peer."""
        batch = read_batch(body)
        now = self._clock.monotonic()
        for fact in filter(_is_within_limits, batch.facts[:BATCH]):
            self._authors.learn(fact, now)
            self.counts["received"] += 1
        peer = ReplicaAddress.of(batch.address)
        if peer is not None and batch.instance != self._instance:
            self._greeted(peer, batch.instance, now)
        return msgspec.json.encode({"instance": self._instance})

    def _greeted(self, peer: ReplicaAddress, instance: str, now: float) -> None:
        before = self._heard.get(peer)
        self._heard[peer] = _HeardReplica(now, instance)
        link = self._links.get(peer)
        if link is None:
            self._look.set()
        elif before is None or before.instance != instance:
            self._remind(link, now)  # it has started anew where another was
            link.nudge()

    def _remind(self, link: ReplicaLink, now: float) -> None:
        for waiting in self._recent:
            if now - waiting.since <= RECENT_SECONDS:
                link.tell(waiting)

    async def run(self) -> None:
        """Keep up with who the others are until cancelled."""
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=0)
        try:
            async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
                try:
                    while True:
                        await self._name()
                        self._follow(session)
                        await self._rest()
                finally:
                    await _cancel_tasks(self._tasks.values())
        finally:
            self._links.clear()
            self._tasks.clear()

    async def _name(self) -> None:
        try:
            self._named = frozenset(await self._resolve())
            self._unnamed = ""
        except OSError as error:
            # A name that leads nowhere for a moment does not part those who know each other.
            if str(error) != self._unnamed:
                self._unnamed = str(error)
                log.warning("peers.unnamed", error=str(error))

    def _follow(self, session: aiohttp.ClientSession) -> None:
        now = self._clock.monotonic()
        self._heard = {
            peer: heard for peer, heard in self._heard.items() if now - heard.since <= PEER_TTL_SECONDS
        }
        wanted = list(dict.fromkeys((*sorted(self._named), *self._heard)))[:MAX_PEERS]
        for task in self._tasks.values():
            if task.done() and (error := task.exception()) is not None:
                raise error
        for gone in self._links.keys() - set(wanted):
            self._tasks.pop(gone).cancel()
            del self._links[gone]
            log.info("peer.gone", peer=str(gone))
        for new in (peer for peer in wanted if peer not in self._links):
            link = self._links[new] = ReplicaLink(new, self._mutual, self._clock, self.counts)
            self._remind(link, now)
            self._tasks[new] = asyncio.create_task(
                link.run(session, self._instance, self._address), name=f"peer {new}"
            )

    async def _rest(self) -> None:
        waiting = asyncio.ensure_future(self._look.wait())
        pause = asyncio.ensure_future(self._clock.sleep(RESOLVE_SECONDS))
        try:
            await asyncio.wait((waiting, pause), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            pause.cancel()
        self._look.clear()

    def _readings(self) -> Iterable[MetricReading]:
        for result, count in self.counts.items():
            yield MetricReading(
                "author_facts_total",
                "Facts about authors between replicas: sent, received, or given up because late or too many.",
                count,
                {"result": result},
                counter=True,
            )
        waiting = sum(len(link) for link in self._links.values())
        yield MetricReading("author_facts_waiting", "Facts that peers have not got yet.", waiting)
        yield MetricReading("author_peers", "Replicas that have answered last.", len(self.reached))


def read_batch(body: bytes) -> FactBatch:
    """What a peer sent; raises `InvalidValue` for anything else."""
    try:
        return _BATCH.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidValue("the body is no batch of facts") from None


def _is_within_limits(fact: AuthorFact) -> bool:
    """Whether a fact is of the size that a replica makes them."""
    short = (fact.uid, fact.before, fact.blob, *fact.kind)
    return (
        0 < len(fact.user.name) <= MAX_NAME_LENGTH
        and len(fact.user.uid) <= MAX_NAME_LENGTH
        and len(fact.user.groups) <= MAX_GROUPS
        and sum(map(len, fact.user.groups)) <= MAX_GROUP_TEXT
        and all(len(each) <= _MAX_ID_LENGTH for each in short)
    )


async def _cancel_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
