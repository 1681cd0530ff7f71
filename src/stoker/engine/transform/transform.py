"""Transforms the content of files between the repository and the gateway.

A `TransformSet` is built once per sync from an intent's transforms, with all templates rendered and all
paths parsed, so that an error in a setting is found before any file is processed. For each file to deliver
it returns a `FileTransform`, or None where the content is delivered unchanged, which is the case for nearly
all files. The order within a transform is fixed: content template, inherited tag types, tag provider name,
`normalize` (systemName, then its fields as listed), patches as listed, each with its values in the order of
the intent. So a value that a user sets is never changed by a later step.

- `normalize` applies to every `config.json`, `config.yaml` and `config.yml` at any depth. It sets existing
  values; a file without the path stays as it is.
- The tag provider is renamed in every `config.json` at any depth.
- Inherited tag types are removed from every `.json` below the provider's folder of types.
- `patches` name files below the data folder, one file or a glob. They are stricter: a missing last key is
  added, a missing parent is an error. A file that a glob matches is patched only if its suffix is that of
  JSON or YAML; a file that is named in full is YAML by its suffix and JSON otherwise.

Nothing here reads or writes a file. A transform without a content template is idempotent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.files import FilePatch, TagProviderName, TransformPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.engine.match.globs import GlobSet
from stoker.engine.transform.json_path import JsonPath
from stoker.engine.transform.template_language import template
from stoker.engine.transform.templates import fill_template

CONFIG = "config.json"
NORMALIZED = frozenset({CONFIG, "config.yaml", "config.yml"})
SYSTEM_NAME = ".systemName"

_YAML = (".yaml", ".yml")
_STRUCTURED = (".json", *_YAML)
_MANIFESTS = ("resource.json", "unary-resource.json")
_WILDCARD_CHARACTERS = r"[*?\[\]{}\\]"


def is_normalized(path: str) -> bool:
    """Whether `normalize` applies to this file."""
    return path.rpartition("/")[2] in NORMALIZED


class ValueEdit(NamedTuple):
    """A value to set."""

    path: JsonPath
    value: str
    adds: bool


class FileTransform(NamedTuple):
    """The transform of one file's content."""

    file: str
    edits: tuple[ValueEdit, ...]
    values: TemplateValues | None
    """The values for fields in the content itself; None if it is not a template."""
    provider: TagProviderName | None = None
    inherited: tuple[str, frozenset[str]] | None = None
    """The file's folder below its tag provider, and the types to remove from it."""

    def apply(self, content: bytes) -> bytes:
        """Return the content for the gateway; the same object where nothing changes."""
        try:
            if self.values is not None:
                content = fill_template(content, self.values)
            if self.inherited is not None:
                content = _remove_types(content, *self.inherited)
            if self.provider is not None:
                content = _rename_provider(content, self.provider)
            set_value = _yaml_set_value if self.file.endswith(_YAML) else _json_set_value
            for edit in self.edits:
                content = set_value(content, edit.path, edit.value, adds=edit.adds)
        except InvalidValue as error:
            raise InvalidValue(f"{self.file}: {error.message}", reason=error.reason) from None
        return content


class _ResolvedPatch(NamedTuple):
    """A patch with its file and values rendered."""

    label: str
    exact: str
    glob: GlobSet | None
    edits: tuple[ValueEdit, ...]

    def is_for(self, destination: str) -> bool:
        if self.glob is None:
            return destination == self.exact
        return destination.endswith(_STRUCTURED) and self.glob.matches(destination)

    def is_for_any(self, destinations: Collection[str]) -> bool:
        if self.glob is None:
            return self.exact in destinations
        return any(map(self.is_for, destinations))


class TransformSet:
    """The transforms of one intent for one commit."""

    __slots__ = (
        "_endings",
        "_files",
        "_inherited",
        "_normalize",
        "_patches",
        "_provider",
        "_types",
        "_values",
        "_wild",
    )

    def __init__(self, transforms: TransformPolicy, values: TemplateValues) -> None:
        self._values = values
        normalize = tuple(_normalize(transforms))
        self._normalize = tuple(_edit(path, value, values, adds=False) for path, value in normalize)
        self._provider = transforms.tag_provider
        self._endings = tuple(NORMALIZED) if normalize else (CONFIG,) if self._provider else ()
        inherited = transforms.inherited_types
        self._inherited = inherited.names if inherited is not None else frozenset()
        self._types = RelPath.clean(inherited.folder) + "/" if inherited is not None else None
        self._patches = tuple(_patch(index, one, values) for index, one in enumerate(transforms.patches))
        self._files = {patch.exact for patch in self._patches if patch.glob is None}
        self._wild = tuple(patch for patch in self._patches if patch.glob is not None)

    def recipe(self, destination: str, *, template: bool) -> FileTransform | None:
        """Return the transform of a destination; None if there is none. Called for every file of a sync."""
        normalized = destination.endswith(self._endings) and is_normalized(destination)
        provider = self._provider if normalized and destination.endswith(CONFIG) else None
        inherited = self._inherited_in(destination) if self._types is not None else None
        patched = self.patches(destination)
        if not (template or normalized or patched or inherited):
            return None
        patches = [patch for patch in self._patches if patch.is_for(destination)] if patched else []
        edits = (
            *(self._normalize if normalized else ()),
            *(edit for patch in patches for edit in patch.edits),
        )
        return FileTransform(destination, edits, self._values if template else None, provider, inherited)

    def patches(self, destination: str) -> bool:
        """Whether a patch applies to this destination."""
        return destination in self._files or (
            bool(self._wild) and any(patch.is_for(destination) for patch in self._wild)
        )

    def _inherited_in(self, destination: str) -> tuple[str, frozenset[str]] | None:
        folder, _, name = destination.rpartition("/")
        if self._types is None or not f"{folder}/".startswith(self._types):
            return None
        if not name.endswith(".json") or name in _MANIFESTS:
            return None
        return folder[len(self._types) :], self._inherited

    def unused_patches(self, delivered: Collection[str]) -> tuple[str, ...]:
        """Return the labels of the patches that apply to none of these files."""
        return tuple(patch.label for patch in self._patches if not patch.is_for_any(delivered))


def _normalize(transforms: TransformPolicy) -> Iterator[tuple[str, str]]:
    if transforms.system_name is not None:
        yield SYSTEM_NAME, transforms.system_name
    for one in transforms.fields:
        yield one.json_path, one.value_template


def _edit(path: str, value: str, values: TemplateValues, *, adds: bool) -> ValueEdit:
    parsed = JsonPath.parse(path)
    try:
        return ValueEdit(parsed, template(value).render(values), adds)
    except InvalidValue as error:
        raise InvalidValue(
            f"the value for {parsed.text} cannot be made: {error.message}", reason=error.reason
        ) from None


def _patch(index: int, patch: FilePatch, values: TemplateValues) -> _ResolvedPatch:
    label = f"patches[{index}] ({patch.file})"
    try:
        exact, glob = _target_files(patch.file, values)
        edits = tuple(_edit(path, value, values, adds=True) for path, value in patch.values)
    except InvalidValue as error:
        raise InvalidValue(f"{label}: {error.message}", reason=error.reason) from None
    return _ResolvedPatch(label, exact, glob, edits)


def _target_files(written: str, values: TemplateValues) -> tuple[str, GlobSet | None]:
    """Return the target file, or the glob of files; wildcard characters in a template value are literal."""
    compiled = template(written)
    if "Timestamp" in compiled.names:
        raise InvalidValue("a path must not depend on .Timestamp")
    text = compiled.render(values)
    if not re.search(_WILDCARD_CHARACTERS, text) and not text.endswith("/"):
        return RelPath.clean(text), None
    pattern = compiled.render(values, lambda value: re.sub(_WILDCARD_CHARACTERS, r"\\\g<0>", value))
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return "", GlobSet(("/".join(parts) + "/" * pattern.endswith("/"),))


def _remove_types(content: bytes, folder: str, names: frozenset[str]) -> bytes:
    from stoker.engine.transform import tag_types  # noqa: PLC0415 - loads a parser, only for gateways with a parent

    return tag_types.remove_types(content, folder, names)


def _rename_provider(content: bytes, provider: TagProviderName) -> bytes:
    from stoker.engine.transform import tag_provider  # noqa: PLC0415 - loads a parser, only for gateways that rename the provider

    return tag_provider.rename_provider(content, provider.repository, provider.gateway)


def _json_set_value(content: bytes, path: JsonPath, value: str, *, adds: bool) -> bytes:
    from stoker.engine.transform import json_edit  # noqa: PLC0415 - loads a parser, only for gateways with values to set

    return json_edit.set_value(content, path, value, adds=adds)


def _yaml_set_value(content: bytes, path: JsonPath, value: str, *, adds: bool) -> bytes:
    from stoker.engine.transform import yaml_edit  # noqa: PLC0415 - loads a slow parser, only for the few gateways with YAML files

    return yaml_edit.set_value(content, path, value, adds=adds)
