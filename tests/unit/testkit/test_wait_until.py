"""Waiting ends with the condition, or with words."""

from __future__ import annotations

import pytest

from stoker_testkit.wait_until import ConditionTimeout, eventually, eventually_async


def test_returns_the_first_truthy_value() -> None:
    values = iter([0, "", "there", "late"])
    assert eventually(lambda: next(values)) == "there"


def test_says_what_was_waited_for() -> None:
    with pytest.raises(ConditionTimeout, match=r"^timed out after 0\.25 s waiting for: the lamp is lit$"):
        eventually(lambda: False, 0.05, "the lamp is lit")


def test_a_message_is_made_when_the_wait_is_over() -> None:
    looks: list[int] = []
    with pytest.raises(ConditionTimeout, match=r"after [2-9]"):
        eventually(lambda: looks.append(1), 0.05, lambda: f"after {len(looks)} looks", interval=0.01)


def test_what_the_condition_raises_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0)


async def test_waits_for_plain_and_for_asynchronous_conditions() -> None:
    values = iter([0, 0, 7])

    async def condition() -> int:
        return next(values)

    assert await eventually_async(condition) == 7
    assert await eventually_async(lambda: "at once") == "at once"
    with pytest.raises(ConditionTimeout, match="never this"):
        await eventually_async(lambda: None, 0.02, "never this")
