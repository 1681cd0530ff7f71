"""Reads resources from files, for `stoker sync` and the other commands.

A refused file gets an error message that names the file, the document and the field. This
module accepts what the API server would accept, because limits, rules and messages are the
same (`validate.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from stoker.api.kinds.resource import CustomResource
from stoker.api.manifests.codec import explain_error
from stoker.api.manifests.validate import broken_rules, unknown_fields
from stoker.api.manifests.yaml import YamlValue, load_documents
from stoker.api.registry import CustomResourceKind, kind_for
from stoker.domain.errors import InvalidValue

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_SHOWN_PROBLEMS = 10


def read_manifests(data: bytes, file: str, *, strict: bool = True) -> tuple[CustomResource, ...]:
    """Return every resource of a file, in order. `strict` refuses fields that the kind does not have."""
    return tuple(
        _decode_document(document, f"{file}, document {number}", strict=strict)
        for number, document in enumerate(_parse_documents(data, file), start=1)
    )


def _parse_documents(data: bytes, file: str) -> Iterator[YamlValue]:
    try:
        yield from load_documents(data)
    except InvalidValue as error:
        raise InvalidValue(f"{file}: {error.message}") from None


def decode_manifest(
    manifest: bytes | Mapping[str, object], *, strict: bool = True, file: str = "manifest"
) -> CustomResource:
    """Return the only resource of a manifest."""
    if isinstance(manifest, Mapping):
        return _decode_document(manifest, file, strict=strict)
    found = read_manifests(manifest, file, strict=strict)
    if len(found) != 1:
        raise InvalidValue(f"{file}: holds {len(found)} documents where one is expected")
    return found[0]


def _decode_document(document: object, where: str, *, strict: bool) -> CustomResource:
    if not isinstance(document, Mapping):
        raise InvalidValue(f"{where}: is not an object with apiVersion, kind, metadata and spec")
    kind = _kind_of(document, where)
    problems = [f"{path}: unknown field" for path in unknown_fields(kind.model, document)] if strict else []
    try:
        resource = msgspec.convert(document, kind.model)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _manifest_error(where, [*problems, explain_error(error)]) from None
    problems += [str(problem) for problem in broken_rules(resource)]
    if not _NAME.fullmatch(resource.metadata.name):
        problems.append("metadata.name: must be lower-case letters, digits, '-' and '.'")
    if problems:
        raise _manifest_error(where, problems)
    return resource


def _kind_of(document: Mapping[str, object], where: str) -> CustomResourceKind:
    api_version, name = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(name, str):
        raise InvalidValue(f"{where}: apiVersion and kind must be given as text")
    try:
        return kind_for(api_version, name)
    except InvalidValue as error:
        raise InvalidValue(f"{where}: {error.message}") from None


def _manifest_error(where: str, problems: list[str]) -> InvalidValue:
    more = len(problems) - _SHOWN_PROBLEMS
    shown = problems[:_SHOWN_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
    return InvalidValue(f"{where}: {'; '.join(shown)}")
