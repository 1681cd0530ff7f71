"""Two parties that undo each other are noticed; a person who changes their mind is not."""

from __future__ import annotations

from itertools import pairwise

from stoker.reverser.writer.loop_detector import LoopDetector


def run(loops: LoopDetector, states: str, every: float = 1.0, path: str = "p") -> list[bool]:
    return [loops.goes_on(path, before, now, at * every) for at, (before, now) in enumerate(pairwise(states))]


def test_back_and_forth_twice_is_a_loop() -> None:
    assert run(LoopDetector(), "ABABA") == [False, False, False, True]


def test_back_once_is_none() -> None:
    assert not any(run(LoopDetector(), "ABAC"))


def test_what_always_goes_on_is_none() -> None:
    assert not any(run(LoopDetector(), "ABCDEFGH"))


def test_a_loop_through_different_states_is_one() -> None:
    assert run(LoopDetector(), "ABACA")[-1]


def test_a_slow_back_and_forth_is_no_loop() -> None:
    assert not any(run(LoopDetector(), "ABABABA", every=40.0))


def test_a_held_path_is_released_after_a_quiet_window() -> None:
    loops = LoopDetector(window=10.0)
    run(loops, "ABABA")
    assert list(loops.held) == ["p"]
    assert loops.goes_on("p", "B", "C", 5.0), "it is held, whatever comes"
    assert loops.next_calm() == 15.0
    assert loops.calmed(14.0) == ()
    assert loops.calmed(15.0) == ("p",)
    assert not loops.held
    assert not loops.goes_on("p", "C", "A", 16.0)


def test_paths_do_not_mix_and_memory_is_bounded() -> None:
    loops = LoopDetector(most=2)
    for path in ("a", "b", "c"):
        assert not any(run(loops, "ABA", path=path))
    assert not loops.goes_on("a", "A", "B", 3.0), "its past was forgotten"
