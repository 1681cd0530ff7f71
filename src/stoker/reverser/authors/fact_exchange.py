"""Send author facts from the replica that received them to all other replicas.

The replica that the API server calls is seldom the replica that holds the branch's Lease, so each fact goes
to every other replica. Replicas find each other by the name of a headless Service, which needs no permission,
and use mutual TLS on a port of their own. A starting replica greets the peers that it finds: they then know
it before DNS does, and send it their recent facts.

Sending never blocks: each peer has a bounded queue, sent in batches and retried until its facts are too old
to matter. A lost peer costs its queue until DNS drops its address. Facts from a peer are never forwarded.
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
from stoker.kube.client.deadlines import wait_for_first
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
"""Age of the oldest facts that a replica which has just started is sent."""
PEER_TTL_SECONDS = 120.0
"""How long a greeting counts while DNS does not return the peer's address."""
_MAX_ID_LENGTH = 256

log = get_logger(__name__)


class FactBatch(msgspec.Struct):
    """The facts that a replica sends to another in a request."""

    instance: str
    address: str = ""
    facts: list[AuthorFact] = []


class _HeardReplica(NamedTuple):
    """The time of a replica's last message, and its instance id."""

    since: float
    instance: str


PeerResolver = Callable[[], Awaitable[Iterable[ReplicaAddress]]]

_BATCH = msgspec.json.Decoder(FactBatch)


def peer_resolver(names: Sequence[str], port: int) -> PeerResolver:
    """Return a resolver for names of a headless Service or of hosts; each name may carry its own port."""

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
    """All other replicas. Call `tell` only in the event loop that runs `run`."""

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
        """The peers that answered the last request."""
        return tuple(peer for peer, link in self._links.items() if link.reached)

    def tell(self, fact: AuthorFact) -> None:
        """Queue a fact for every peer; a peer that cannot be reached in time does not get it."""
        waiting = PendingFact(self._clock.monotonic(), msgspec.json.encode(fact, enc_hook=str))
        self._recent.append(waiting)
        for link in self._links.values():
            link.tell(waiting)

    async def heard(self, body: bytes) -> bytes:
        """Handle a batch of a peer and return the answer."""
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
            self._remind(link, now)  # another instance has started at this address
            link.nudge()

    def _remind(self, link: ReplicaLink, now: float) -> None:
        for waiting in self._recent:
            if now - waiting.since <= RECENT_SECONDS:
                link.tell(waiting)

    async def run(self) -> None:
        """Track the set of peers until cancelled."""
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
            # A temporary DNS failure does not disconnect known peers.
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
        await wait_for_first(self._look.wait(), self._clock.sleep(RESOLVE_SECONDS))
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
    """Decode a batch of a peer; raises `InvalidValue` for any other body."""
    try:
        return _BATCH.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidValue("the body is no batch of facts") from None


def _is_within_limits(fact: AuthorFact) -> bool:
    """Return whether a fact is within the size limits of facts that a replica creates."""
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
