"""The values of the desired state: routes, managed places, and the desired files.

A `MappingRoute` is a mapping whose templates are rendered into paths. `stoker.engine.layout.layout` applies
the routes to a commit and returns a `DesiredFiles`: the content of each path, the managed places, and the
places where nothing may be deleted because a file there could not be delivered. Nothing here reads the
live files; `stoker.engine.plan.planner` compares both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import BlobId, FileVersion, PathNote, RefusedEntryKind
from stoker.domain.intent.files import FileMapping, MappingKind, MissingSourcePolicy, OrphanPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.engine.layout.builtin_files import CONFIG_MODE_FILE
from stoker.engine.layout.protected_paths import ProtectedPaths, reserved_path_reason
from stoker.engine.transform.template_language import render_path

ROOT = RelPath("")
ARROW = " -> "
"""Separates source and destination in the label of a mapping."""


class ContentTransform(Protocol):
    """Changes a content on its way from the repository to the gateway."""

    def apply(self, content: bytes) -> bytes: ...


class TransformProvider(Protocol):
    """Returns the transform of each destination; None where the content is delivered unchanged."""

    def recipe(self, destination: str, *, template: bool) -> ContentTransform | None: ...

    def patches(self, destination: str) -> bool: ...

    def unused_patches(self, delivered: Collection[str]) -> Sequence[str]: ...


class MappingRoute(NamedTuple):
    """A mapping whose templates are rendered into paths."""

    label: str
    """The mapping as the user wrote it, templates unrendered."""
    source: RelPath
    destination: RelPath
    kind: MappingKind | None = MappingKind.DIR
    """None: a folder or a file, whichever the commit has."""
    when_missing: MissingSourcePolicy = MissingSourcePolicy.SKIP
    template: bool = False
    orphans: OrphanPolicy | None = None
    yielding: frozenset[str] = frozenset()
    """Destinations at which a file of an earlier mapping takes precedence."""
    service_path: RelPath | None = None
    """The folder of the service whose layout includes this mapping."""
    names_file: bool = True
    """Whether the destination can name a file: it is not the root and does not end in a slash."""

    @classmethod
    def of(cls, mapping: FileMapping, values: TemplateValues) -> MappingRoute:
        source = RelPath.clean(render_path(mapping.source, values))
        written = render_path(mapping.destination, values)
        destination = RelPath.clean(written)
        if ":" in destination:
            raise InvalidValue(
                f"destination {written!r} holds a ':', which no path of a gateway does; "
                "a mapping has one source and one destination"
            )
        if reserved := reserved_path_reason(destination):
            raise InvalidValue(f"destination {written!r} is never written: {reserved}; remove the mapping")
        names_file = bool(destination) and not written.endswith("/")
        if mapping.kind is MappingKind.FILE and not (names_file and source):
            raise InvalidValue(
                f"mapping {mapping.source!r} is for a file: write the file's whole path on both sides"
            )
        if mapping.kind is MappingKind.FILE and mapping.when_missing is MissingSourcePolicy.CONFIG_MODE:
            raise InvalidValue(
                f"mapping {mapping.source!r} is for a file; only a folder can be a collection that gets a "
                f"{CONFIG_MODE_FILE}"
            )
        label = f"{mapping.source}{ARROW}{mapping.destination}"
        return cls(
            label,
            source,
            destination,
            mapping.kind,
            mapping.when_missing,
            mapping.template,
            mapping.orphans,
            frozenset(destination.joined(RelPath.clean(path)) for path in mapping.gives_way),
            None
            if mapping.service_path is None
            else RelPath.clean(render_path(mapping.service_path, values)),
            names_file,
        )

    def place(self, path: str) -> str | None:
        """Return the destination of a repository file; None if this mapping does not cover it."""
        return _map_path(path, self.source, self.destination, self.kind)

    def origin(self, place: str) -> str | None:
        """Return the repository file that this mapping would deliver to a destination, if it covers it."""
        return _map_path(place, self.destination, self.source, self.kind)

    @property
    def stand_in(self) -> RelPath | None:
        """The single file that it delivers when its source is missing; None if it then delivers nothing."""
        if self.when_missing is not MissingSourcePolicy.CONFIG_MODE:
            return None
        return self.destination.joined(CONFIG_MODE_FILE)

    @property
    def may_be_absent(self) -> bool:
        """Whether a commit may lack the source without that being reported as skipped content.

        True for a mapping of a service's layout, which no user wrote, and for a mapping with a stand-in.
        """
        return self.service_path is not None or self.stand_in is not None

    @property
    def manages_one(self) -> bool:
        """Whether all its files are in one managed place.

        With the root as destination each top entry is a place.
        """
        return bool(self.destination)

    def managed(self, place: str) -> str:
        """Return the managed place of a file that it delivers; a folder's place ends in a slash."""
        if self.kind is MappingKind.FILE or (self.kind is None and place == self.destination):
            return self.destination
        if self.destination:
            return self.destination + "/"
        top, slash, _ = place.partition("/")
        return top + slash


def _map_path(path: str, here: str, there: str, kind: MappingKind | None) -> str | None:
    if path == here and here and there and kind is not MappingKind.DIR:
        return there
    if kind is MappingKind.FILE:
        return None
    if here:
        if not path.startswith(here + "/"):
            return None
        path = path[len(here) + 1 :]
    return f"{there}/{path}" if there else path


class ManagedPaths(NamedTuple):
    """The folders, with everything below them, and the files that the mappings of one sync manage."""

    folders: frozenset[RelPath] = frozenset()
    files: frozenset[RelPath] = frozenset()

    @classmethod
    def of(cls, places: Iterable[str]) -> ManagedPaths:
        """Build from paths; those of folders end in a slash."""
        places = set(places)
        return cls(
            frozenset(RelPath.known(place[:-1]) for place in places if place.endswith("/")),
            frozenset(RelPath.known(place) for place in places if not place.endswith("/")),
        )

    def hold(self, path: str) -> bool:
        """Whether a path is one of these places or is below one; the root folder holds every path."""
        own = RelPath.known(path)
        if own in self.files or own in self.folders or ROOT in self.folders:
            return True
        return any(folder in self.folders for folder in own.ancestors())


ALL_PLACES = ManagedPaths(frozenset({ROOT}))
NO_PLACES = ManagedPaths()


class DesiredFiles(NamedTuple):
    """The desired files of a sync, and the files that were left out."""

    files: Mapping[str, FileVersion]
    managed: ManagedPaths
    protection: ProtectedPaths
    kept: frozenset[str] = frozenset()
    """At and below these nothing is deleted: an entry that belongs there was not delivered."""
    incomplete: frozenset[str] = frozenset()
    """Folders that lack a file, so their `resource.json`, which would declare them complete, is held back."""
    delivered: frozenset[str] = frozenset()
    """The mappings, as the user wrote them, that delivered at least one file."""
    undelivered: frozenset[str] = frozenset()
    missed: Mapping[str, str] = MappingProxyType({})
    """The destinations of mappings that delivered nothing, each with its mapping."""
    destinations: ManagedPaths = ALL_PLACES
    """The destinations of all mappings, with or without files; a ledger's file outside them is held."""
    skipped: tuple[PathNote, ...] = ()
    """Content that the user may expect on the gateway and that is not delivered.

    Symlinks, submodules, mappings of the user without a source, patches without a file, and files whose
    destination is a path that the gateway itself uses.
    """
    excluded: tuple[PathNote, ...] = ()
    """Files that the configured excludes leave out."""
    refused: tuple[PathNote, ...] = ()
    conflicts: tuple[PathNote, ...] = ()
    partial: bool = False
    """Only changed files are listed; every other file of the ledger keeps the version that the ledger has."""
    removed: frozenset[str] = frozenset()
    """In a partial value: paths of the ledger that no mapping supplies any more."""
    recipes: Mapping[str, ContentTransform] = MappingProxyType({})
    """By destination: the transform that still has to be applied to the content."""
    orphans: Mapping[str, OrphanPolicy] = MappingProxyType({})
    """Destinations with their own rule about files of others."""
    settings: str = ""
    given: frozenset[str] = frozenset()
    """How many files each mapping delivers to each managed place (`stoker.engine.layout.counts`)."""
    excludes: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        """Every path that is listed here, as desired or as removed."""
        return self.removed.union(self.files)

    def refusing(self, blobs: frozenset[BlobId], kind: RefusedEntryKind) -> DesiredFiles:
        """Return a copy without the files that have these contents."""
        return self.without(
            {path: kind.value for path, version in self.files.items() if version.blob in blobs}
            if blobs
            else {}
        )

    def without(self, reasons: Mapping[str, str]) -> DesiredFiles:
        """Return a copy without these files; each is listed as refused with its reason."""
        if not reasons:
            return self
        out = sorted(reasons)
        return self._replace(
            files={path: version for path, version in self.files.items() if path not in reasons},
            kept=self.kept.union(out),
            incomplete=self.incomplete.union(path.rpartition("/")[0] for path in out),
            refused=self.refused + tuple(PathNote(path, reasons[path]) for path in out),
            recipes={path: recipe for path, recipe in self.recipes.items() if path not in reasons},
        )

    def derived(self, results: Mapping[str, BlobId]) -> DesiredFiles:
        """Return a copy in which transformed files have the blob ids of their results."""
        if not results:
            return self
        made = {
            path: FileVersion(blob, self.files[path].executable)
            for path, blob in results.items()
            if path in self.files
        }
        return self._replace(
            files={**self.files, **made},
            recipes={path: recipe for path, recipe in self.recipes.items() if path not in made},
        )
