"""Counts how many files each mapping delivers to each managed place.

The ledger stores the counts. With them an incremental sync detects, without reading all files, whether a
mapping gains its first file or loses its last, and which places are managed. The stored form is text,
`0:120:projects/` for a folder and `1:1:x.json` for a file: number of the mapping, count, place. A count of
zero marks a stand-in: the place is managed, but no file of the mapping's source is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stoker.engine.layout.desired_files import ManagedPaths, MappingRoute


class MappingFileCounts:
    """File counts by number of the mapping and managed place."""

    __slots__ = ("_by_place", "_routes", "_stand_ins")

    def __init__(self, routes: Sequence[MappingRoute], given: Iterable[str] = ()) -> None:
        self._routes = routes
        self._by_place: Counter[tuple[int, str]] = Counter()
        self._stand_ins: set[tuple[int, str]] = set()
        for text in given:
            index, count, place = text.split(":", 2)
            if int(count):
                self._by_place[int(index), place] = int(count)
            else:
                self._stand_ins.add((int(index), place))

    def add(self, index: int, place: str, more: int) -> None:
        """Add `more` files (negative to subtract) of a mapping to the managed place that contains a path."""
        self._by_place[index, self._routes[index].managed(place)] += more

    def add_all(self, index: int, places: Iterable[str]) -> None:
        route = self._routes[index]
        if route.manages_one:  # all files are in one managed place, or there is one file
            listed = list(places)
            if listed:
                self._by_place[index, route.managed(listed[0])] += len(listed)
        else:
            self._by_place.update((index, route.managed(place)) for place in places)

    def stand_in(self, index: int, place: str) -> None:
        """Record that a mapping delivers only this stand-in file; only the file itself is managed."""
        self._stand_ins.add((index, place))

    def moved(self, differences: Iterable[tuple[int, str, int]]) -> bool:
        """Add these differences; return False if a mapping or place gains its first file or loses its last.

        The caller then lays out the whole commit, so that the guards see that change.
        """
        touched = [((i, self._routes[i].managed(place)), more) for i, place, more in differences]
        if any(key not in self._by_place for key, _ in touched):
            return False
        for key, more in touched:
            self._by_place[key] += more
        return all(self._by_place[key] > 0 for key, _ in touched)

    @property
    def indexes(self) -> frozenset[int]:
        """The mappings that deliver at least one file."""
        return frozenset(index for (index, _), count in self._by_place.items() if count > 0)

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(self._routes[index].label for index in self.indexes)

    @property
    def managed(self) -> ManagedPaths:
        given = (place for (_, place), count in self._by_place.items() if count > 0)
        return ManagedPaths.of((*given, *(place for _, place in self._stand_ins)))

    @property
    def texts(self) -> frozenset[str]:
        counts = ((key, count) for key, count in self._by_place.items() if count > 0)
        every = (*counts, *((key, 0) for key in self._stand_ins))
        return frozenset(f"{index}:{count}:{place}" for (index, place), count in every)


def managed_places(texts: Iterable[str]) -> ManagedPaths:
    """Return the managed places of the counts that a ledger stores."""
    return ManagedPaths.of(text.split(":", 2)[2] for text in texts)
