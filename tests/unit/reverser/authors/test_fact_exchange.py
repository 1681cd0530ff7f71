"""Facts among replicas: over real TLS, with bounds, and without waiting for anybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import blob_of
from stoker.http_server.review_server import ReviewServer
from stoker.http_server.tls.certificate_authority import TlsMaterial, new_material
from stoker.http_server.tls.mutual import MutualTls
from stoker.reverser.authors.attribution import AuthorAttribution, ObservedEvent
from stoker.reverser.authors.fact_exchange import ReplicaPeers, peer_resolver
from stoker.reverser.authors.facts import AuthorFact, RequestUser, ScaleChange
from stoker.reverser.authors.replica_link import (
    BATCH,
    MAX_FACT_AGE_SECONDS,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    PendingFact,
    ReplicaAddress,
    ReplicaLink,
)
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation
from stoker.telemetry.metrics import Metrics
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

NAME = "reverser.stoker-system.svc"
OURS = new_material((NAME,), datetime.now(UTC), timedelta(days=2), timedelta(days=1), mutual=True)
MAPS = GroupResource("", "configmaps")


def fact(number: int = 0, user: str = "alice") -> AuthorFact:
    return AuthorFact(
        MAPS, f"uid-{number}", "1", ChangeOperation.UPDATE, RequestUser(user, "7", ("dev",)), blob_of(b"b")
    )


class Replica:
    """One of several, on a port of its own; `others` is what the name of the Service leads to."""

    def __init__(self, others: Iterable[ReplicaAddress] = (), material: TlsMaterial = OURS) -> None:
        self.named = set(others)
        self.authors = AuthorAttribution()
        self.metrics = Metrics()
        self.mutual = MutualTls(NAME)
        self.mutual.use(material.chain, material.key, material.bundle)
        self.started: list[asyncio.Task[None]] = []
        self.peers: ReplicaPeers
        self.server: ReviewServer

    async def resolve(self) -> list[ReplicaAddress]:
        return sorted(self.named)

    async def start(self, *, port: int = 0, speaks: bool = True) -> ReplicaAddress:
        """Listen, and look for the others."""

        async def heard(body: bytes) -> bytes:
            return await self.peers.heard(body)

        self.server = ReviewServer(
            f"127.0.0.1:{port}", self.mutual.server, {"/facts": heard}, guard=self.mutual.is_peer
        )
        self.started.append(asyncio.create_task(self.server.run()))
        await eventually_async(lambda: self.server.port, 10, "it listens")
        here = ReplicaAddress("127.0.0.1", self.server.port or 0)
        self.peers = ReplicaPeers(
            self.authors,
            self.mutual,
            self.resolve,
            instance=f"{here}-{id(self)}",
            address=str(here) if speaks else "",
            metrics=self.metrics,
        )
        self.started.append(asyncio.create_task(self.peers.run()))
        return here

    async def stop(self) -> None:
        for task in self.started:
            task.cancel()
        await asyncio.gather(*self.started, return_exceptions=True)
        self.started.clear()

    def knows(self, number: int) -> bool:
        seen = ObservedEvent(MAPS, f"uid-{number}", "1", ChangeOperation.UPDATE, blob_of(b"b"))
        return self.authors.author_of(seen, asyncio.get_running_loop().time()) is not None


@pytest.fixture
async def replicas() -> AsyncIterator[list[Replica]]:
    made: list[Replica] = []
    yield made
    for each in made:
        await each.stop()


async def test_what_one_learns_all_others_know(replicas: list[Replica]) -> None:
    replicas += [Replica(), Replica(), Replica()]
    everybody = {await each.start() for each in replicas}
    for each in replicas:
        each.named = everybody
    # The first lookup of each found no peer yet: one gets the fact, and the others get it by greetings.
    replicas[0].peers.tell(fact(1))
    await eventually_async(lambda: replicas[1].knows(1) and replicas[2].knows(1), 20, "both know")

    for number in range(2, 1200):
        replicas[1].peers.tell(fact(number))
    await eventually_async(
        lambda: all(replicas[i].knows(n) for i in (0, 2) for n in range(2, 1200)), 20, "all of them arrive"
    )
    assert len(replicas[1].peers.reached) == 2
    page = replicas[1].metrics.page(replicas[1].metrics.read()).decode()
    assert "author_peers 2.0" in page
    assert "author_facts_waiting 0.0" in page


async def test_a_replica_that_starts_gets_recent_facts(replicas: list[Replica]) -> None:
    """It knows the others by the name; they know it by its greeting, long before the name leads there."""
    old = Replica()
    new = Replica({await old.start()})
    replicas += [old, new]
    old.peers.tell(fact(1))
    await new.start()
    await eventually_async(lambda: new.knows(1), 20, "it is told")
    old.peers.tell(fact(2))
    await eventually_async(lambda: new.knows(2), 20, "it is a peer")


async def test_a_replica_that_restarts_in_the_same_place_gets_them_again(replicas: list[Replica]) -> None:
    old = Replica()
    first = Replica({await old.start()})
    replicas += [old, first]
    place = await first.start()
    old.peers.tell(fact(1))
    await eventually_async(lambda: first.knows(1), 20, "it is told")
    await first.stop()
    again = Replica(first.named)
    replicas.append(again)
    await again.start(port=place.port)
    await eventually_async(lambda: again.knows(1), 20, "its successor gets it, too")


async def test_a_peer_that_is_away_for_a_while_gets_everything(replicas: list[Replica]) -> None:
    old, away = Replica(), Replica()
    replicas += [old, away]
    place = await away.start()
    old.named = {place}
    await old.start(speaks=False)
    await eventually_async(lambda: old.peers.reached, 20, "it is reached")
    await away.stop()
    for number in range(1000):
        old.peers.tell(fact(number))
    await asyncio.sleep(0)  # the call has returned without waiting for a peer
    await away.start(port=place.port)
    await eventually_async(lambda: all(map(away.knows, range(1000))), 20, "nothing is lost")


async def test_a_peer_that_is_gone_is_forgotten(replicas: list[Replica]) -> None:
    old, gone = Replica(), Replica()
    replicas += [old, gone]
    place = await gone.start(speaks=False)
    old.named = {place}
    await old.start(speaks=False)
    await eventually_async(lambda: old.peers.reached, 20, "it is reached")
    await gone.stop()
    old.named = set()
    old.peers._look.set()
    await eventually_async(lambda: not old.peers._links, 20, "its link is closed")
    old.peers.tell(fact())
    assert sum(map(len, old.peers._links.values())) == 0


async def test_a_peer_with_another_authority_learns_nothing_and_sends_nothing(
    replicas: list[Replica],
) -> None:
    stranger = Replica(
        material=new_material((NAME,), datetime.now(UTC), timedelta(1), timedelta(1), mutual=True)
    )
    old = Replica({await stranger.start()})
    replicas += [stranger, old]
    stranger.named = {await old.start()}
    old.peers.tell(fact(1))
    stranger.peers.tell(fact(2))
    link = next(iter((await eventually_async(lambda: old.peers._links, 10, "it looks")).values()))
    await eventually_async(lambda: link.failures > 1, 20, "it has been tried")
    assert not stranger.knows(1)
    assert not old.knows(2)
    assert not old.peers.reached


async def test_the_name_may_lead_nowhere_for_a_while(replicas: list[Replica]) -> None:
    old, other = Replica(), Replica()
    replicas += [old, other]
    old.named = {await other.start(speaks=False)}
    await old.start(speaks=False)
    await eventually_async(lambda: old.peers.reached, 20, "it is reached")

    async def fails() -> list[ReplicaAddress]:
        raise OSError("no such name")

    old.peers._resolve = fails
    old.peers._look.set()
    await eventually_async(lambda: old.peers._unnamed, 20, "it has failed")
    old.peers.tell(fact(1))
    await eventually_async(lambda: other.knows(1), 20, "they still speak")


async def test_names_are_looked_up_with_the_port_of_all_or_one_of_their_own() -> None:
    found = await peer_resolver(("localhost", "127.0.0.1:7"), 9444)()
    assert ReplicaAddress("127.0.0.1", 7) in found
    assert {each.port for each in found} == {7, 9444}


def link(clock: Clock, counts: Counter[str]) -> ReplicaLink:
    return ReplicaLink(ReplicaAddress("127.0.0.1", 1), MutualTls(NAME), clock, counts)


async def test_a_queue_is_bounded_by_number_and_by_size_and_loses_the_oldest() -> None:
    counts: Counter[str] = Counter()
    queue = link(ManualClock(), counts)
    for number in range(MAX_WAITING + 10):
        queue.tell(PendingFact(0.0, b"%d" % number))
    assert len(queue) == MAX_WAITING
    assert counts["overflow"] == 10
    assert queue._next()[0].data == b"10"
    heavy = link(ManualClock(), counts)
    for _ in range(10):
        heavy.tell(PendingFact(0.0, b"x" * (MAX_WAITING_BYTES // 4)))
    assert len(heavy) == 4
    assert heavy._size == MAX_WAITING_BYTES


async def test_what_is_too_old_is_not_sent() -> None:
    clock, counts = ManualClock(), Counter[str]()
    queue = link(clock, counts)
    queue.tell(PendingFact(clock.monotonic(), b"old"))
    await clock.advance(MAX_FACT_AGE_SECONDS + 1)
    queue.tell(PendingFact(clock.monotonic(), b"new"))
    assert [each.data for each in queue._next()] == [b"new"]
    assert counts["late"] == 1


@given(st.lists(st.tuples(st.sampled_from(["tell", "send", "fail"]), st.integers(1, 400)), max_size=40))
def test_a_queue_keeps_order_and_loses_nothing_but_the_oldest(steps: list[tuple[str, int]]) -> None:
    """Against a plain list: whatever is queued, sent and put back."""
    queue = link(ManualClock(), Counter())
    model: list[bytes] = []
    sent: list[bytes] = []
    number = 0
    for what, count in steps:
        if what == "tell":
            for _ in range(count):
                number += 1
                queue.tell(PendingFact(0.0, b"%d" % number))
                model.append(b"%d" % number)
            continue
        batch = queue._next()
        assert [each.data for each in batch] == model[:BATCH]
        if what == "send":
            sent += [each.data for each in batch]
            model = model[BATCH:]
        else:
            queue._put_back(batch)
    assert len(queue) == len(model)
    assert queue._size == sum(map(len, model))
    assert sent == sorted(sent, key=int)


def test_facts_are_on_the_wire_what_they_are_in_memory() -> None:
    for each in (fact(), fact()._replace(blob="", replicas=ScaleChange(1, 3)), fact()._replace(blob="")):
        assert msgspec.json.decode(msgspec.json.encode(each, enc_hook=str), type=AuthorFact) == each


def peers(authors: AuthorAttribution) -> ReplicaPeers:
    async def no_peers() -> list[ReplicaAddress]:
        return []

    return ReplicaPeers(authors, MutualTls(NAME), no_peers, instance="me", clock=ManualClock())


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"instance": 7}', b'{"instance": "x", "facts": [[1]]}', b"[" * 100_000, b"\xff"],
)
async def test_what_is_no_batch_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidValue, match="no batch of facts"):
        await peers(AuthorAttribution()).heard(body)


async def test_facts_of_a_size_that_no_replica_makes_are_left_out() -> None:
    authors = AuthorAttribution()
    user = fact().user
    wrong = [
        fact(1)._replace(user=user._replace(name="x" * 2000)),
        fact(2)._replace(user=user._replace(name="")),
        fact(3)._replace(user=user._replace(groups=("g",) * 100)),
        fact(4)._replace(user=user._replace(groups=("g" * 5000,))),
        fact(5)._replace(before="9" * 1000),
        fact(6)._replace(uid="u" * 1000),
    ]
    batch = {"instance": "other", "facts": [*wrong, fact(7)]}
    assert json.loads(await peers(authors).heard(msgspec.json.encode(batch, enc_hook=str))) == {
        "instance": "me"
    }
    assert len(authors) == 1


@pytest.mark.parametrize(
    "address", ["", "nowhere", "host:80", "127.0.0.1:0", "127.0.0.1:99999", ":80", "x" * 9999]
)
async def test_a_greeting_from_nowhere_makes_no_peer(address: str) -> None:
    ours = peers(AuthorAttribution())
    await ours.heard(msgspec.json.encode({"instance": "other", "address": address}))
    await ours.heard(msgspec.json.encode({"instance": "me", "address": "127.0.0.1:80"}))
    assert ours._heard == {}


@given(st.binary(max_size=300))
def test_any_bytes_of_a_peer_are_an_answer_or_a_sentence(body: bytes) -> None:
    async def hear() -> None:
        with contextlib.suppress(InvalidValue):
            found: dict[str, Any] = json.loads(await peers(AuthorAttribution()).heard(body))
            assert found == {"instance": "me"}

    asyncio.run(hear())
