"""Whatever the network, the clocks and the scheduler do: never two who may act at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.kube.electing import Elector
from stoker.kube.fencing import Leadership
from stoker.kube.lease import Terms
from stoker.testing.simulated_leases import Fate, MachineClock, SimulatedClient, SimulatedServer
from stoker.testing.virtual_time import run

NAME, NAMESPACE = "gitops-reverser-1", "stoker-system"
TICK = 0.05
STORM = 60.0  # seconds in which everything may go wrong
CALM = 30.0  # seconds of peace after it, more than a takeover needs


@dataclass(frozen=True)
class Machine:
    """One candidate and all that may happen to it."""

    terms: tuple[int, float]
    rate: float
    offset: float
    wall_offset: float
    start: float
    stop: float | None
    pauses: list[tuple[float, float]]
    weather: int  # seed of its network
    roughness: float


@dataclass
class Observed:
    """Who had the right to act, at every tick, and whom the server named."""

    leaderships: dict[int, list[Leadership]] = field(default_factory=dict)
    overlaps: list[tuple[float, list[int]]] = field(default_factory=list)
    revived: list[float] = field(default_factory=list)

    def acting(self) -> list[int]:
        return [who for who, terms in self.leaderships.items() if any(term.remaining > 0 for term in terms)]

    def look(self) -> None:
        now = asyncio.get_running_loop().time()
        acting = self.acting()
        if len(acting) > 1:
            self.overlaps.append((now, acting))
        for terms in self.leaderships.values():
            for term in terms[:-1]:  # a later term has begun, so this one is over for good
                if term.remaining > 0:
                    self.revived.append(now)


pauses = st.lists(
    st.tuples(st.floats(0, STORM), st.floats(0.01, 40)).map(lambda it: (it[0], it[0] + it[1])), max_size=4
)
machines = st.builds(
    Machine,
    terms=st.sampled_from([(15, 5.0), (24, 8.0), (3, 1.0), (10, 2.0)]),
    rate=st.floats(0.98, 1.02),
    offset=st.floats(-1e6, 1e6),
    wall_offset=st.floats(-1e8, 1e8),
    start=st.floats(0, 20),
    stop=st.none() | st.floats(5, STORM),
    pauses=pauses,
    weather=st.integers(0, 2**32),
    roughness=st.floats(0, 1),
)


class Weather:
    """Delays, losses and failures; after the storm there are none."""

    def __init__(self, machine: Machine) -> None:
        self._random = random.Random(machine.weather)  # noqa: S311 - it must be the same again
        self._roughness = machine.roughness

    def __call__(self) -> Fate:
        draw = self._random.random
        if asyncio.get_running_loop().time() > STORM or draw() > self._roughness:
            return Fate()
        return Fate(
            there=draw() * draw() * 20,
            back=draw() * draw() * 20,
            lost_there=draw() < 0.2,
            lost_back=draw() < 0.2,
            error=500 if draw() < 0.1 else 0,
        )


async def candidate(who: int, machine: Machine, server: SimulatedServer, observed: Observed) -> None:
    clock = MachineClock(
        rate=machine.rate, offset=machine.offset, wall_offset=machine.wall_offset, pauses=machine.pauses
    )
    chance = random.Random(machine.weather + 1)  # noqa: S311 - it must be the same again
    elector = Elector(
        SimulatedClient(server, clock, Weather(machine)),
        NAME,
        NAMESPACE,
        Terms(f"machine-{who}", *machine.terms),
        clock=clock,
        jitter=chance.random,
    )

    async def work(leadership: Leadership) -> None:
        observed.leaderships.setdefault(who, []).append(leadership)
        observed.look()
        await asyncio.Event().wait()

    await asyncio.sleep(machine.start)
    await elector.run(work)


async def live_through(cast: list[Machine]) -> Observed:
    server, observed = SimulatedServer(), Observed()
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(candidate(who, it, server, observed)) for who, it in enumerate(cast)]
    for who, machine in enumerate(cast):
        if machine.stop is not None:
            loop.call_at(machine.stop, tasks[who].cancel)
    while loop.time() < STORM + CALM:
        await asyncio.sleep(TICK)
        observed.look()
    final = observed.acting()
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    staying = [who for who, machine in enumerate(cast) if machine.stop is None]
    awake = all(end < STORM for machine in cast for _, end in machine.pauses)
    if staying and awake:
        assert len(final) == 1, f"nobody leads at the end of a long calm, though {staying} are there"
    return observed


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=st.lists(machines, min_size=2, max_size=3))
def test_never_two_may_act_at_the_same_moment(cast: list[Machine]) -> None:
    observed = run(live_through(cast))
    assert observed.overlaps == []
    assert observed.revived == []
