"""Pauses that grow, stay apart from each other, and never end in an error."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.kube.runtime.backoff import Backoff


def test_pauses_double_from_the_base_up_to_the_ceiling() -> None:
    backoff = Backoff(base=0.5, ceiling=30.0, jitter=0.0)
    assert [backoff.delay(failures) for failures in range(9)] == [
        0.0,
        0.5,
        1.0,
        2.0,
        4.0,
        8.0,
        16.0,
        30.0,
        30.0,
    ]


def test_jitter_shortens_a_pause_and_never_lengthens_it() -> None:
    longest = Backoff(base=2.0, ceiling=30.0, jitter=0.5, random=lambda: 0.0)
    shortest = Backoff(base=2.0, ceiling=30.0, jitter=0.5, random=lambda: 1.0)
    assert (shortest.delay(1), longest.delay(1)) == (1.0, 2.0)
    assert (shortest.delay(99), longest.delay(99)) == (15.0, 30.0)


def test_two_keys_that_failed_together_do_not_come_back_together() -> None:
    backoff = Backoff(base=0.5, ceiling=30.0, jitter=0.5)
    assert len({backoff.delay(3) for _ in range(50)}) > 40


def test_no_failure_is_no_pause() -> None:
    assert Backoff().delay(0) == 0.0
    assert Backoff().delay(-1) == 0.0


positive = st.floats(min_value=sys.float_info.min, max_value=sys.float_info.max)


@given(base=positive, ceiling=positive, jitter=st.floats(0.0, 1.0), failures=st.integers(1, 10**40))
def test_any_number_of_failures_ends_in_a_pause_within_the_ceiling(
    base: float, ceiling: float, jitter: float, failures: int
) -> None:
    base, ceiling = sorted((base, ceiling))
    pause = Backoff(base, ceiling, jitter, random=lambda: 0.5).delay(failures)
    assert 0.0 <= pause <= ceiling * (1 + 1e-9)


@pytest.mark.parametrize(
    ("base", "ceiling", "jitter"),
    [
        (0.0, 1.0, 0.5),
        (-1.0, 1.0, 0.5),
        (2.0, 1.0, 0.5),
        (1.0, math.inf, 0.5),
        (1.0, 2.0, 1.5),
        (1.0, 2.0, -0.1),
    ],
)
def test_a_back_off_that_makes_no_sense_is_refused(base: float, ceiling: float, jitter: float) -> None:
    with pytest.raises(ValueError, match=r"does not grow|not a share"):
        Backoff(base, ceiling, jitter)
