"""The files of a gateway: mappings, transforms, excludes, deletion."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MappingKind(StrEnum):
    DIR = "dir"
    FILE = "file"


class MissingSourcePolicy(StrEnum):
    """The reaction of a mapping to a source that is missing in the repository."""

    FAIL = "fail"
    SKIP = "skip"
    CONFIG_MODE = "configMode"  # write a minimal collection with a `config-mode.json`


class OrphanPolicy(StrEnum):
    """Which files that are missing in the repository are deleted: all of them, or only those Stoker wrote."""

    MIRROR = "mirror"
    OWNED = "owned"


class BinaryPolicy(StrEnum):
    """The rule for files that hold code for the gateway."""

    ALLOW = "allow"
    REQUIRE_SIGNED = "requireSigned"
    REFUSE = "refuse"


class FileMapping(NamedTuple):
    """A folder or file of the repository and its destination below the data folder.

    Source and destination are templates; they become paths, and are checked as paths, only
    after rendering. `orphans` is a rule for a destination folder that other writers fill too;
    None leaves it to the `DeletionPolicy`. A later mapping overrides an earlier one, except
    for the files of `gives_way`, named by their path below the source: such a file is used
    only if no earlier mapping provides it. Without a `kind` the commit decides whether the
    source is a folder or a file. Mappings with the same `service_path` are the layout of one
    service, and the commit must contain at least one of their sources.
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
    """The name of a tag provider in the repository, and its name on this gateway."""

    repository: str
    gateway: str


class InheritedTagTypes(NamedTuple):
    """Tag type definitions that a parent already has, by their path below the provider's folder of types."""

    folder: str
    names: frozenset[str]


class TransformPolicy(NamedTuple):
    """Changes to content between the repository and the gateway."""

    system_name: str | None = None
    fields: tuple[FieldTemplate, ...] = ()
    patches: tuple[FilePatch, ...] = ()
    tag_provider: TagProviderName | None = None
    inherited_types: InheritedTagTypes | None = None


class ExcludePolicy(NamedTuple):
    """Globs of paths that are neither written nor deleted.

    A user cannot drop a mandatory pattern, and a sync fails if a file that it would write
    matches a mandatory pattern.
    """

    patterns: tuple[str, ...] = ()
    mandatory: tuple[str, ...] = ()


class DeletionPolicy(NamedTuple):
    """Which files may be deleted, and how many without approval: above either limit a sync waits."""

    orphans: OrphanPolicy = OrphanPolicy.OWNED
    budget_files: int = 50
    budget_percent: int = 50


class FilesIntent(NamedTuple):
    """Everything the engine needs to know about the files of one gateway."""

    mappings: tuple[FileMapping, ...]
    transforms: TransformPolicy = TransformPolicy()
    excludes: ExcludePolicy = ExcludePolicy()
    deletion: DeletionPolicy = DeletionPolicy()
