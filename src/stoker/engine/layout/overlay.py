"""Applies all mappings to a whole commit: for each file the last mapping wins.

`Layout.map` calls it. It removes what must not be delivered, with the reason: refused entries of the
repository, excluded and protected places, invalid paths, and names that some filesystem cannot
distinguish. It works on whole lists of paths, so that 100,000 files under several mappings need a few
loops inside the interpreter and no Python decision per file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.git_objects import (
    CommitTree,
    FileVersion,
    PathNote,
    RefusedEntry,
    RefusedEntryKind,
    blob_of,
)
from stoker.domain.intent.files import MappingKind, MissingSourcePolicy
from stoker.domain.paths import MAX_PART_BYTES, RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.builtin_files import CONFIG_MODE
from stoker.engine.layout.collisions import find_collisions
from stoker.engine.layout.counts import MappingFileCounts
from stoker.engine.layout.desired_files import ContentTransform, DesiredFiles, MappingRoute
from stoker.engine.layout.protected_paths import EXCLUDED
from stoker.engine.layout.service_path import require_service
from stoker.engine.match.globs import PathBatch

if TYPE_CHECKING:
    from stoker.engine.layout.layout import Layout


def build_desired(layout: Layout, tree: CommitTree) -> DesiredFiles:
    """Return the desired files of this commit."""
    return _Overlay(layout, tree).desired()


class _Overlay:
    """Collects the files of the mappings, one mapping after the other."""

    def __init__(self, layout: Layout, tree: CommitTree) -> None:
        self._layout = layout
        self._tree = tree
        self._ordered = sorted(tree.files)
        self._files: dict[str, FileVersion] = {}
        self._templated: set[str] = set()
        self._counts = MappingFileCounts(layout.routes)
        self._kept: set[str] = set()
        self._blocked: set[str] = set()
        self._incomplete: set[str] = set()
        self._skipped: dict[str, PathNote] = {}
        self._excluded: dict[str, PathNote] = {}
        self._refused: dict[str, PathNote] = {}
        self._missed: dict[str, str] = {}
        self._stand_ins: dict[int, RelPath] = {}

    def desired(self) -> DesiredFiles:
        require_service(self._layout.routes, self._tree, self._ordered)
        for index, route in enumerate(self._layout.routes):
            for refusal in self._tree.refused:
                self._refuse(route, refusal)
            self._lay(index, route)
        self._stand_in()
        places = self._without_undelivered(PathBatch(self._files))
        giving = self._giving()
        colliding = find_collisions(places, self._blocked)
        if len(self._layout.routes) > 1 or colliding:
            self._files = {path: self._files[path] for path in sorted(self._files) if path not in colliding}
        recipes = self._recipes()
        return DesiredFiles(
            files=self._files,
            managed=self._counts.managed,
            protection=self._layout.protection,
            kept=frozenset(self._kept.union(colliding)),
            incomplete=frozenset(self._incomplete.union(path.rpartition("/")[0] for path in colliding)),
            delivered=giving,
            undelivered=frozenset(route.label for route in self._layout.routes) - giving,
            missed=self._missed,
            destinations=self._layout.destinations,
            skipped=tuple(self._skipped.values()),
            excluded=tuple(self._excluded.values()),
            refused=tuple(self._refused.values()),
            conflicts=tuple(PathNote(path, why) for path, why in sorted(colliding.items())),
            recipes=recipes,
            orphans=self._layout.orphans,
            settings=self._layout.settings,
            given=self._counts.texts,
            excludes=self._layout.excludes,
        )

    def _refuse(self, route: MappingRoute, refusal: RefusedEntry) -> None:
        named = refusal.kind is not RefusedEntryKind.BAD_NAME
        at = refusal.nearest
        if not at.is_below(route.source):
            return
        try:
            place = route.destination.joined(at[len(route.source) :].lstrip("/"))
        except InvalidValue:
            # The destination is not a valid path, so nothing in the whole destination is deleted.
            place, named = route.destination, False
        self._kept.add(place)
        if named:
            self._blocked.add(place)
        if refusal.kind.by_design:
            self._skipped[refusal.name] = PathNote(refusal.name, str(refusal))
        else:
            self._refused[refusal.name] = PathNote(refusal.name, str(refusal))
            self._incomplete.add(place.parent if named else place)

    def _lay(self, index: int, route: MappingRoute) -> None:
        """Add every file of a mapping at its destination.

        Files that must not be delivered are removed later.
        """
        if self._is_file(route):
            inside: Sequence[str] = [route.source] if route.source in self._tree.files else ()
            places: Sequence[str] = [route.destination] if inside else ()
        else:
            inside = places = self._below(route.source)
            if route.source != route.destination:
                head = route.destination + "/" if route.destination else ""
                cut = len(route.source) + 1 if route.source else 0
                places = [head + path[cut:] for path in inside]
        if not places:
            return
        given = dict(zip(places, map(self._tree.files.__getitem__, inside), strict=True))
        if max(map(len, places)) > MAX_PART_BYTES:
            self._take_out_long(route, inside, places, given)
        self._counts.add_all(index, given)
        for place in route.yielding & self._files.keys():
            given.pop(place, None)
        self._files |= given
        if route.template:
            self._templated.update(given)
        elif self._templated:
            self._templated.difference_update(given)

    def _is_file(self, route: MappingRoute) -> bool:
        """Whether the source is a file: by the mapping's type, or without a type by what the commit has."""
        if route.kind is not None:
            return route.kind is MappingKind.FILE
        if route.source not in self._tree.files:
            return False
        if not route.names_file:
            raise InvalidValue(
                f"mapping {route.label}: source {str(route.source)!r} is a file at this commit; "
                "write the whole path of the file as destination, without a slash at its end"
            )
        return True

    def _stand_in(self) -> None:
        """Add the stand-ins of missing sources, last: a stand-in never replaces a file of the commit."""
        for index, route in enumerate(self._layout.routes):
            place = route.stand_in
            if place is not None and place not in self._files and self._is_absent(route):
                self._stand_ins[index] = place
        if self._stand_ins:
            digits = len(next(iter(self._tree.files.values())).blob) if self._tree.files else 40
            version = FileVersion(blob_of(CONFIG_MODE, digits=digits))
            self._files.update(dict.fromkeys(self._stand_ins.values(), version))

    def _is_absent(self, route: MappingRoute) -> bool:
        """Whether the commit has nothing by that name: neither a file nor a refused entry."""
        source = route.source
        return (
            source not in self._tree.files
            and not self._below(source)
            and self._in_the_way(route) is None
            and not any(refusal.nearest.is_below(source) for refusal in self._tree.refused)
        )

    def _below(self, source: str) -> list[str]:
        if not source:
            return self._ordered
        return self._ordered[
            bisect_left(self._ordered, source + "/") : bisect_left(self._ordered, source + chr(ord("/") + 1))
        ]

    def _take_out_long(
        self, route: MappingRoute, inside: Sequence[str], places: Sequence[str], given: dict[str, FileVersion]
    ) -> None:
        """Refuse files whose path is valid in the repository but too long below the destination."""
        for path, place in zip(inside, places, strict=True):
            if len(place) > MAX_PART_BYTES:
                try:
                    RelPath(place)
                except InvalidValue as error:
                    self._refused[path] = PathNote(path, error.message)
                    self._kept.add(route.destination)
                    del given[place]

    def _without_undelivered(self, places: PathBatch) -> PathBatch:
        out = self._layout.protection.undelivered(places)
        if not out:
            return places
        for place, why in out.items():
            (self._excluded if why == EXCLUDED else self._skipped)[place] = PathNote(place, why)
            del self._files[place]
            for index, route in enumerate(self._layout.routes):
                if route.origin(place) in self._tree.files:
                    self._counts.add(index, place, -1)
        self._stand_ins = {index: place for index, place in self._stand_ins.items() if place not in out}
        return PathBatch(self._files)

    def _giving(self) -> frozenset[str]:
        """Return the mappings that delivered files; the guards decide about the others with the ledger."""
        for index, route in enumerate(self._layout.routes):
            if index not in self._counts.indexes:
                self._miss(index, route)
        return self._counts.labels

    def _miss(self, index: int, route: MappingRoute) -> None:
        why = self._why_nothing(route)
        if index in self._stand_ins:
            self._counts.stand_in(index, self._stand_ins[index])
        if route.when_missing is MissingSourcePolicy.FAIL:
            raise Stalled(f"mapping {route.label} {why}; nothing was changed", reason=Reason.SOURCE_EMPTY)
        self._missed[route.destination] = route.label
        if not (route.may_be_absent and self._is_absent(route)):
            self._skipped[route.label] = PathNote(route.label, why)

    def _why_nothing(self, route: MappingRoute) -> str:
        source = f"source {str(route.source)!r}"
        if (refusal := self._in_the_way(route)) is not None:
            return f"gives no file: {refusal.nearest!r} {refusal}"
        if route.source in self._tree.files and route.kind is MappingKind.DIR:
            return f"gives no file: its {source} is a file, not a folder (leave out the type, or say file)"
        if route.source in self._tree.files or self._below(route.source):
            if route.kind is MappingKind.FILE or route.source in self._tree.files:
                return f"gives no file: its {source} is a folder or excluded"
            return f"gives no file: everything below its {source} is excluded"
        return f"gives no file: its {source} is not in the repository"

    def _in_the_way(self, route: MappingRoute) -> RefusedEntry | None:
        """Return the refused entry at the source or above it; None if there is none."""
        return next(
            (
                refusal
                for refusal in self._tree.refused
                if refusal.nearest
                and refusal.kind is not RefusedEntryKind.BAD_NAME
                and route.source.is_below(refusal.nearest)
            ),
            None,
        )

    def _recipes(self) -> dict[str, ContentTransform]:
        transforming = self._layout.transforming
        if transforming is None:
            return {}
        for patch in transforming.unused_patches(self._files):
            self._skipped[patch] = PathNote(patch, "is for no file that is delivered")
        found = ((path, transforming.recipe(path, template=path in self._templated)) for path in self._files)
        return {path: recipe for path, recipe in found if recipe is not None}
