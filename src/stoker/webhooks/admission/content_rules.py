"""Checks templates, paths and globs of a resource with the agents' own parsers.

A schema sees only text where an agent sees a template. A value that no gateway could ever use is refused
here with the agents' own messages, before it is stored. A value that may still become valid (a variable
that does not exist yet) is only reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stoker.api.kinds.policies import InheritableSpec
from stoker.api.kinds.stoker import SyncProfileSpec
from stoker.api.spec.content import NormalizeSpec
from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.engine.match.globs import GlobSet
from stoker.engine.transform.json_path import JsonPath
from stoker.engine.transform.template_language import Template

_VARIABLE = "Vars."


def check_policies(spec: InheritableSpec) -> None:
    """Check the fields that Stoker, IgnitionSync and IgnitionSyncBase share."""
    with _error_context("spec.excludePatterns"):
        GlobSet(spec.exclude_patterns or ())
    normalize = spec.normalize or NormalizeSpec()
    for name, fields in (("fields", normalize.fields), ("templates", normalize.templates)):
        for index, one in enumerate(fields or ()):
            with _error_context(f"spec.normalize.{name}[{index}]"):
                JsonPath.parse(one.json_path)
                Template(one.value_template)


def check_profile(spec: SyncProfileSpec) -> tuple[str, ...]:
    """Raise for values that can never work; return messages about those that probably will not."""
    with _error_context("spec.excludePatterns"):
        GlobSet(spec.exclude_patterns or ())
    asked: dict[str, str] = {}
    for place, text in _paths(spec):
        with _error_context(place):
            asked |= dict.fromkeys(_parse_path(text).names, place)
    for index, patch in enumerate(spec.patches or ()):
        for path, value in patch.set.items():
            place = f"spec.patches[{index}].set[{path[:80]}]"
            with _error_context(place):
                JsonPath.parse(path)
                asked |= dict.fromkeys(Template(value).names, place)
    known = spec.vars or {}
    return tuple(
        f"{place} asks for .{name}, which spec.vars does not have"
        for name, place in sorted(asked.items())
        if name.startswith(_VARIABLE) and name.removeprefix(_VARIABLE) not in known
    )


def _paths(spec: SyncProfileSpec) -> Iterator[tuple[str, str]]:
    for index, one in enumerate(spec.mappings):
        yield f"spec.mappings[{index}].source", one.source
        yield f"spec.mappings[{index}].destination", one.destination
    if spec.deployment_mode:
        yield "spec.deploymentMode.source", spec.deployment_mode.source
        yield "spec.deploymentMode.destination", spec.deployment_mode.destination or ""
    for index, patch in enumerate(spec.patches or ()):
        yield f"spec.patches[{index}].file", patch.file


def _parse_path(text: str) -> Template:
    compiled = Template(text)
    if "Timestamp" in compiled.names:
        raise InvalidValue("a path must not depend on .Timestamp")
    if not compiled.names:
        RelPath.clean(text)
    return compiled


@contextmanager
def _error_context(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidValue as error:
        raise InvalidValue(f"{place}: {error.message}", reason=error.reason) from None
