"""What a gateway shall have, as values: routes, managed places, and the desired files.

A `MappingRoute` is a mapping whose templates have become paths. `stoker.engine.layout.layout` lays
routes over a commit and says in a `DesiredFiles` which content each path shall have, which
places are managed, and where nothing may be deleted because something there could
not be delivered. None of it knows the live side; `stoker.engine.plan.planner` does.
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
"""Between the two sides of a mapping in its label."""


class ContentTransform(Protocol):
    """What is done to a content between the repository and the gateway."""

    def apply(self, content: bytes) -> bytes: ...


class TransformProvider(Protocol):
    """Knows for each destination what is done to its content; None where nothing is."""

    def recipe(self, destination: str, *, template: bool) -> ContentTransform | None: ...

    def patches(self, destination: str) -> bool: ...

    def unused_patches(self, delivered: Collection[str]) -> Sequence[str]: ...


class MappingRoute(NamedTuple):
    """A mapping whose templates have become paths."""

    label: str
    """As it was written, templates unrendered."""
    source: RelPath
    destination: RelPath
    kind: MappingKind | None = MappingKind.DIR
    """None: a folder or a file, as the commit has it."""
    when_missing: MissingSourcePolicy = MissingSourcePolicy.SKIP
    template: bool = False
    orphans: OrphanPolicy | None = None
    yielding: frozenset[str] = frozenset()
    """Destinations at which a file of an earlier mapping is preferred."""
    service_path: RelPath | None = None
    """The folder of the service whose layout this mapping is a part of."""
    names_file: bool = True
    """Whether the destination can be that of a file: it is not the root, and has no slash at its end."""

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
        """Where a file of the repository goes; None if this mapping does not speak of it."""
        return _map_path(path, self.source, self.destination, self.kind)

    def origin(self, place: str) -> str | None:
        """Which file of the repository this mapping would put there."""
        return _map_path(place, self.destination, self.source, self.kind)

    @property
    def stand_in(self) -> RelPath | None:
        """The one file that it gives where its source is missing; None if it gives nothing then."""
        if self.when_missing is not MissingSourcePolicy.CONFIG_MODE:
            return None
        return self.destination.joined(CONFIG_MODE_FILE)

    @property
    def may_be_absent(self) -> bool:
        """Whether a commit without its source is as intended, and no skipped content.

        So it is for a part of a service's layout, which no user wrote, and for one with a stand-in.
        """
        return self.service_path is not None or self.stand_in is not None

    @property
    def manages_one(self) -> bool:
        """Whether all that it gives lies in one managed place; at the root it is each entry (C-086)."""
        return bool(self.destination)

    def managed(self, place: str) -> str:
        """The managed place of a file that it gives; that of a folder ends in a slash."""
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
    """Folders with all that is below them, and files: what the mappings of one pass manage (C-083)."""

    folders: frozenset[RelPath] = frozenset()
    files: frozenset[RelPath] = frozenset()

    @classmethod
    def of(cls, places: Iterable[str]) -> ManagedPaths:
        """From paths, those of folders with a slash at the end."""
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
    """What shall be, and what of it was left out."""

    files: Mapping[str, FileVersion]
    managed: ManagedPaths
    protection: ProtectedPaths
    kept: frozenset[str] = frozenset()
    """At and below these nothing is deleted: an entry that belongs there was not delivered."""
    incomplete: frozenset[str] = frozenset()
    """Folders that would be told to be complete by their `resource.json` and are not."""
    delivered: frozenset[str] = frozenset()
    """The mappings, as they were written, that gave at least one file."""
    undelivered: frozenset[str] = frozenset()
    missed: Mapping[str, str] = MappingProxyType({})
    """The destinations of mappings that gave nothing, each with its mapping."""
    destinations: ManagedPaths = ALL_PLACES
    """The destinations of all mappings, whether they gave files or not; a ledger's file elsewhere is held."""
    skipped: tuple[PathNote, ...] = ()
    """What the user may miss: symlinks, submodules, mappings of the user without a source, patches without a
    file, files that would go where the gateway keeps its own."""
    excluded: tuple[PathNote, ...] = ()
    """What the excludes keep out, as configured."""
    refused: tuple[PathNote, ...] = ()
    conflicts: tuple[PathNote, ...] = ()
    partial: bool = False
    """Only what changed is named: every other file of the ledger shall be as the ledger says."""
    removed: frozenset[str] = frozenset()
    """Of a partial one: paths of the ledger that nothing supplies any more."""
    recipes: Mapping[str, ContentTransform] = MappingProxyType({})
    """By destination: what is still to be done to the content before it is what the gateway shall have."""
    orphans: Mapping[str, OrphanPolicy] = MappingProxyType({})
    """Destinations with a rule of their own about files of others."""
    settings: str = ""
    given: frozenset[str] = frozenset()
    """How many files each mapping gives to each managed place (`stoker.engine.layout.counts`)."""
    excludes: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        """Every path that this speaks of."""
        return self.removed.union(self.files)

    def refusing(self, blobs: frozenset[BlobId], kind: RefusedEntryKind) -> DesiredFiles:
        """The same without the files of these contents."""
        return self.without(
            {path: kind.value for path, version in self.files.items() if version.blob in blobs}
            if blobs
            else {}
        )

    def without(self, reasons: Mapping[str, str]) -> DesiredFiles:
        """The same without these files; each is named with its reason."""
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
        """The same after the recipes were followed: the ids of what came of them."""
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
