"""The edges of a loop: its window to the second, what is remembered, and what is forgotten."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stoker.reverser.writer.loop_detector import LoopDetector


def run(
    loops: LoopDetector, states: str, *, begin: float = 0.0, every: float = 1.0, path: str = "p"
) -> list[bool]:
    times = (begin + number * every for number in range(len(states)))
    return [
        loops.goes_on(path, before, now, at)
        for at, (before, now) in zip(times, pairwise(states), strict=False)
    ]


@pytest.mark.parametrize(
    ("states", "window", "is_loop"),
    [
        ("ABABA", 3.0, True),  # the last change comes 3 s after the first
        ("ABABA", 2.5, False),
        ("XABABA", 4.0, True),
        ("XABABA", 3.5, False),
    ],
)
def test_the_window_is_from_the_first_of_the_five_states_to_the_last(
    states: str, window: float, is_loop: bool
) -> None:
    assert run(LoopDetector(window=window), states, begin=1000.0)[-1] is is_loop


def test_a_state_that_another_party_wrote_in_between_begins_a_new_history() -> None:
    loops = LoopDetector()
    run(loops, "ABA")
    assert not loops.goes_on("p", "C", "B", 4.0)
    assert not loops.goes_on("p", "B", "A", 5.0)


@pytest.mark.parametrize(("path", "remembered"), [("oldest", False), ("middle", True), ("newest", True)])
def test_of_too_many_paths_the_oldest_is_forgotten_and_no_other(path: str, remembered: bool) -> None:
    loops = LoopDetector(most=2)
    for each in ("oldest", "middle", "newest"):
        run(loops, "ABA", path=each)
    assert run(loops, "ABA", begin=3.0, path=path)[-1] is remembered


def test_a_path_that_calmed_begins_without_its_past() -> None:
    loops = LoopDetector(window=10.0)
    assert run(loops, "ABABA", every=0.0)[-1]
    assert loops.calmed(10.0) == ("p",)
    assert not loops.goes_on("p", "A", "B", 10.0)
