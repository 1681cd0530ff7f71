"""What a few changed files of the repository mean for the gateway, without the rest of it.

Each changed path is followed to its destinations, and from each destination back to
every file that could supply it; the last mapping that has one wins, as everywhere.
What the answer cannot be told from is left to the whole way: a mapping that gains
its first or loses its last file, one that gives a stand-in for its source or might, a
patch that gains its first or loses its last file, a name that may collide, a file where
the gateway's own must be. So a caller never has to ask whether the short way was right.
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
    """Paths of the new commit on which it depends what the changed destinations get."""
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
    """The desired state of what the changes touch; None where only all of the commit can tell."""
    changed = {change.path: change.after for change in changes}
    if any(
        not route.names_file and route.kind is None and route.source in changed for route in layout.routes
    ):
        return None  # the source has become a file, or was one, and the destination is that of a folder
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
    if not RelPath.all_of(list(places.paths)):  # one has become too long below its destination
        return None
    supplied = _supplied_files(
        layout, [place for place in places.paths if place not in out], changed, answers
    )
    files = {place: version for place, (version, _) in supplied.items()}
    removed = frozenset(p for p in places.paths if p not in files and p not in out and p in ledger.files)
    if removed.intersection(drifted):  # the ledger has what the commit does not
        return None
    added = [place for place in files if place not in ledger.files]
    # Without any skipped content no patch waits for its first file.
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
    """What the excludes keep out; None where the whole commit has to be looked at."""
    try:
        out = layout.protection.undelivered(places)
    except Stalled:  # perhaps only of a file that goes
        return None
    # A file that is skipped is counted over the whole commit.
    return None if any(why != EXCLUDED for why in out.values()) else out


def _may_change_missing_source(
    layout: Layout, changed: Collection[str], places: PathBatch, counts: MappingFileCounts
) -> bool:
    """Whether a source that gives nothing may have come, or gives nothing for another reason now."""
    giving = counts.indexes
    return any(
        (route.stand_in is not None and route.stand_in in places.paths)
        or (index not in giving and any(RelPath.known(path).is_below(route.source) for path in changed))
        for index, route in enumerate(layout.routes)
    )


def _may_change_patch_match(layout: Layout, places: Iterable[str]) -> bool:
    """Whether a patch may gain its first file or lose its last: the skipped content changes by that."""
    transforming = layout.transforming
    return transforming is not None and any(map(transforming.patches, places))


def _destination_places(layout: Layout, path: str) -> Iterator[tuple[int, str]]:
    for index, route in enumerate(layout.routes):
        place = route.place(path)
        if place is not None:
            yield index, place


def source_candidates(layout: Layout, place: str) -> Iterator[tuple[MappingRoute, str]]:
    """Every file of the repository that could go there, the one that wins first."""
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
