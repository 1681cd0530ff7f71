"""Parsers for the values of annotations, one per form, each with its own error message.

Annotations have no schema; these bounds are the only protection against the values that
a pod's author writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from stoker.api.to_intent.pod_facts import PodAnnotation
from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.domain.pods.images import ImageRef
from stoker.domain.quantities import parse_duration
from stoker.domain.refs import GitRef

E = TypeVar("E", bound=StrEnum)

MAX_PATTERNS = 256
MAX_PATTERN_LENGTH = 512
MAX_TEXT = 255
MAX_TEMPLATE = 4096
MAX_LIST = 64
MAX_PERIOD = 24 * 3600.0


def _matching_text(pattern: str, most: int, why: str) -> Callable[[PodAnnotation], str]:
    form = re.compile(pattern)

    def read(annotation: PodAnnotation) -> str:
        if len(annotation.value) > most or not form.fullmatch(annotation.value):
            raise annotation.refused(why)
        return annotation.value

    return read


_TAG_PROVIDER = r"[A-Za-z0-9_][A-Za-z0-9_ .-]*"

object_name = _matching_text(
    r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?",
    253,
    "it must be the name of an object: lower-case letters, digits, '-' and '.'",
)
volume_name = _matching_text(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63, "it must be the name of one of the pod's volumes"
)
kind_name = _matching_text(r"[A-Z][A-Za-z]*", 63, "it must be the kind of a resource, such as Stoker")
folder_name = _matching_text(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?<!\.)", MAX_TEXT, "it must be the name of one folder, such as prd-cloud"
)
tag_provider = _matching_text(
    _TAG_PROVIDER, MAX_TEXT, "it must be the name of a tag provider: letters, digits, spaces, '_', '-', '.'"
)
time_zone = _matching_text(
    r"[A-Za-z][A-Za-z0-9_+/-]*", 64, "it must be the name of a time zone, such as Europe/Berlin"
)
locale = _matching_text(r"[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*", 35, "it must be a locale, such as en-US")


def parse_switch(annotation: PodAnnotation) -> bool:
    """Accept only the two words that Kubernetes users write; `yes` might be a mistake."""
    if annotation.value not in ("true", "false"):
        raise annotation.refused('it must be "true" or "false"')
    return annotation.value == "true"


def enum_parser(kind: type[E]) -> Callable[[PodAnnotation], E]:
    def read(annotation: PodAnnotation) -> E:
        try:
            return kind(annotation.value)
        except ValueError:
            known = " or ".join(repr(str(member)) for member in kind if member)
            raise annotation.refused(f"it must be {known}") from None

    return read


def parse_port(annotation: PodAnnotation) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", annotation.value) or not 1 <= int(annotation.value) <= 65535:
        raise annotation.refused(
            "it must be a port from 1 to 65535; to write files without contacting the gateway set "
            "spec.gateway.filesOnly of the resource"
        )
    return int(annotation.value)


def parse_period(annotation: PodAnnotation) -> float:
    """Parse seconds as a plain number, or a duration."""
    text = annotation.value
    try:
        seconds = parse_duration(f"{text}s" if re.fullmatch(r"[0-9]{1,9}", text) else text)
    except InvalidValue:
        raise annotation.refused("it must be a number of seconds or a duration such as 30s") from None
    if not 1 <= seconds <= MAX_PERIOD:
        raise annotation.refused("it must be between one second and one day")
    return seconds


def parse_ref(annotation: PodAnnotation) -> GitRef:
    try:
        return GitRef(annotation.value)
    except InvalidValue as error:
        raise annotation.refused(f"it must be a branch, a tag or a commit: {error.message}") from None


def parse_image(annotation: PodAnnotation) -> str:
    try:
        return str(ImageRef.parse(annotation.value))
    except InvalidValue:
        raise annotation.refused(
            "it must be the address of an image: repository, and :tag or @sha256:…"
        ) from None


def parse_service_path(annotation: PodAnnotation) -> str:
    """Return a folder of the repository in canonical form; the empty path is the repository itself."""
    try:
        return RelPath.clean(annotation.value)
    except InvalidValue as error:
        raise annotation.refused(f"it must be a folder inside the repository: {error.message}") from None


def parse_line(annotation: PodAnnotation) -> str:
    if len(annotation.value) > MAX_TEXT or not annotation.value.isprintable():
        raise annotation.refused(f"it must be at most {MAX_TEXT} printable characters")
    return annotation.value


def parse_literal(annotation: PodAnnotation) -> str:
    """Parse text that is put into a template and must be rendered unchanged."""
    if "{{" in annotation.value or "}}" in annotation.value:
        raise annotation.refused("it is used literally; put a template into system-name-template")
    return parse_line(annotation)


def parse_template(annotation: PodAnnotation) -> str:
    if len(annotation.value) > MAX_TEMPLATE or not annotation.value.isprintable():
        raise annotation.refused(f"it must be a template of at most {MAX_TEMPLATE} printable characters")
    return annotation.value


def parse_digests(annotation: PodAnnotation) -> tuple[str, ...]:
    return _parse_list(
        annotation, r"[A-Za-z0-9:_-]{8,128}", "it must be digests of plans, separated by commas"
    )


def parse_commits(annotation: PodAnnotation) -> tuple[str, ...]:
    return _parse_list(
        annotation, r"[0-9a-f]{40}|[0-9a-f]{64}", "it must be full commit ids, separated by commas"
    )


def parse_tag_providers(annotation: PodAnnotation) -> tuple[str, ...]:
    return _parse_list(
        annotation,
        _TAG_PROVIDER,
        "it must be names of tag providers (letters, digits, spaces, '_', '-', '.')",
    )


def parse_patterns(annotation: PodAnnotation) -> tuple[str, ...]:
    """Parse globs separated by commas; a comma inside braces belongs to its glob."""
    found = [part.strip() for part in _split_outside_braces(annotation)]
    kept = tuple(part for part in found if part)
    if len(kept) > MAX_PATTERNS or any(len(part) > MAX_PATTERN_LENGTH for part in kept):
        raise annotation.refused(
            f"it may hold at most {MAX_PATTERNS} globs of at most {MAX_PATTERN_LENGTH} characters"
        )
    if not all(part.isprintable() for part in kept):
        raise annotation.refused("a glob must not hold a control character")
    return kept


def _split_outside_braces(annotation: PodAnnotation) -> list[str]:
    parts, depth, start, escaped = [], 0, 0, False
    for index, letter in enumerate(annotation.value):
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(annotation.value[start:index])
            start = index + 1
        if depth < 0:
            raise annotation.refused("it has a '}' without its '{'")
    if depth:
        raise annotation.refused("it has a '{' without its '}'")
    return [*parts, annotation.value[start:]]


def _parse_list(annotation: PodAnnotation, form: str, why: str) -> tuple[str, ...]:
    found = tuple(part for part in map(str.strip, annotation.value.split(",")) if part)
    if len(found) > MAX_LIST:
        raise annotation.refused(f"it may hold at most {MAX_LIST} entries")
    if not all(len(part) <= MAX_TEXT and re.fullmatch(form, part) for part in found):
        raise annotation.refused(why)
    return found
