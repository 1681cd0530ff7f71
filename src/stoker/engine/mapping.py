"""From a commit and an intent to the files that a gateway shall have.

The first decision of a pass: mappings are rendered, laid over the tree in their
order (a later one wins file by file), and what must not be delivered is taken out
with its reason. The outcome says for each path which content it shall have, which
places are managed, and where nothing may be deleted because something there could
not be delivered. It never looks at the live side; `stoker.engine.planning` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.files import FilesIntent, MappingKind, WhenMissing
from stoker.domain.intent.files import Mapping as FileMapping
from stoker.domain.intent.values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.colliding import collisions
from stoker.engine.objects import BlobId, FileVersion, Note, Refusal, RefusalKind, Tree, TreeEntry
from stoker.engine.protecting import SHIELD, Protection
from stoker.engine.templates import render


@dataclass(frozen=True, slots=True)
class Managed:
    """The places that the mappings of one pass declare; never the data folder itself (C-083)."""

    folders: frozenset[RelPath] = frozenset()
    files: frozenset[RelPath] = frozenset()

    def hold(self, path: RelPath) -> bool:
        """Whether a path is one of these places or lies in one."""
        return path in self.files or any(path.is_below(folder) for folder in self.folders)


@dataclass(frozen=True, slots=True)
class Desired:
    """What shall be, and what of it was left out."""

    files: Mapping[RelPath, FileVersion]
    managed: Managed
    protection: Protection
    kept: frozenset[RelPath] = frozenset()
    """At and below these nothing is deleted: an entry that belongs there was not delivered."""
    incomplete: frozenset[RelPath] = frozenset()
    """Folders that would be told to be complete by their `resource.json` and are not."""
    delivered: frozenset[str] = frozenset()
    """The mappings, as they were written, that gave at least one file."""
    undelivered: frozenset[str] = frozenset()
    missed: Mapping[RelPath, str] = field(default_factory=dict)
    """The destinations of mappings that gave nothing, each with its mapping."""
    skipped: tuple[Note, ...] = ()
    refused: tuple[Note, ...] = ()
    conflicts: tuple[Note, ...] = ()

    def refusing(self, blobs: frozenset[BlobId], kind: RefusalKind) -> Desired:
        """The same without the files of these contents."""
        out = sorted(path for path, version in self.files.items() if version.blob in blobs)
        if not out:
            return self
        return replace(
            self,
            files={path: version for path, version in self.files.items() if version.blob not in blobs},
            kept=self.kept.union(out),
            incomplete=self.incomplete.union(path.parent for path in out),
            refused=self.refused + tuple(Note(path, kind.value) for path in out),
        )


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A mapping whose templates have become paths."""

    label: str
    source: RelPath
    destination: RelPath
    kind: MappingKind
    when_missing: WhenMissing

    def place(self, path: RelPath) -> RelPath | None:
        """Where an entry of the repository goes; None if this mapping does not speak of it."""
        if path == self.source:
            return self.destination
        if not path.is_below(self.source):
            return None
        return self.destination.joined(path[len(self.source) + 1 :] if self.source else path)


def map_tree(intent: FilesIntent, values: TemplateValues, tree: Tree) -> Desired:
    """The files that the gateway shall have, of this commit."""
    if not intent.mappings:
        raise Stalled("no mapping says which files go where", reason=Reason.NO_MAPPINGS)
    return _Mapper(tree, Protection(intent.excludes)).over(
        [_rendered(mapping, values) for mapping in intent.mappings]
    )


class _Mapper:
    """Collects what the mappings give, one after the other."""

    def __init__(self, tree: Tree, protection: Protection) -> None:
        self._tree = tree
        self._protection = protection
        self._files: dict[RelPath, FileVersion] = {}
        self._folders: set[RelPath] = set()
        self._single: set[RelPath] = set()
        self._kept: set[RelPath] = set()
        self._blocked: set[RelPath] = set()
        self._incomplete: set[RelPath] = set()
        self._skipped: dict[str, Note] = {}
        self._refused: dict[str, Note] = {}
        self._delivered: set[str] = set()
        self._undelivered: set[str] = set()
        self._missed: dict[RelPath, str] = {}

    def over(self, mappings: list[_Rendered]) -> Desired:
        for mapping in mappings:
            self._refuse(mapping)
            given = dict(self._given(mapping))
            self._files |= given
            if given:
                self._delivered.add(mapping.label)
                self._manage(mapping, given)
            else:
                self._miss(mapping)
        colliding = collisions(self._files, self._blocked)
        return Desired(
            files={path: self._files[path] for path in sorted(self._files) if path not in colliding},
            managed=Managed(frozenset(self._folders), frozenset(self._single)),
            protection=self._protection,
            kept=frozenset(self._kept.union(colliding)),
            incomplete=frozenset(self._incomplete.union(path.parent for path in colliding)),
            delivered=frozenset(self._delivered),
            undelivered=frozenset(self._undelivered - self._delivered),
            missed=self._missed,
            skipped=tuple(self._skipped.values()),
            refused=tuple(self._refused.values()),
            conflicts=tuple(Note(path, why) for path, why in sorted(colliding.items())),
        )

    def _refuse(self, mapping: _Rendered) -> None:
        for refusal in self._tree.refused:
            named = refusal.kind is not RefusalKind.BAD_NAME
            try:
                place = mapping.place(refusal.nearest)
            except InvalidValue:  # where it would go is no path, so the whole destination is kept
                place, named = mapping.destination, False
            if place is None:
                continue
            self._kept.add(place)
            if named:
                self._blocked.add(place)
            if refusal.kind.by_design:
                self._skipped[refusal.name] = Note(refusal.name, str(refusal))
            else:
                self._refused[refusal.name] = Note(refusal.name, str(refusal))
                self._incomplete.add(place.parent if named else place)

    def _given(self, mapping: _Rendered) -> Iterator[tuple[RelPath, FileVersion]]:
        for entry in self._tree.files:
            try:
                place = mapping.place(entry.path)
            except InvalidValue as error:  # a good path in the repository, none below the destination
                self._refused[entry.path] = Note(entry.path, error.message)
                self._kept.add(mapping.destination)
                continue
            if place is None or (entry.path == mapping.source) != (mapping.kind is MappingKind.FILE):
                continue
            why_not = self._protection.why_not_delivered(place)
            if why_not is None:
                yield place, entry.version
            else:
                self._skipped[place] = Note(place, why_not)

    def _manage(self, mapping: _Rendered, given: dict[RelPath, FileVersion]) -> None:
        if mapping.kind is MappingKind.FILE:
            self._single.add(mapping.destination)
        elif mapping.destination:
            self._folders.add(mapping.destination)
        else:  # C-086: of the data folder itself only the entries that the repository has
            for path in given:
                (self._folders if path.parent else self._single).add(RelPath(path.parts[0]))

    def _miss(self, mapping: _Rendered) -> None:
        """Nothing came of it. Whether that may pass is also up to the ledger (`guarding`)."""
        why = _why_nothing(mapping, self._tree)
        if mapping.when_missing is WhenMissing.FAIL:
            raise Stalled(f"mapping {mapping.label} {why}; nothing was changed", reason=Reason.SOURCE_EMPTY)
        self._undelivered.add(mapping.label)
        self._missed[mapping.destination] = mapping.label
        self._skipped[mapping.label] = Note(mapping.label, why)


def _why_nothing(mapping: _Rendered, tree: Tree) -> str:
    source = f"source {str(mapping.source)!r}"

    def above(entry: TreeEntry | Refusal) -> bool:
        path = entry.path if isinstance(entry, TreeEntry) else entry.nearest
        return bool(path) and mapping.source.is_below(path)

    refusal = next((r for r in tree.refused if above(r) and r.kind is not RefusalKind.BAD_NAME), None)
    if refusal is not None:
        return f"gives no file: {refusal.nearest!r} {refusal}"
    if any(entry.path == mapping.source for entry in tree.files) and mapping.kind is MappingKind.DIR:
        return f"gives no file: its {source} is a file, not a folder"
    if any(entry.path.is_below(mapping.source) for entry in tree.files):
        if mapping.kind is MappingKind.FILE:
            return f"gives no file: its {source} is a folder or excluded"
        return f"gives no file: everything below its {source} is excluded"
    return f"gives no file: its {source} is not in the repository"


def _rendered(mapping: FileMapping, values: TemplateValues) -> _Rendered:
    source = RelPath.clean(render(mapping.source, values))
    written = render(mapping.destination, values)
    destination = RelPath.clean(written)
    if SHIELD.matches(destination):
        raise InvalidValue(f"destination {written!r} is a place that the gateway keeps for itself")
    if mapping.kind is MappingKind.FILE and (not destination or written.endswith("/") or not source):
        raise InvalidValue(
            f"mapping {mapping.source!r} is for a file: write the file's whole path on both sides"
        )
    label = f"{mapping.source} -> {mapping.destination}"
    return _Rendered(label, source, destination, mapping.kind, mapping.when_missing)
