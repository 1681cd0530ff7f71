"""Where an object's file lies: the one function that makes a path, and its inverse.

    {baseFolder}/{group or core}/{version}/{resource}/{namespace}/{name}.yaml

An object that is in no namespace has no such part. Two objects never share a path,
and none is hidden by another on a filesystem that folds case or normalizes text:
each part is written in lower-case ASCII, and every byte beyond `a-z 0-9 . _ -` as `%`
and two hexadecimal digits. So `system:node` is `system%3anode.yaml`, which also a
machine that does not allow `:` in names can check out. Escaped are, too,

- the first letter of a part that Windows keeps for a device (`aux`, `com1.v1`),
- a dot at the beginning or the end of a part,
- the first letter of a group that is really called `core`.

The API allows names longer than the 255 bytes of a file's name. The rest of a long
one stands in the next part; `+` ends the one and begins the other.

`object_at_path` gives an object back only for a path that `manifest_path` would give it: whatever
else lies in a base folder is somebody else's and is never touched (C-156).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath

SUFFIX = ".yaml"
CORE = "core"
MAX_PART_LENGTH = 200
"""Of a name before its suffix; the rest of a longer one stands in the next part."""

_CONTINUATION_MARK = "+"
_PLAIN = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]*[a-z0-9_-])?")
_ESCAPED = re.compile(rb"[^a-z0-9._-]")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")
_WELL_FORMED = re.compile(r"(?:[a-z0-9._-]|%[0-9a-f]{2})+")
# What may stand in front of a name: a folder of somebody else rarely looks like this.
_GROUP = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_VERSION = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")


class ManifestKey(NamedTuple):
    """Which object: its kind as the API addresses it, and its name there."""

    group: str
    version: str
    resource: str
    namespace: str
    """Empty for an object that is in no namespace."""
    name: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """As it stands in messages: `apps/v1/deployments/shop/web`."""
        return "/".join(part for part in (self.group or CORE, *self[1:]) if part)


def manifest_path(key: ManifestKey, base: str) -> RelPath:
    """The path of the object's file below `base`, which is a canonical path or empty."""
    folders = [base] if base else []
    folders.append("%63ore" if key.group == CORE else _path_part(key.group) if key.group else CORE)
    folders += (_path_part(key.version), _path_part(key.resource))
    if key.namespace:
        folders += _split_name(_path_part(key.namespace))
    path = "/".join((*folders, *_split_name(_path_part(key.name)))) + SUFFIX
    return RelPath(path)


def object_at_path(path: str, base: str) -> ManifestKey | None:
    """The object whose file lies at a path; None if no object's file would lie there."""
    if base:
        if not path.startswith(base + "/"):
            return None
        path = path[len(base) + 1 :]
    if not path.endswith(SUFFIX):
        return None
    parts = path[: -len(SUFFIX)].replace(f"{_CONTINUATION_MARK}/{_CONTINUATION_MARK}", "").split("/")
    if len(parts) not in (4, 5) or not all(map(_WELL_FORMED.fullmatch, parts)):
        return None
    try:
        group, version, resource, *rest = (unquote_to_bytes(part).decode() for part in parts)
        key = ManifestKey(
            "" if parts[0] == CORE else group, version, resource, rest[0] if rest[1:] else "", rest[-1]
        )
        canonical = manifest_path(key, "") == path
    except (InvalidValue, UnicodeDecodeError):
        return None
    plausible = _GROUP.fullmatch(group) and _VERSION.fullmatch(version) and _VERSION.fullmatch(resource)
    return key if canonical and plausible else None


def _path_part(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f"%{ord(text[0]):02x}{text[1:]}" if _DEVICE.match(text) else text
    if not text or "/" in text or text in {".", ".."}:
        raise InvalidValue(f"{text[:80]!r} cannot be part of the path of a file")
    try:
        escaped = _ESCAPED.sub(lambda byte: b"%%%02x" % byte[0][0], text.encode()).decode()
    except UnicodeEncodeError:
        raise InvalidValue(f"the name {text[:80]!r} is not valid Unicode") from None
    if escaped[0] == ".":
        escaped = f"%2e{escaped[1:]}"
    if escaped[-1] == ".":
        escaped = f"{escaped[:-1]}%2e"
    return f"%{ord(escaped[0]):02x}{escaped[1:]}" if _DEVICE.match(escaped) else escaped


def _split_name(part: str) -> Iterator[str]:
    """A long name in pieces, none of which cuts an escape in two."""
    while len(part) > MAX_PART_LENGTH:
        escape = part.rfind("%", MAX_PART_LENGTH - 2, MAX_PART_LENGTH)
        end = escape if escape >= 0 else MAX_PART_LENGTH
        yield part[:end] + _CONTINUATION_MARK
        part = _CONTINUATION_MARK + part[end:]
    yield part
