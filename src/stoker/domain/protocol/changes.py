"""What somebody changed on a gateway, on its way to the controller.

A set holds whole files, as the repository shall have them, with what they were made
from. It travels compressed, in chunks that fit into a ConfigMap beside those of other
gateways, and is believed only whole: each chunk says which it is and how many there
are, and the set is read against its own digest. It comes from a pod, so everything is
bounded, before it is unpacked and while it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.domain.protocol.json import compact, json_object, shaped, shown
from stoker.domain.refs import CommitId

CHANGE_MAPS = 8
CHUNK_BYTES = 900 << 10
MAX_CHUNKS = CHANGE_MAPS
MAX_SET_FILES = 5000
MAX_UNPACKED = 64 << 20
PLAIN, PROGRAM = "100644", "100755"
_HEADER = 256

_ID = re.compile(r"\d{8}-\d{6}(-\d{1,4})?")
_BLOB = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})?")
_WORDS = ("path", "repoPath", "action", "base", "blob", "mode", "baseMode", "content")


class Action(StrEnum):
    WRITTEN = "written"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file as the gateway has it, and where it belongs."""

    path: str
    """Below the data folder."""
    repo_path: str
    """Below the root of the repository."""
    action: Action
    base: str = ""
    """Blob id of `repo_path` in the base commit; empty: it was not there."""
    blob: str = ""
    """Blob id of the content; empty: it is deleted."""
    content: bytes = b""
    mode: str = PLAIN
    base_mode: str = ""
    """What the file had been given; empty: nobody says, or it was not there."""

    @property
    def executable(self) -> bool:
        return self.mode == PROGRAM

    @property
    def changes_mode(self) -> bool:
        """Whether somebody changed on the gateway whether it may be executed."""
        return self.base_mode not in ("", self.mode)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Everything that one gateway has to say at one time."""

    id: str
    """`YYYYMMDD-HHMMSS`, unique for the gateway."""
    gateway: str
    base_commit: CommitId
    files: tuple[ChangedFile, ...] = field(default=())
    detected_at: str = ""


class ChangesResult(StrEnum):
    RECORDED = "Recorded"
    """Git has it, on the branch or on the ref itself."""
    REFUSED = "Refused"
    """It does not go to git; it stays on the gateway."""


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    """What became of a gateway's last set, and what must stay as it is until somebody decides."""

    id: str
    result: ChangesResult = ChangesResult.RECORDED
    message: str = ""
    refused: tuple[str, ...] = ()
    """Live paths of the set that git did not get; of all others it has exactly what was sent."""
    holds: tuple[str, ...] = ()
    """Live paths that are not overwritten while their pull request is open, of this and earlier sets."""
    over: str = ""
    """The last set before the end of the last request: what was refused up to it may be asked again."""


def chunk_key(gateway_key: str, set_id: str, number: int) -> str:
    """The key of a chunk in its map (C-037)."""
    return f"{gateway_key}.{set_id}.{number}"


def encode(changes: ChangeSet) -> tuple[bytes, ...]:
    """The chunks, each to go under a key of its own; raises if it is more than all maps together hold."""
    text = compact(
        {
            "id": changes.id,
            "gateway": changes.gateway,
            "baseCommit": str(changes.base_commit),
            "detectedAt": changes.detected_at,
            "files": [_plain(one) for one in changes.files],
        }
    ).encode()
    packed = zlib.compress(text, 6)
    room = CHUNK_BYTES - _HEADER
    parts = [packed[at : at + room] for at in range(0, len(packed), room)]
    if len(parts) > MAX_CHUNKS:
        raise InvalidValue(f"the changes take {len(packed)} bytes, more than {MAX_CHUNKS} maps can hold")
    digest = hashlib.sha256(packed).hexdigest()
    return tuple(
        compact({"id": changes.id, "chunk": number, "of": len(parts), "sha256": digest}).encode()
        + b"\n"
        + part
        for number, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """One part of a set."""

    id: str
    number: int
    of: int
    digest: str
    packed: bytes

    @classmethod
    def parse(cls, raw: bytes) -> Chunk:
        header, newline, packed = raw[: CHUNK_BYTES + 1].partition(b"\n")
        if not newline or len(raw) > CHUNK_BYTES or len(header) > _HEADER:
            raise InvalidValue("a chunk of changes has no header, or is too large")
        said = json_object(header, "the header of a chunk of changes")
        number, of, digest, name = (said.get(one) for one in ("chunk", "of", "sha256", "id"))
        if type(number) is not int or type(of) is not int or not 0 <= number < of <= MAX_CHUNKS:
            raise InvalidValue("a chunk of changes does not say which it is")
        if (
            not isinstance(digest, str)
            or len(digest) != 64
            or not isinstance(name, str)
            or not _ID.fullmatch(name)
        ):
            raise InvalidValue("a chunk of changes names neither its set nor its digest")
        return cls(name, number, of, digest, packed)


def complete(chunks: Iterable[Chunk]) -> bool:
    """Whether all parts of their set are among them."""
    chunks = tuple(chunks)
    return bool(chunks) and {one.number for one in chunks} == set(range(chunks[0].of))


def decode(chunks: Iterable[Chunk]) -> ChangeSet:
    """The set; raises if parts are missing or it is not what was sent."""
    by_number = {one.number: one for one in chunks}
    parts = [by_number[number] for number in sorted(by_number)]
    if not complete(parts) or len({(one.id, one.of, one.digest) for one in parts}) != 1:
        raise InvalidValue("the chunks of a set of changes do not belong together")
    packed = b"".join(one.packed for one in parts)
    if hashlib.sha256(packed).hexdigest() != parts[0].digest:
        raise InvalidValue("a set of changes is not what was sent: its digest differs")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, MAX_UNPACKED)
    except zlib.error:
        raise InvalidValue("a set of changes cannot be unpacked") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise InvalidValue(f"a set of changes unpacks to more than {MAX_UNPACKED} bytes, or is cut off")
    return _set(json_object(text, "a set of changes"), parts[0].id)


def _plain(one: ChangedFile) -> dict[str, str]:
    said = {
        "path": one.path,
        "repoPath": one.repo_path,
        "action": str(one.action),
        "base": one.base,
        "blob": one.blob,
        "mode": one.mode,
    }
    if one.base_mode:
        said["baseMode"] = one.base_mode
    if one.action is Action.WRITTEN:
        said["content"] = base64.b64encode(one.content).decode()
    return said


def _set(said: dict[str, Any], name: str) -> ChangeSet:
    gateway, base, files = said.get("gateway"), said.get("baseCommit"), said.get("files")
    if said.get("id") != name or not isinstance(gateway, str) or not isinstance(base, str):
        raise InvalidValue("a set of changes does not say whose it is")
    if not isinstance(files, list) or len(files) > MAX_SET_FILES:
        raise InvalidValue(f"a set of changes has no list of files, or one of more than {MAX_SET_FILES}")
    detected = said.get("detectedAt")
    return ChangeSet(
        name,
        gateway,
        CommitId(base),
        tuple(_file(one) for one in files),
        detected if isinstance(detected, str) and len(detected) <= 64 else "",
    )


def _file(said: object) -> ChangedFile:
    if not isinstance(said, dict):
        raise InvalidValue("a set of changes holds something that is no file")
    words = {name: said.get(name, "") for name in _WORDS}
    if not all(isinstance(word, str) for word in words.values()):
        raise InvalidValue("a file of a set of changes is not described in words")
    path, repo_path = RelPath(words["path"]), RelPath(words["repoPath"])
    if words["action"] not in tuple(Action) or words["mode"] not in (PLAIN, PROGRAM):
        raise InvalidValue(f"{shown(path)} is neither written nor deleted, or has another mode than a file")
    if words["baseMode"] not in ("", PLAIN, PROGRAM):
        raise InvalidValue(f"{shown(path)} had another mode than a file")
    if not _BLOB.fullmatch(words["base"]) or not _BLOB.fullmatch(words["blob"]):
        raise InvalidValue(f"{shown(path)} names an object that has no id of one")
    content = _content(words["content"], path)
    action = Action(words["action"])
    if action is Action.WRITTEN and words["blob"] != _blob_id(content, len(words["blob"])):
        raise InvalidValue(f"the content of {shown(path)} is not what its id says")
    return ChangedFile(
        str(path),
        str(repo_path),
        action,
        words["base"],
        words["blob"],
        content,
        words["mode"],
        words["baseMode"],
    )


def _content(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue(f"the content of {shown(path)} cannot be read") from None


def _blob_id(content: bytes, digits: int) -> str:
    kind = hashlib.sha256 if digits == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(content) + content).hexdigest()  # git's own name for a content


def answers_in(entries: Mapping[str, Any]) -> dict[str, ChangesAnswer]:
    """The answers of a metadata map, by gateway; raises for what is none."""
    return {
        name: shaped(ChangesAnswer, value, f"the answer to {shown(name)}") for name, value in entries.items()
    }
