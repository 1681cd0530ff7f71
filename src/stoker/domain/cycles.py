"""Cycle detection for profiles in `dependsOn` and gateways in `syncOrder`.

A diamond is no cycle: two paths may lead to the same profile. A name that does not
exist is no cycle either; a profile that depends on it keeps waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason


def find_cycle(start: str, waits_for: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the first cycle reachable from `start`, its first name repeated at the end; empty if none.

    The search is depth first and keeps the names on the current path apart from names that
    are finished. It does not recurse, because a chain may be longer than the recursion limit.
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
    """Raise `InvalidValue` with the whole cycle in the message, so that the user sees where to break it."""
    cycle = find_cycle(start, waits_for)
    if cycle:
        raise InvalidValue(
            f"{what} {start!r} can never begin: {' waits for '.join(cycle)}", reason=Reason.DEPENDENCY_CYCLE
        )
