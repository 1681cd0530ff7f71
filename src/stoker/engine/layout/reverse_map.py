"""Decides which gateway changes may go to the repository, and to which file of it.

The reverse of `stoker.engine.layout.desired_files`, and pure like it; bidirectional sync uses it.

- `CapturablePaths` selects the live paths: those that `watchPaths` matches, without excluded paths and
  without protected paths of the gateway or of Stoker.
- `gateway_changes` returns which of them differ from what Stoker wrote.
- `RepositoryOrigins` finds the repository file of each change. A file that Stoker wrote goes back to its
  source file. A new file goes where its nearest neighbours came from; without neighbours, to the last
  mapping that covers it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stoker.domain.git_objects import FileVersion
from stoker.domain.intent.files import ExcludePolicy, MappingKind
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import ContentTransform, MappingRoute
from stoker.engine.layout.incremental import source_candidates
from stoker.engine.layout.layout import Layout
from stoker.engine.layout.protected_paths import PROTECTED_PATHS, ProtectedPaths
from stoker.engine.match.globs import GlobSet
from stoker.engine.match.pattern import folder_regexes, root_folders
from stoker.engine.plan.ledger import Ledger, recorded_version


class CapturablePaths:
    """Selects the live paths whose changes may be captured."""

    __slots__ = ("_excluded", "_folders", "_protection", "_watched", "roots")

    def __init__(self, watch_paths: Iterable[str], excluded: Iterable[str], excludes: ExcludePolicy) -> None:
        patterns = tuple(watch_paths)
        self._watched = GlobSet(patterns)
        self._excluded = GlobSet(excluded)
        self._protection = ProtectedPaths(excludes)
        above = [one for pattern in patterns for one in folder_regexes(pattern)]
        self._folders = re.compile("|".join(f"(?:{one})" for one in above) or "(?!)", re.DOTALL)
        self.roots = _topmost_roots(root for pattern in patterns for root in root_folders(pattern))
        """The folders that contain every captured path, none within another.

        An empty text is the data folder.
        """

    def takes(self, path: str) -> bool:
        return (
            self._watched.matches(path)
            and not self._excluded.matches(path)
            and not self._protection.covers(path)
        )

    def enters(self, folder: str) -> bool:
        """Whether a folder or anything below it can contain a captured path."""
        return self._folders.fullmatch(folder) is not None and not PROTECTED_PATHS.matches(folder)


def _topmost_roots(roots: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for root in sorted(set(roots)):
        if not any(not above or root == above or root.startswith(above + "/") for above in kept):
            kept.append(root)
    return tuple(kept)


def gateway_changes(
    seen: Mapping[str, bytes | None], ledger: Ledger, allowed: CapturablePaths, *, modes: bool = True
) -> dict[str, FileVersion | None]:
    """Return the changes that others made to these paths: the current content, None for a deleted file.

    `seen` has records in the form of the ledger. Files that existed before Stoker and were not touched
    (`ledger.kept`) are not changes, nor are writes of an interrupted sync. `modes` is whether the filesystem
    reports executable bits; otherwise a file has the mode that Stoker wrote, or is not executable.
    """
    changed: dict[str, FileVersion | None] = {}
    for path, kept in seen.items():
        if path in ledger.kept or not allowed.takes(path):
            continue
        ours, there = ledger.version(path), None if kept is None else recorded_version(kept)
        if there is not None and not modes:
            there = there._replace(executable=ours is not None and ours.executable)
        if there is None:
            if ours is not None:
                changed[path] = None
        elif ours is None or ours != there:
            intended = ledger.intended.get(path)
            if intended is None or intended.blob != there.blob:
                changed[path] = there
    return changed


def file_commit(ledger: Ledger, path: str) -> str:
    """Return the commit of a file; an earlier one than the ledger's where its place was held back."""
    for text in ledger.held:
        commit, _, place = text.partition(" ")
        if path == place or path.startswith(place + "/"):
            return commit
    return ledger.commit


class RepositoryOrigin(NamedTuple):
    """The repository file behind a live path, its version, and the transform between the two."""

    path: str
    version: FileVersion | None
    recipe: ContentTransform | None = None
    template: bool = False


class RepositoryOrigins:
    """Finds the repository files behind some live paths, for one commit."""

    def __init__(self, layout: Layout, ledger: Ledger, paths: Collection[str]) -> None:
        self._layout = layout
        self._known = [path for path in paths if path in ledger.files]
        self._neighbours: dict[str, list[str]] = {}
        new = [path for path in paths if path not in ledger.files]
        if new:
            ours = sorted(ledger.files)
            self._neighbours = {path: list(_neighbour_files(path, ours)) for path in new}

    def questions(self) -> frozenset[str]:
        """Return the paths of the commit that must be looked up before `found`."""
        asked = {*self._known, *(one for near in self._neighbours.values() for one in near)}
        asked.update(self._neighbours)
        return frozenset(origin for place in asked for _, origin in source_candidates(self._layout, place))

    def found(self, answers: Mapping[str, FileVersion]) -> dict[str, RepositoryOrigin]:
        """Return the origins by live path, without paths that no mapping delivers or would deliver."""
        found: dict[str, RepositoryOrigin] = {}
        for path in self._known:
            given = self._given(path, answers)
            if given is not None:
                found[path] = self._origin(path, *given, answers)
        for path, near in self._neighbours.items():
            route = self._route_for(path, near, answers)
            if route is not None:
                found[path] = self._origin(path, *route, answers)
        return found

    def _given(self, place: str, answers: Mapping[str, FileVersion]) -> tuple[MappingRoute, str] | None:
        return next((one for one in source_candidates(self._layout, place) if one[1] in answers), None)

    def _route_for(
        self, path: str, near: Sequence[str], answers: Mapping[str, FileVersion]
    ) -> tuple[MappingRoute, str] | None:
        for neighbour in near:
            given = self._given(neighbour, answers)
            if given is not None and given[0].kind is not MappingKind.FILE:
                origin = given[0].origin(path)
                if origin is not None:
                    return given[0], origin
        return next(source_candidates(self._layout, path), None)

    def _origin(
        self, place: str, route: MappingRoute, origin: str, answers: Mapping[str, FileVersion]
    ) -> RepositoryOrigin:
        shaping = self._layout.transforming
        recipe = shaping.recipe(place, template=route.template) if shaping is not None else None
        return RepositoryOrigin(origin, answers.get(origin), recipe, route.template)


def _neighbour_files(path: str, ours: Sequence[str]) -> Iterator[str]:
    """Iterate over one ledger file per folder above a path, nearest folder first, without repeats."""
    before = ""
    for folder in RelPath.known(path).ancestors():
        inside = f"{folder}/"
        at = bisect_left(ours, inside)
        if at < len(ours) and ours[at].startswith(inside) and ours[at] != before:
            before = ours[at]
            yield before
