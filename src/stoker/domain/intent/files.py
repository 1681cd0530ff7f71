"""Which files a gateway shall have: mappings, transforms, excludes, deletion."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MappingKind(StrEnum):
    DIR = "dir"
    FILE = "file"


class MissingSourcePolicy(StrEnum):
    """What a mapping does when the repository does not have its source."""

    FAIL = "fail"
    SKIP = "skip"
    CONFIG_MODE = "configMode"  # write a minimal collection with a `config-mode.json`


class OrphanPolicy(StrEnum):
    """Which files that the repository does not have are deleted: all of them, or only those we wrote."""

    MIRROR = "mirror"
    OWNED = "owned"


class BinaryPolicy(StrEnum):
    """What happens to files that hold code for the gateway."""

    ALLOW = "allow"
    REQUIRE_SIGNED = "requireSigned"
    REFUSE = "refuse"


class FileMapping(NamedTuple):
    """A folder or file of the repository and its place below the data folder.

    Source and destination are templates; they become paths, and are checked as
    paths, only after rendering. `orphans` is the destination's own rule where it is
    a folder that others fill too; None leaves it to the `DeletionPolicy`. A later
    mapping lies over an earlier one, but for the files of `gives_way`, named by their
    path below the source: those stand only where no earlier mapping has one. Without a
    `kind` the commit decides whether the source is a folder or a file. Mappings with the
    same `service_path` are the layout of one service, of which the commit must have a part.
    """

    source: str
    destination: str
    kind: MappingKind | None = MappingKind.DIR
    when_missing: MissingSourcePolicy = MissingSourcePolicy.SKIP
    template: bool = False
    orphans: OrphanPolicy | None = None
    gives_way: tuple[str, ...] = ()
    service_path: str | None = None


class FieldTemplate(NamedTuple):
    """A value to set by JSON path in every `config.json`."""

    json_path: str
    value_template: str


class FilePatch(NamedTuple):
    """Values to set in one file, in this order."""

    file: str
    values: tuple[tuple[str, str], ...]


class TagProviderName(NamedTuple):
    """What a tag provider is called in the repository, and what this gateway calls it."""

    repository: str
    gateway: str


class InheritedTagTypes(NamedTuple):
    """Tag type definitions that a parent already has, by their path below the provider's folder of types."""

    folder: str
    names: frozenset[str]


class TransformPolicy(NamedTuple):
    """What happens to content between the repository and the gateway."""

    system_name: str | None = None
    fields: tuple[FieldTemplate, ...] = ()
    patches: tuple[FilePatch, ...] = ()
    tag_provider: TagProviderName | None = None
    inherited_types: InheritedTagTypes | None = None


class ExcludePolicy(NamedTuple):
    """Globs of paths that are neither written nor deleted.

    A mandatory pattern cannot be dropped by a user, and finding a match in what
    would be written fails the pass.
    """

    patterns: tuple[str, ...] = ()
    mandatory: tuple[str, ...] = ()


class DeletionPolicy(NamedTuple):
    """What may be deleted, and how much of it without approval: above either limit a sync waits."""

    orphans: OrphanPolicy = OrphanPolicy.OWNED
    budget_files: int = 50
    budget_percent: int = 50


class FilesIntent(NamedTuple):
    """Everything the engine needs to know about one gateway's files."""

    mappings: tuple[FileMapping, ...]
    transforms: TransformPolicy = TransformPolicy()
    excludes: ExcludePolicy = ExcludePolicy()
    deletion: DeletionPolicy = DeletionPolicy()
