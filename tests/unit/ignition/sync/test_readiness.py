"""Readiness of a gateway, and when to ask again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.sync.readiness import (
    BOOT_SECONDS,
    GRACE_SECONDS,
    PAUSES,
    GatewayReadiness,
    RetryPacing,
    retry_call,
)
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.virtual_time_loop import in_virtual_time

STARTING = Retry("starting", reason=Reason.GATEWAY_STARTING)
REFUSED = Stalled("the key", reason=Reason.TOKEN_REJECTED)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def readiness(clock: ManualClock) -> AsyncIterator[GatewayReadiness]:
    gateway = GatewayClient(GatewayAddress.parse("http://127.0.0.1:1"), lambda: Secret(""))
    yield GatewayReadiness(gateway, clock)
    await gateway.aclose()


async def test_a_gateway_that_ran_when_we_came_gets_no_grace(readiness: GatewayReadiness) -> None:
    readiness.saw(REFUSED)
    assert readiness.running is True
    assert readiness.grace_left == 0.0


@pytest.mark.parametrize(
    "reason",
    [
        Reason.GATEWAY_STARTING,
        Reason.GATEWAY_FAULTED,
        Reason.GATEWAY_UNREACHABLE,
        Reason.NOT_COMMISSIONED,
    ],
)
async def test_one_that_was_seen_down_is_left_alone_for_its_first_seconds(
    readiness: GatewayReadiness, clock: ManualClock, reason: Reason
) -> None:
    readiness.saw(Retry("down", reason=reason))
    assert readiness.running is False
    await clock.advance(100)
    readiness.saw(REFUSED)
    assert readiness.grace_left == GRACE_SECONDS == 10.0
    await clock.advance(4)
    readiness.saw(REFUSED)
    assert readiness.grace_left == 6.0, "it counts from the first time, not from the last"
    await clock.advance(6)
    assert readiness.grace_left == 0.0
    readiness.saw(STARTING)
    readiness.saw(REFUSED)
    assert readiness.grace_left == GRACE_SECONDS, "each start has its own"


async def test_one_that_was_not_started_at_all_gets_the_grace_too(readiness: GatewayReadiness) -> None:
    readiness.not_started()
    readiness.saw(REFUSED)
    assert readiness.grace_left == GRACE_SECONDS


async def test_a_released_gateway_is_starting_until_it_was_seen_or_takes_too_long(
    readiness: GatewayReadiness, clock: ManualClock
) -> None:
    async def why_not() -> Reason:
        with pytest.raises(Retry) as refused:
            await readiness.check()  # no process listens there
        return refused.value.reason

    assert await why_not() is Reason.GATEWAY_UNREACHABLE
    readiness.not_started()
    assert await why_not() is Reason.GATEWAY_STARTING
    await clock.advance(BOOT_SECONDS)
    assert await why_not() is Reason.GATEWAY_UNREACHABLE
    readiness.not_started()
    readiness.saw(REFUSED)
    assert await why_not() is Reason.GATEWAY_UNREACHABLE, "it ran, and has gone since"


async def test_pauses_grow_and_then_stay(clock: ManualClock) -> None:
    patience = RetryPacing(clock)
    assert (patience.due_in, patience.exhausted) == (0.0, False)
    pauses, exhausted = [], []
    for _ in range(7):
        patience.failed()
        pauses.append(patience.due_in)
        exhausted.append(patience.exhausted)
        await clock.advance(patience.due_in)
        assert patience.due_in == 0.0
    assert tuple(pauses[:4]) == PAUSES == (5.0, 10.0, 30.0, 60.0)
    assert pauses[4:] == [60.0] * 3
    assert exhausted == [False] * 4 + [True] * 3
    patience.succeeded()
    assert (patience.due_in, patience.exhausted) == (0.0, False)


class Asked:
    """Fails so often, then answers."""

    def __init__(self, clock: ManualClock, *errors: StokerError) -> None:
        self.at: list[float] = []
        self._clock = clock
        self._errors = list(errors)

    async def __call__(self) -> str:
        self.at.append(self._clock.monotonic())
        if self._errors:
            raise self._errors.pop(0)
        return "yes"


class JumpingClock(ManualClock):
    """Nothing waits: a sleep moves the time."""

    async def sleep(self, seconds: float) -> None:
        self._move_to(self.monotonic() + seconds)


@in_virtual_time
async def test_what_may_work_next_time_is_asked_again() -> None:
    clock = JumpingClock()
    asked = Asked(clock, STARTING, STARTING)
    assert await retry_call(asked, clock, (1.0, 2.0, 4.0), lambda _: True) == "yes"
    assert asked.at == [0.0, 1.0, 3.0]


@in_virtual_time
async def test_it_ends_with_the_last_error() -> None:
    clock = JumpingClock()
    asked = Asked(clock, *[STARTING] * 3, REFUSED, STARTING)
    with pytest.raises(Stalled, match="the key"):
        await retry_call(asked, clock, (1.0, 2.0, 4.0), lambda _: True)
    assert asked.at == [0.0, 1.0, 3.0, 7.0]


@in_virtual_time
async def test_a_permanent_error_is_raised_at_once() -> None:
    clock = JumpingClock()
    asked = Asked(clock, REFUSED)
    with pytest.raises(Stalled, match="the key"):
        await retry_call(asked, clock, PAUSES, lambda error: isinstance(error, Retry))
    assert asked.at == [0.0]
