"""Content of a gateway besides its own service: `spec.shared`, `spec.additionalFiles`, `spec.normalize`."""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, describe, list_bounds, text_bounds
from stoker.api.scalars import DestinationPath, JsonPathText, RelativePath, ValueTemplate


class SharedExternalResources(Block):
    """Resources for the collection `external`."""

    enabled: Annotated[bool | None, describe("Whether this part is synced.")] = None
    source: Annotated[RelativePath | None, describe("Folder in the repository.")] = None
    create_fallback: Annotated[
        bool | None,
        describe("If the folder is missing, create a minimal collection that holds only config-mode.json."),
    ] = None


class SharedScripts(Block):
    """Script libraries for the gateway's project."""

    enabled: Annotated[bool | None, describe("Whether this part is synced.")] = None
    source: Annotated[RelativePath | None, describe("Folder in the repository.")] = None
    dest_path: Annotated[
        DestinationPath | None,
        describe(
            "Folder below projects/{projectName}/, where {projectName} is the last part of the service path."
        ),
    ] = None


class SharedUdts(Block):
    """Tag type definitions; an annotation on the pod picks the tag provider."""

    enabled: Annotated[bool | None, describe("Whether this part is synced.")] = None
    source: Annotated[RelativePath | None, describe("Folder in the repository.")] = None


_ModuleFileName = Annotated[str, text_bounds(255, least=1)]


class SharedModules(Block):
    """Module files for user-lib/modules; the gateway has to restart to load them."""

    enabled: Annotated[bool | None, describe("Whether this part is synced.")] = None
    source: Annotated[RelativePath | None, describe("Folder in the repository that holds .modl files.")] = (
        None
    )
    order: Annotated[
        Annotated[tuple[_ModuleFileName, ...], list_bounds(64)] | None,
        describe("File names in the order in which they are installed; the others follow by name."),
    ] = None


class SharedContentSpec(Block):
    """Content that every gateway of the resource gets."""

    external_resources: Annotated[
        SharedExternalResources | None, describe("Resources for config/resources/external.")
    ] = None
    scripts: Annotated[SharedScripts | None, describe("Script libraries for the gateway's project.")] = None
    udts: Annotated[SharedUdts | None, describe("Tag type definitions for the pod's tag provider.")] = None
    modules: Annotated[
        SharedModules | None, describe("Modules for user-lib/modules.", stability="experimental")
    ] = None


class AdditionalFile(Block):
    """An additional file or folder for every gateway."""

    source: Annotated[RelativePath, describe("Path in the repository.")]
    dest: Annotated[DestinationPath, describe("Path below the gateway's data folder.")]
    type: Annotated[
        Literal["file", "dir"] | None,
        describe("Whether the source must be a file or a folder; left out: what it is at the commit."),
    ] = None
    orphans: Annotated[
        Literal["mirror", "owned"] | None,
        describe(
            "What happens to files below the destination that no sync wrote; overrides spec.orphans. owned: "
            "they are kept. mirror: they are deleted."
        ),
    ] = None


AdditionalFiles = Annotated[tuple[AdditionalFile, ...], list_bounds(256)]


class NormalizeField(Block):
    """One value to set in every config.json, config.yaml and config.yml."""

    json_path: Annotated[
        JsonPathText,
        describe(
            'Path of the value, such as .gateways[0].hostname or .["a.b"]; a file without this path is '
            "not changed."
        ),
    ]
    value_template: Annotated[
        ValueTemplate,
        describe(
            "The value, with fields such as {{.GatewayName}}, {{.Namespace}} and {{.SiteNumber}}. The "
            "existing value keeps its type if the new value can be converted to it."
        ),
    ]


_NormalizeFields = Annotated[tuple[NormalizeField, ...], list_bounds(64)]


class NormalizeSpec(Block):
    """Values that differ per gateway, set in config.json and YAML files without changing any other byte."""

    system_name: Annotated[bool | None, describe("Set systemName to the gateway's name.")] = None
    fields: Annotated[_NormalizeFields | None, describe("Alias of templates; both lists are applied.")] = None
    templates: Annotated[_NormalizeFields | None, describe("Additional values to set, in this order.")] = None
