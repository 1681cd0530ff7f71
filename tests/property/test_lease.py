"""Leader election under any network, clock and scheduler: no two processes act at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.kube.leader.elector import LeaderElector
from stoker.kube.leader.fencing import Leadership
from stoker.kube.leader.lease import LeaseTerms
from stoker_testkit.cluster.leader_election_simulation import (
    MachineClock,
    RequestOutcome,
    SimulatedClient,
    SimulatedServer,
)
from stoker_testkit.virtual_time_loop import pass_time, run

NAME, NAMESPACE = "gitops-reverser-1", "stoker-system"
TICK = 0.05
STORM = 60.0  # seconds in which things go wrong
CALM = 40.0  # seconds of peace after it, more than a takeover needs


@dataclass(frozen=True)
class Machine:
    """One candidate and all that happens to it."""

    terms: tuple[int, float]
    rate: float
    offset: float
    wall_offset: float
    start: float
    stop: float | None
    fortunes: list[tuple[str, float]]  # one after the other from its start: which trouble, for how long
    chance: int

    def trouble(self, now: float) -> str:
        return next((trouble for trouble, begin, end in self.episodes() if begin <= now < end), "none")

    def episodes(self) -> Iterator[tuple[str, float, float]]:
        begin = self.start
        for trouble, length in self.fortunes:
            yield trouble, begin, min(begin + length, STORM)
            begin += length


troubles = st.sampled_from(["none", "stopped", "cut off", "deaf", "slow", "failing"])
rates = st.sampled_from([0.96, 1.0, 1.04]) | st.floats(0.96, 1.04)


def machines(
    fortunes: st.SearchStrategy[list[tuple[str, float]]],
    start: st.SearchStrategy[float],
    stop: st.SearchStrategy[float | None],
) -> st.SearchStrategy[Machine]:
    return st.builds(
        Machine,
        terms=st.sampled_from([(15, 5.0), (10, 2.0), (24, 8.0)]),
        rate=rates,
        offset=st.floats(-1e6, 1e6),
        wall_offset=st.floats(-1e8, 1e8),
        start=start,
        stop=stop,
        fortunes=fortunes,
        chance=st.integers(0, 2**32),
    )


anybody = machines(
    fortunes=st.lists(st.tuples(troubles, st.floats(0.5, 30)), max_size=6),
    start=st.floats(0, 10),
    stop=st.none() | st.floats(20, STORM),
)
# The two that matter most: a leader that falls silent, perhaps after slow renewals, and one who waits for it.
fallen = machines(
    fortunes=st.tuples(
        st.tuples(st.sampled_from(["none", "slow"]), st.floats(2, 20)),
        st.tuples(st.sampled_from(["stopped", "cut off", "deaf"]), st.floats(20, 40)),
    ).map(list),
    start=st.just(0.0),
    stop=st.none(),
)
heir = machines(
    fortunes=st.lists(st.tuples(st.sampled_from(["none", "slow"]), st.floats(5, 30)), max_size=2),
    start=st.floats(0.1, 2),
    stop=st.none(),
)
casts = st.tuples(fallen, heir).map(list) | st.lists(anybody, min_size=2, max_size=3)


class Weather:
    """The network of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._random = random.Random(machine.chance)  # noqa: S311 - it must be the same again

    def __call__(self) -> RequestOutcome:
        trouble = self._machine.trouble(asyncio.get_running_loop().time())
        slow, draw = trouble == "slow", self._random.random
        return RequestOutcome(
            there=draw() * 4 if slow else 0.005,
            back=draw() * 4 if slow else 0.005,
            lost_there=trouble == "cut off",
            lost_back=trouble == "deaf",
            error=500 if trouble == "failing" else 0,
        )


@dataclass
class Observed:
    """Who had the right to act, looked at again and again."""

    terms: dict[int, list[Leadership]] = field(default_factory=dict)
    overlaps: list[tuple[float, list[int]]] = field(default_factory=list)

    def acting(self) -> list[int]:
        """One entry for every term that gives the right to act now; two of one machine count twice."""
        return [who for who, terms in self.terms.items() for term in terms if term.remaining > 0]

    def look(self) -> None:
        if len(acting := self.acting()) > 1:
            self.overlaps.append((asyncio.get_running_loop().time(), acting))


async def candidate(who: int, machine: Machine, server: SimulatedServer, observed: Observed) -> None:
    clock = MachineClock(
        rate=machine.rate,
        offset=machine.offset,
        wall_offset=machine.wall_offset,
        pauses=[(begin, end) for trouble, begin, end in machine.episodes() if trouble == "stopped"],
    )
    elector = LeaderElector(
        SimulatedClient(server, clock, Weather(machine)),
        NAME,
        NAMESPACE,
        LeaseTerms(f"machine-{who}", *machine.terms),
        clock=clock,
        jitter=random.Random(machine.chance + 1).random,  # noqa: S311 - it must be the same again
    )

    async def work(leadership: Leadership) -> None:
        observed.terms.setdefault(who, []).append(leadership)
        observed.look()
        await asyncio.Event().wait()

    await pass_time(machine.start)
    await elector.run(work)


async def live_through(cast: list[Machine]) -> tuple[Observed, list[int]]:
    """The story of these machines, and who may act at its end."""
    server, observed = SimulatedServer(), Observed()
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(candidate(who, it, server, observed)) for who, it in enumerate(cast)]
    for machine, task in zip(cast, tasks, strict=True):
        if machine.stop is not None:
            loop.call_at(machine.stop, task.cancel)
    while loop.time() < STORM + CALM:
        await pass_time(TICK)
        observed.look()
    final = observed.acting()
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return observed, final


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts)
def test_never_two_may_act_at_once_and_after_the_storm_one_does(cast: list[Machine]) -> None:
    observed, final = run(live_through(cast))
    assert observed.overlaps == []
    if any(machine.stop is None for machine in cast):
        assert len(final) == 1
