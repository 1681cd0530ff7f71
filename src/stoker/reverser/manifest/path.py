"""The path of an object's file, and the object of a path. Only this module builds such paths.

    {baseFolder}/{group or core}/{version}/{resource}/{namespace}/{name}.yaml

A cluster-scoped object has no namespace part. Two objects never share a path, and no file hides another on a
filesystem that ignores case or normalizes Unicode: each part is lower-case ASCII, and every byte beyond `a-z
0-9 . _ -` becomes `%` and two hexadecimal digits. So `system:node` is `system%3anode.yaml`, which a system
that does not allow `:` in file names can check out too. These are escaped as well:

- the first letter of a part that Windows reserves for a device (`aux`, `com1.v1`),
- a dot at the beginning or the end of a part,
- the first letter of a group that is really called `core`.

The API allows names longer than the 255 bytes of a file name. The rest of a long name continues in the next
path part; a `+` ends the first part and begins the second.

`object_at_path` returns an object only for a path that `manifest_path` would build for it. Every other file
in a base folder belongs to other people and must never be touched.
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
"""The most characters of a name before its suffix; the rest of a longer name continues in the next part."""

_CONTINUATION_MARK = "+"
_PLAIN = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]*[a-z0-9_-])?")
_ESCAPED = re.compile(rb"[^a-z0-9._-]")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")
_WELL_FORMED = re.compile(r"(?:[a-z0-9._-]|%[0-9a-f]{2})+")
# The allowed group, version and resource parts: a folder that people made rarely looks like this.
_GROUP = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_VERSION = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")


class ManifestKey(NamedTuple):
    """Identifies an object by its kind, as the API addresses it, its namespace and its name."""

    group: str
    version: str
    resource: str
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """Format the key for messages: `apps/v1/deployments/shop/web`."""
        return "/".join(part for part in (self.group or CORE, *self[1:]) if part)


def manifest_path(key: ManifestKey, base: str) -> RelPath:
    """Return the path of the object's file below `base`, which is a canonical path or empty."""
    folders = [base] if base else []
    folders.append("%63ore" if key.group == CORE else _path_part(key.group) if key.group else CORE)
    folders += (_path_part(key.version), _path_part(key.resource))
    if key.namespace:
        folders += _split_name(_path_part(key.namespace))
    path = "/".join((*folders, *_split_name(_path_part(key.name)))) + SUFFIX
    return RelPath(path)


def object_at_path(path: str, base: str) -> ManifestKey | None:
    """Return the object whose file has this path; None if no object's file would have it."""
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
    """Split a long name into pieces, never inside an escape."""
    while len(part) > MAX_PART_LENGTH:
        escape = part.rfind("%", MAX_PART_LENGTH - 2, MAX_PART_LENGTH)
        end = escape if escape >= 0 else MAX_PART_LENGTH
        yield part[:end] + _CONTINUATION_MARK
        part = _CONTINUATION_MARK + part[end:]
    yield part
