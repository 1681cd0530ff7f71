"""Circles among things that wait for each other: profiles in `dependsOn`, gateways in `syncOrder`.

A diamond is no circle: two ways may lead to the same profile (C-112). A name
that does not exist is no circle either; whoever waits for it goes on waiting
(C-113).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason


def find_cycle(start: str, waits_for: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The first circle that is reached from `start`, its first name repeated at the end; empty if none is.

    Depth first, with the names on the current way kept apart from those that
    were left behind for good; without recursion, because a chain may be long.
    """
    way = [start]
    turns: list[Iterator[str]] = [iter(waits_for.get(start, ()))]
    on_way, done = {start}, set()
    while turns:
        name = next(turns[-1], None)
        if name is None:
            turns.pop()
            left = way.pop()
            on_way.discard(left)
            done.add(left)
        elif name in on_way:
            return (*way[way.index(name) :], name)
        elif name not in done:
            way.append(name)
            on_way.add(name)
            turns.append(iter(waits_for.get(name, ())))
    return ()


def refuse_cycle(start: str, waits_for: Mapping[str, Sequence[str]], *, what: str) -> None:
    """Stall with the whole circle in the sentence, so that nobody has to search for it."""
    cycle = find_cycle(start, waits_for)
    if cycle:
        raise InvalidValue(
            f"{what} {start!r} can never begin: {' waits for '.join(cycle)}", reason=Reason.DEPENDENCY_CYCLE
        )
