"""Shards of several counts come, die, stall and lose their Leases: no two work on one resource.

Real elections and real divisions against a Lease that is an entry of a dict, in simulated
time. What a candidate sends arrives at once; that it may be late is `test_lease`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.controller.sharding.division import SHARDS, ShardDivision, lease_name
from stoker.domain.shards import Shard, shard_of_namespace
from stoker.kube.leader.election import Election, LeaseAction
from stoker.kube.leader.lease import Lease, LeaseTerms, claim_lease, release_lease

NAMESPACES = [f"plant-{number}" for number in range(24)]
NOW = datetime(2031, 2, 3, tzinfo=UTC)
COUNTS = (1, 2, 3, 4)


@dataclass
class Server:
    leases: dict[int, Lease] = field(default_factory=dict)
    versions: int = 0

    def put(self, index: int, lease: Lease) -> Lease:
        self.versions += 1
        metadata = msgspec.structs.replace(lease.metadata, resource_version=str(self.versions))
        self.leases[index] = stored = msgspec.structs.replace(lease, metadata=metadata)
        return stored


@dataclass
class Replica:
    """One process of one shard."""

    shard: Shard
    terms: LeaseTerms
    election: Election
    division: ShardDivision | None = None
    found: Lease | None = None

    def act(self, server: Server, now: float) -> None:
        """As the elector and the lookout do: a move, and a look once the lease is won."""
        move = self.election.next(now)
        if not self.election.leading:
            self.division = None
        index = self.shard.index
        if move is LeaseAction.LOOK:
            self.election.saw(server.leases.get(index), now)
        elif move is LeaseAction.CLAIM:
            self.claim(server, now)
        if self.election.leading:
            if self.division is None:
                self.division = ShardDivision(self.shard, self.found, self.terms.duration)
            self.division.saw(server.leases.values(), now)

    def claim(self, server: Server, now: float) -> None:
        index, known = self.shard.index, self.election.lease
        if not self.election.leading and (known is None or known.holder != self.terms.identity):
            self.found = known
        there = server.leases.get(index)
        if (there.version if there else None) != (known.version if known else None):
            self.election.overtaken() if there else self.election.saw(None, now)
            return
        wanted = claim_lease(known, self.terms, lease_name(index), "home", NOW)
        self.election.wrote(server.put(index, wanted), now)

    def leave(self, server: Server) -> None:
        lease = server.leases.get(self.shard.index)
        if lease is not None and lease.holder == self.terms.identity:
            server.put(self.shard.index, release_lease(lease, NOW))

    def works_on(self, namespace: str, now: float) -> bool:
        leads = self.election.leading and now < self.election.deadline
        return leads and self.division is not None and self.division.may(namespace)


@dataclass
class ShardModel:
    server: Server = field(default_factory=Server)
    replicas: list[Replica] = field(default_factory=list)
    now: float = 0.0
    born: int = 0
    counts: int = 2

    def start(self, count: int, index: int) -> None:
        self.born += 1
        terms = LeaseTerms(f"replica-{self.born}", 15, 5, ((SHARDS, str(count)),))
        shard = Shard(index % count, count)
        self.replicas.append(Replica(shard, terms, Election(terms, lambda: 0.0)))

    def check(self) -> None:
        for namespace in NAMESPACES:
            workers = [one.shard for one in self.replicas if one.works_on(namespace, self.now)]
            assert len(workers) <= 1, f"{namespace} is worked on by {', '.join(map(str, workers))}"


STEPS = st.one_of(
    st.tuples(st.just("act"), st.integers(0, 20)),
    st.tuples(st.just("act"), st.integers(0, 20)),
    st.tuples(st.just("pass"), st.sampled_from([0.0, 1.0, 4.0, 8.0, 14.0, 16.0])),
    st.tuples(st.just("start"), st.tuples(st.sampled_from(COUNTS), st.integers(0, 3))),
    st.tuples(st.just("leave"), st.integers(0, 20)),
    st.tuples(st.just("everybody"), st.just(None)),
)


def play_and_check(model: ShardModel, what: str, how: object) -> None:
    if what == "pass":
        assert isinstance(how, float)
        model.now += how
    elif what == "start":
        assert isinstance(how, tuple)
        model.start(*how)
    elif what == "everybody":
        for one in model.replicas:
            one.act(model.server, model.now)
            model.check()
    elif model.replicas:
        assert isinstance(how, int)
        one = model.replicas[how % len(model.replicas)]
        if what == "act":
            one.act(model.server, model.now)
        else:
            model.replicas.remove(one)
            one.leave(model.server)
    model.check()


@given(st.lists(STEPS, min_size=10, max_size=80))
@settings(max_examples=150, deadline=None)
def test_a_namespace_never_has_two_workers(steps: list[tuple[str, object]]) -> None:
    model = ShardModel()
    for what, how in steps:
        play_and_check(model, what, how)


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (1, 4), (4, 1)], ids=str)
@pytest.mark.parametrize("deletes", [False, True], ids=["leases stay", "leases go with their shards"])
def test_an_update_ends_with_everything_worked_on_and_nothing_by_two(
    counts: tuple[int, int], deletes: bool
) -> None:
    """As a chart's update: new pods come, old ones go one after the other."""
    model, (before, after) = ShardModel(), counts
    for index in range(before):
        model.start(before, index)

    def live(seconds: int) -> None:
        for _ in range(2 * seconds):
            model.now += 0.5
            play_and_check(model, "everybody", None)

    live(10)
    old = list(model.replicas)
    for index in range(after):
        model.start(after, index)
    live(5)
    if deletes:
        for index in range(after, before):
            del model.server.leases[index]
    for one in old:
        model.replicas.remove(one)
        one.leave(model.server)
        live(3)
    live(20)
    for namespace in NAMESPACES:
        workers = [one.shard for one in model.replicas if one.works_on(namespace, model.now)]
        assert workers == [Shard(shard_of_namespace(namespace, after), after)]
