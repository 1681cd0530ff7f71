"""Computes the desired state from a few changed repository files, without reading the whole commit.

`Layout.map_changes` calls it. It follows each changed path to its destinations, and each destination back
to every repository file that could supply it; the last mapping that has a file wins, as in
`stoker.engine.layout.overlay`. Some changes need the whole commit; for these it returns None, and the
caller lays out everything:

- a mapping gains its first file or loses its last;
- a mapping delivers a stand-in for its source, or might;
- a patch gains its first file or loses its last;
- a name may collide;
- a file would go to a path that the gateway itself uses.

So a caller never has to check whether the incremental result is correct.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import FileVersion, PathNote, TreeChange
from stoker.domain.paths import RelPath
from stoker.engine.layout.counts import MappingFileCounts
from stoker.engine.layout.desired_files import ContentTransform, DesiredFiles, MappingRoute
from stoker.engine.layout.incremental_collisions import may_collide
from stoker.engine.layout.protected_paths import EXCLUDED
from stoker.engine.match.globs import PathBatch
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.skipped import SkippedContent

if TYPE_CHECKING:
    from stoker.engine.layout.layout import Layout


def paths_to_look_up(
    layout: Layout, changes: Sequence[TreeChange], drifted: Collection[str]
) -> frozenset[str]:
    """Return the paths of the new commit that decide which content the changed destinations get."""
    changed = {change.path: change.after for change in changes}
    places = {place for path in changed for _, place in _destination_places(layout, path)}
    asked: set[str] = set()
    for place in places.union(drifted):
        for _, origin in source_candidates(layout, place):
            if origin not in changed:
                asked.add(origin)
            elif changed[origin] is not None:
                break
    return frozenset(asked)


def desired_changes(
    layout: Layout,
    changes: Sequence[TreeChange],
    answers: Mapping[str, FileVersion],
    ledger: Ledger,
    drifted: Collection[str],
) -> DesiredFiles | None:
    """Return the desired state of everything that the changes affect; None if the whole commit is needed."""
    changed = {change.path: change.after for change in changes}
    if any(
        not route.names_file and route.kind is None and route.source in changed for route in layout.routes
    ):
        return None  # the source became a file, or was one, and the destination names a folder
    counted: list[tuple[int, str, int]] = []
    for change in changes:
        more = (change.after is not None) - (change.before is not None)
        counted += [(index, place, more) for index, place in _destination_places(layout, change.path)]
    places = PathBatch({place for _, place, _ in counted}.union(drifted))
    out = _excluded_places(layout, places)
    if out is None:
        return None
    counts = MappingFileCounts(layout.routes, ledger.given)
    if not counts.moved(one for one in counted if one[1] not in out):
        return None
    if _may_change_missing_source(layout, changed, places, counts):
        return None
    if not RelPath.all_of(list(places.paths)):  # a path is too long below its destination
        return None
    supplied = _supplied_files(
        layout, [place for place in places.paths if place not in out], changed, answers
    )
    files = {place: version for place, (version, _) in supplied.items()}
    removed = frozenset(p for p in places.paths if p not in files and p not in out and p in ledger.files)
    if removed.intersection(drifted):  # the ledger has a file that the commit lacks
        return None
    added = [place for place in files if place not in ledger.files]
    # If no content was skipped, no patch is waiting for its first file.
    if _may_change_patch_match(layout, (*(added if ledger.skipped_total else ()), *removed)):
        return None
    if may_collide(added, removed, ledger.files):
        return None
    giving = counts.labels
    return DesiredFiles(
        files=files,
        managed=counts.managed,
        protection=layout.protection,
        delivered=giving,
        undelivered=frozenset(route.label for route in layout.routes) - giving,
        missed={route.destination: route.label for route in layout.routes if route.label not in giving},
        destinations=layout.destinations,
        skipped=SkippedContent.stored(ledger.skipped, ledger.skipped_total).notes,
        excluded=tuple(PathNote(place, why) for place, why in out.items()),
        partial=True,
        removed=removed,
        recipes=dict(_recipes(layout, supplied)),
        orphans=layout.orphans,
        settings=layout.settings,
        given=counts.texts,
        excludes=layout.excludes,
    )


def _excluded_places(layout: Layout, places: PathBatch) -> dict[str, str] | None:
    """Return the files that the excludes leave out; None if the whole commit has to be laid out."""
    try:
        out = layout.protection.undelivered(places)
    except Stalled:  # possibly caused by a file that this change removes
        return None
    # Skipped files are counted over the whole commit.
    return None if any(why != EXCLUDED for why in out.values()) else out


def _may_change_missing_source(
    layout: Layout, changed: Collection[str], places: PathBatch, counts: MappingFileCounts
) -> bool:
    """Whether a missing source may have appeared, or may now be missing for another reason."""
    giving = counts.indexes
    return any(
        (route.stand_in is not None and route.stand_in in places.paths)
        or (index not in giving and any(RelPath.known(path).is_below(route.source) for path in changed))
        for index, route in enumerate(layout.routes)
    )


def _may_change_patch_match(layout: Layout, places: Iterable[str]) -> bool:
    """Whether a patch may gain its first file or lose its last, which changes the skipped content."""
    transforming = layout.transforming
    return transforming is not None and any(map(transforming.patches, places))


def _destination_places(layout: Layout, path: str) -> Iterator[tuple[int, str]]:
    for index, route in enumerate(layout.routes):
        place = route.place(path)
        if place is not None:
            yield index, place


def source_candidates(layout: Layout, place: str) -> Iterator[tuple[MappingRoute, str]]:
    """Iterate over every repository file that could supply a destination, the winning one first."""
    found = [(route, origin) for route in layout.routes if (origin := route.origin(place)) is not None]
    yield from (one for one in reversed(found) if place not in one[0].yielding)
    yield from (one for one in found if place in one[0].yielding)


def _supplied_files(
    layout: Layout,
    places: Sequence[str],
    changed: Mapping[str, FileVersion | None],
    answers: Mapping[str, FileVersion],
) -> dict[str, tuple[FileVersion, MappingRoute]]:
    found: dict[str, tuple[FileVersion, MappingRoute]] = {}
    for place in sorted(places):
        for route, origin in source_candidates(layout, place):
            version = changed[origin] if origin in changed else answers.get(origin)
            if version is not None:
                found[place] = version, route
                break
    return found


def _recipes(
    layout: Layout, supplied: Mapping[str, tuple[FileVersion, MappingRoute]]
) -> Iterator[tuple[str, ContentTransform]]:
    if layout.transforming is not None:
        for place, (_, route) in supplied.items():
            recipe = layout.transforming.recipe(place, template=route.template)
            if recipe is not None:
                yield place, recipe
