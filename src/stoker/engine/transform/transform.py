"""What happens to the content of a file between the repository and the gateway.

Built once per pass from an intent's transforms, with all templates rendered and all
paths read, so that a mistake in a setting is found before any file is. For each file
that will be delivered it gives a `FileTransform`, or nothing where the content goes through
untouched, which is the answer for nearly all of them. The order within a recipe never
varies: content template, inherited tag types, the tag provider's name, `normalize`
(systemName, then its fields as they are listed), patches as they are listed, each with
its values in the order of the intent: what a person sets is never changed again.

- `normalize` is for every `config.json` at any depth, and for `config.yaml` and
  `config.yml` likewise. It sets what is there; a file without the path stays as it is.
- the tag provider is renamed in every `config.json` at any depth.
- inherited tag types are taken out of every `.json` below the provider's folder of types.
- `patches` name files below the data folder, one or by a glob. They ask for more: a
  missing last key is added, a missing parent is an error. What a glob matches is
  patched only if its name says JSON or YAML; a file that is named in full is taken
  for YAML by its suffix and for JSON otherwise.

Nothing here reads or writes a file, and a recipe without a content template applied to
its own outcome changes nothing.
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
    """Whether `normalize` is about the file of this path."""
    return path.rpartition("/")[2] in NORMALIZED


class ValueEdit(NamedTuple):
    """A value to set."""

    path: JsonPath
    value: str
    adds: bool


class FileTransform(NamedTuple):
    """What is done to the content of one file."""

    file: str
    edits: tuple[ValueEdit, ...]
    values: TemplateValues | None
    """For the fields in the content itself; None if it is no template."""
    provider: TagProviderName | None = None
    inherited: tuple[str, frozenset[str]] | None = None
    """Where it lies below its tag provider, and the types that are not to be in it."""

    def apply(self, content: bytes) -> bytes:
        """The content as the gateway shall have it; the very same object where nothing changes."""
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
    """A patch whose file and values are known."""

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
        """What to do with the file that goes there; None if nothing. Called for every file of a pass."""
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
        """Whether a patch is for the file that goes there."""
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
        """The patches that are for none of these files, as a person would name them."""
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
    """The file that is meant, or the glob of files. A value stands for itself, never for a wildcard."""
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
    from stoker.engine.transform import tag_types  # noqa: PLC0415 - a parser, for those who have a parent

    return tag_types.remove_types(content, folder, names)


def _rename_provider(content: bytes, provider: TagProviderName) -> bytes:
    from stoker.engine.transform import tag_provider  # noqa: PLC0415 - a parser, for those who have another name

    return tag_provider.rename_provider(content, provider.repository, provider.gateway)


def _json_set_value(content: bytes, path: JsonPath, value: str, *, adds: bool) -> bytes:
    from stoker.engine.transform import json_edit  # noqa: PLC0415 - a parser, for those who have something to set

    return json_edit.set_value(content, path, value, adds=adds)


def _yaml_set_value(content: bytes, path: JsonPath, value: str, *, adds: bool) -> bytes:
    from stoker.engine.transform import yaml_edit  # noqa: PLC0415 - few gateways have YAML files, and the parser is slow to load

    return yaml_edit.set_value(content, path, value, adds=adds)
