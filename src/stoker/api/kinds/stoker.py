"""`Stoker` and the `SyncProfile`s that its gateways name."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from stoker.api.field_docs import Block, FieldRule, declared_default, describe, list_bounds, map_bounds
from stoker.api.kinds.resource import ConditionedStatus, CustomResource, LabelledResource
from stoker.api.kinds.sync import COMPLETE, SyncSpec
from stoker.api.scalars import (
    Count,
    DestinationPath,
    GlobList,
    ObjectName,
    RelativePath,
    ValueTemplate,
    Variables,
)
from stoker.api.spec.status import SyncStatus

GROUP = "stoker.io"


class StokerSpec(SyncSpec):
    """The source, and how it is delivered to gateways; SyncProfiles map its files to gateway paths."""

    RULES: ClassVar[tuple[FieldRule, ...]] = COMPLETE


class Stoker(LabelledResource):
    """Keeps the gateways that name it in sync with a git repository, each with its own SyncProfile."""

    api_version: Literal["stoker.io/v1alpha1"] = declared_default("stoker.io/v1alpha1")
    kind: Literal["Stoker"] = declared_default("Stoker")
    spec: Annotated[
        StokerSpec, describe("The source, and how it is delivered to the gateways that name this resource.")
    ]
    status: Annotated[SyncStatus | None, describe("Progress of the sync; written by the controller.")] = None


class MappingSpec(Block):
    """One file or folder of the repository and its path on the gateway."""

    source: Annotated[
        RelativePath,
        describe("Path in the repository; fields such as {{.Vars.line}} and {{.Namespace}} are allowed."),
    ]
    destination: Annotated[
        DestinationPath, describe("Path below the gateway's data folder; the same fields are allowed.")
    ]
    type: Annotated[
        Literal["dir", "file"] | None,
        describe("Whether the source must be a folder or a file; left out: what it is at the commit."),
    ] = None
    required: Annotated[
        bool | None,
        describe(
            "True makes a missing source an error. If false, the mapping is skipped and nothing below its "
            "destination is deleted."
        ),
    ] = None
    template: Annotated[
        bool | None,
        describe("Fill in fields such as {{.GatewayName}} inside the files, too; binary files are refused."),
    ] = None
    orphans: Annotated[
        Literal["mirror", "owned"] | None,
        describe(
            "What happens to files below the destination that no sync wrote; overrides spec.orphans. owned: "
            "they are kept. mirror: they are deleted."
        ),
    ] = None


class PatchSpec(Block):
    """Values to set in JSON or YAML files, after all mappings."""

    file: Annotated[
        RelativePath,
        describe("The file, or a glob of files, below the gateway's data folder; fields are allowed."),
    ]
    set: Annotated[
        Annotated[
            dict[str, ValueTemplate],
            map_bounds(
                64,
                FieldRule(
                    "size(self) > 0 && self.all(path, size(path) > 0)",
                    "must contain at least one value, each with a non-empty path",
                    lambda paths: bool(paths) and all(paths),
                ),
            ),
        ],
        describe(
            'Path of each value, such as .system.name, .ports[0] or .["a.b"], and the value with fields '
            "such as {{.GatewayName}}. The existing value keeps its type if the new value can be converted "
            "to it; a missing last key is added. Values are set in the order of their paths."
        ),
    ]


class DeploymentModeSpec(Block):
    """An overlay that is applied after all mappings."""

    source: Annotated[RelativePath, describe("Folder in the repository; fields are allowed.")]
    destination: Annotated[
        DestinationPath | None, describe("Path below the gateway's data folder; fields are allowed.")
    ] = None


class ProfileDependency(Block):
    """A profile whose gateways must be synced first."""

    profile_name: Annotated[ObjectName, describe("Name of a SyncProfile in the same namespace.")]


class SyncProfileSpec(Block):
    """Mappings from files of the repository to files of a gateway."""

    mappings: Annotated[
        Annotated[tuple[MappingSpec, ...], list_bounds(256, least=1)],
        describe("Files and folders in order; later ones override earlier ones."),
    ]
    deployment_mode: Annotated[
        DeploymentModeSpec | None, describe("An overlay for this deployment mode; it is the last mapping.")
    ] = None
    patches: Annotated[
        Annotated[tuple[PatchSpec, ...], list_bounds(64)] | None,
        describe("Values to set in JSON and YAML files, in this order."),
    ] = None
    vars: Annotated[Variables | None, describe("Values for templates, available as {{.Vars.name}}.")] = None
    exclude_patterns: Annotated[
        GlobList | None,
        describe(
            "Files that are never synced, in addition to those of the Stoker and the built-in ones.",
            stability="experimental",
        ),
    ] = None
    depends_on: Annotated[
        Annotated[tuple[ProfileDependency, ...], list_bounds(32, keyed_by=("profileName",))] | None,
        describe("Profiles whose gateways must be synced before those of this one; cycles are refused."),
    ] = None
    sync_period: Annotated[
        Annotated[int, Meta(ge=1, le=86400)] | None,
        describe(
            (
                "Seconds between two checks of the agent when no event arrives; an annotation on the pod "
                "takes precedence."
            ),
            stability="experimental",
        ),
    ] = None
    dry_run: Annotated[
        bool | None,
        describe("Compute and report changes without writing them.", stability="experimental"),
    ] = None
    paused: Annotated[bool | None, describe("True pauses the gateways that use this profile.")] = None


class SyncProfileStatus(ConditionedStatus):
    """Use of the profile."""

    gateway_count: Annotated[Count | None, describe("Number of gateways that name this profile.")] = None


class SyncProfile(CustomResource):
    """An ordered list of mappings, for the gateways that name it in their annotation sync-profile."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!self.?spec.?dependsOn.hasValue() "
            "|| self.spec.dependsOn.all(dependency, dependency.profileName != self.metadata.name)",
            "spec.dependsOn must not name the profile itself",
            lambda it: all(one.profile_name != it.metadata.name for one in it.spec.depends_on or ()),
        ),
    )

    api_version: Literal["stoker.io/v1alpha1"] = declared_default("stoker.io/v1alpha1")
    kind: Literal["SyncProfile"] = declared_default("SyncProfile")
    spec: Annotated[SyncProfileSpec, describe("Mappings from files of the repository to files of a gateway.")]
    status: Annotated[
        SyncProfileStatus | None, describe("Use of the profile; written by the controller.")
    ] = None
