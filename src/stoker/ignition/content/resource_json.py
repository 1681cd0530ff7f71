"""`resource.json`: parsing, comparison by meaning, and its signature.

A gateway stores in it the last author of each resource, the time, and a digest of the whole
resource. Writers differ in key order and spacing, so two manifests are compared by their
parsed content. The digest is computed, never guessed: it is SHA-256 over scope,
documentation, version, the three flags, each file by name and content, and each attribute
except the digest itself. Pure. A manifest that is too large, is no JSON, holds a key twice
or has another shape is refused with the reason, and callers then compare its bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stoker.domain.errors import InvalidValue

MANIFEST = "resource.json"
UNARY_MANIFEST = "unary-resource.json"
"""The same for a folder that is a resource and also holds others, such as a folder of tags."""
THUMBNAIL = "thumbnail.png"
MODIFICATION = "lastModification"
SIGNATURE = "lastModificationSignature"

MAX_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"
_SCOPES = {"N": 0, "G": 1, "D": 2, "C": 4, "A": 7}
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_INT32 = 1 << 31


class JsonNumber(NamedTuple):
    """A number in its original spelling, because the digest is over the spelling."""

    spelt: str


ResourceJsonValue = (
    None | bool | str | JsonNumber | list["ResourceJsonValue"] | dict[str, "ResourceJsonValue"]
)


@dataclass(frozen=True, slots=True)
class ResourceManifest:
    """The content of a `resource.json`."""

    said: Mapping[str, ResourceJsonValue]
    """All keys, including those of other writers."""
    files: tuple[str, ...]
    attributes: Mapping[str, ResourceJsonValue]

    @classmethod
    def read(cls, content: bytes) -> ResourceManifest:
        said = _parse_manifest(content)
        if not isinstance(said, dict):
            raise InvalidValue("is not an object")
        files, attributes = said.get("files", []), said.get("attributes", {})
        if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
            raise InvalidValue("has files that are not a list of names")
        if not isinstance(attributes, dict):
            raise InvalidValue("has attributes that are not an object")
        return cls(said, tuple(str(name) for name in files), attributes)

    @property
    def meaning(self) -> Mapping[str, ResourceJsonValue]:
        """The content without the last author, and without the thumbnail, which follows its view."""
        attributes = {
            key: value for key, value in self.attributes.items() if key not in (MODIFICATION, SIGNATURE)
        }
        files: list[ResourceJsonValue] = [*sorted(name for name in self.files if name != THUMBNAIL)]
        return {**self.said, "files": files, "attributes": attributes}

    @property
    def signed(self) -> str:
        """The stored signature; empty if there is none."""
        carried = self.attributes.get(SIGNATURE)
        return carried if isinstance(carried, str) else ""

    def signature(self, contents: Mapping[str, bytes]) -> str:
        """Compute the signature for this manifest and the contents of its files."""
        digest = hashlib.sha256()
        digest.update(struct.pack(">I", self._scope()))
        digest.update(_utf8(self._text("documentation")))
        digest.update(struct.pack(">i", self._version()))
        digest.update(bytes(self._flag(name) for name in ("locked", "restricted", "overridable")))
        for name in _java_sorted(self.files):
            if name not in contents:
                raise InvalidValue(f"names the file {name!r}, which is not there")
            digest.update(_utf8(name))
            digest.update(contents[name])
        for key in _java_sorted(key for key in self.attributes if key != SIGNATURE):
            digest.update(_utf8(key))
            digest.update(_utf8(_compact_json(self.attributes[key])))
        return digest.hexdigest()

    def _scope(self) -> int:
        letters, scope = self._text("scope"), 0
        for letter in letters:
            if letter not in _SCOPES:
                raise InvalidValue(f"has the scope {letters!r}, which is none of N, G, D, C and A")
            scope |= _SCOPES[letter]
        return scope

    def _version(self) -> int:
        version = self.said.get("version")
        if not isinstance(version, JsonNumber) or not _INTEGER.fullmatch(version.spelt):
            raise InvalidValue("has a version that is not a whole number")
        if not -_INT32 <= int(version.spelt) < _INT32:
            raise InvalidValue(f"has the version {version.spelt}, which is out of range")
        return int(version.spelt)

    def _text(self, name: str) -> str:
        text = self.said.get(name, "")
        if not isinstance(text, str):
            raise InvalidValue(f"has a {name} that is not a text")
        return text

    def _flag(self, name: str) -> bool:
        flag = self.said.get(name, False)
        if not isinstance(flag, bool):
            raise InvalidValue(f"has a {name} that is neither true nor false")
        return flag


def is_equivalent(one: bytes, other: bytes) -> bool:
    """Return whether two manifests mean the same; False for unreadable content unless the bytes are equal."""
    if one == other:
        return True
    try:
        return ResourceManifest.read(one).meaning == ResourceManifest.read(other).meaning
    except InvalidValue:
        return False


def _parse_manifest(content: bytes) -> ResourceJsonValue:
    if len(content) > MAX_BYTES:
        raise InvalidValue(f"is larger than {MAX_BYTES} bytes")
    try:
        parsed: ResourceJsonValue = json.loads(
            content.removeprefix(_BOM).decode(),
            object_pairs_hook=_unique_object,
            parse_int=JsonNumber,
            parse_float=JsonNumber,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError):
        raise InvalidValue("is not JSON") from None
    return parsed


def _unique_object(pairs: list[tuple[str, ResourceJsonValue]]) -> dict[str, ResourceJsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):  # parsers differ in which of two equal keys they keep
        raise InvalidValue("holds a key twice")
    return found


def _refuse_constant(constant: str) -> ResourceJsonValue:
    raise InvalidValue(f"holds {constant}, which is not JSON")


def _compact_json(value: ResourceJsonValue) -> str:
    if isinstance(value, JsonNumber):
        return value.spelt
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{_compact_json(key)}:{_compact_json(one)}" for key, one in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_compact_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _java_sorted(names: Iterable[str]) -> list[str]:
    """Sort like Java's String: by UTF-16 code units, not by code points."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("holds half of a surrogate pair") from None
