"""What was changed on a gateway travels whole or not at all."""

import base64
import hashlib
import json
import random
import zlib
from dataclasses import replace

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import Action, ChangedFile, ChangeSet
from stoker.domain.protocol.changes import CHUNK_BYTES, MAX_UNPACKED, Chunk, complete, decode, encode
from stoker.domain.refs import CommitId

BASE = CommitId("a" * 40)


def file_of(content: bytes, path: str = "projects/line/view.json") -> ChangedFile:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's own
    return ChangedFile(path, f"services/site/{path}", Action.WRITTEN, "b" * 40, blob, content)


def sent(changes: ChangeSet) -> list[Chunk]:
    return [Chunk.parse(raw) for raw in encode(changes)]


def test_a_set_comes_back_as_it_was_sent() -> None:
    gone = ChangedFile("projects/old.json", "services/site/projects/old.json", Action.DELETED, "c" * 40)
    program = replace(file_of(b"x", "projects/run.sh"), mode="100755", base_mode="100644")
    changes = ChangeSet(
        "20260101-101500", "site", BASE, (file_of(b'{"a": 1}\n'), gone, program), "2026-01-01T10:15:00Z"
    )
    assert decode(sent(changes)) == changes


def test_what_is_large_goes_in_chunks_that_each_fit_into_a_map() -> None:
    noise = random.Random(3).randbytes(2_000_000)  # noqa: S311 - what cannot be packed
    changes = ChangeSet("20260101-101500", "site", BASE, (file_of(noise),))
    raw = encode(changes)
    assert len(raw) == 3
    assert all(len(one) <= CHUNK_BYTES for one in raw)
    chunks = [Chunk.parse(one) for one in reversed(raw)]
    assert complete(chunks)
    assert not complete(chunks[1:])
    assert decode(chunks) == changes
    with pytest.raises(InvalidValue, match="do not belong together"):
        decode(chunks[:2])
    with pytest.raises(InvalidValue, match="digest differs"):
        decode([*chunks[:2], replace(chunks[2], packed=chunks[2].packed[:-1] + b"x")])


def test_more_than_eight_maps_hold_is_refused() -> None:
    noise = random.Random(3).randbytes(8_000_000)  # noqa: S311 - as above
    with pytest.raises(InvalidValue, match="more than 8 maps can hold"):
        encode(ChangeSet("20260101-101500", "site", BASE, (file_of(noise),)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"path": "../x"}, "path"),
        ({"repoPath": "/etc/passwd"}, "path"),
        ({"action": "moved"}, "neither written nor deleted"),
        ({"mode": "120000"}, "another mode"),
        ({"blob": "d" * 40}, "not what its id says"),
        ({"base": "main"}, "no id"),
        ({"content": "€"}, "cannot be read"),
        ({"content": base64.b64encode(b"other").decode()}, "not what its id says"),
        ({"path": 7}, "not described in words"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(change: dict[str, object], why: str) -> None:
    whole = json.loads(
        zlib.decompress(sent(ChangeSet("20260101-101500", "site", BASE, (file_of(b"{}"),)))[0].packed)
    )
    whole["files"][0] |= change
    with pytest.raises(InvalidValue, match=why):
        decode([packed(json.dumps(whole).encode())])


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{",
        b'{"id":"20260101-101500"}',
        b'{"id":"20260101-101500","gateway":"a","baseCommit":"x","files":[]}',
    ],
)
def test_what_is_no_set_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidValue):
        decode([packed(text)])


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(InvalidValue, match="unpacks to more than"):
        decode([packed(b" " * (MAX_UNPACKED + 1))])


@pytest.mark.parametrize(
    "raw", [b"", b"{}\n", b"x" * 1000, b'{"chunk":9,"of":9,"id":"x","sha256":""}\n', b"{" * 300]
)
def test_a_chunk_without_its_header_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidValue):
        Chunk.parse(raw)


def packed(text: bytes) -> Chunk:
    content = zlib.compress(text)
    return Chunk("20260101-101500", 0, 1, hashlib.sha256(content).hexdigest(), content)
