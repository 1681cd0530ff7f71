"""Change sets of a gateway are transferred whole or not at all."""

import hashlib
import json
import random
import zlib
from dataclasses import replace

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import ChangeAction, ChangedFile, ChangeSet
from stoker.domain.protocol.change_set_codec import (
    CHUNK_BYTES,
    MAX_UNPACKED,
    ChangeSetChunk,
    decode,
    encode,
    is_complete,
    unpacked_size,
)
from stoker.domain.refs import CommitId
from stoker_testkit.memory_peak import peak_of

BASE = CommitId("a" * 40)


def file_of(content: bytes, path: str = "projects/line/view.json") -> ChangedFile:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's own
    return ChangedFile(path, f"services/site/{path}", ChangeAction.WRITTEN, "b" * 40, blob, content)


def sent(changes: ChangeSet) -> list[ChangeSetChunk]:
    return [ChangeSetChunk.parse(raw) for raw in encode(changes)]


def test_a_set_comes_back_as_it_was_sent() -> None:
    gone = ChangedFile("projects/old.json", "services/site/projects/old.json", ChangeAction.DELETED, "c" * 40)
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
    chunks = [ChangeSetChunk.parse(one) for one in reversed(raw)]
    assert is_complete(chunks)
    assert not is_complete(chunks[1:])
    assert decode(chunks) == changes
    with pytest.raises(InvalidValue, match="do not belong together"):
        decode(chunks[:2])
    with pytest.raises(InvalidValue, match="digest differs"):
        decode([*chunks[:2], replace(chunks[2], packed=chunks[2].packed[:-1] + b"x")])


def test_more_than_eight_maps_hold_is_refused() -> None:
    noise = random.Random(3).randbytes(8_000_000)  # noqa: S311 - as above
    with pytest.raises(InvalidValue, match="more than 8 ConfigMaps can hold"):
        encode(ChangeSet("20260101-101500", "site", BASE, (file_of(noise),)))


HEAD = {"id": "20260101-101500", "gateway": "site", "baseCommit": "a" * 40, "files": 1}


def described(content: bytes, **change: object) -> bytes:
    """One file on the wire."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's own
    fields: dict[str, object] = {
        "path": "projects/a.json",
        "repoPath": "site/projects/a.json",
        "action": "written",
        "blob": blob,
        "mode": "100644",
        "size": len(content),
    }
    return json.dumps(fields | change).encode() + b"\n" + content


def with_head(*files: bytes, **change: object) -> ChangeSetChunk:
    return packed(json.dumps(HEAD | {"files": len(files)} | change).encode() + b"\n" + b"".join(files))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"path": "../x"}, "path"),
        ({"repoPath": "/etc/passwd"}, "path"),
        ({"action": "moved"}, "neither written nor deleted"),
        ({"mode": "120000"}, "another mode"),
        ({"baseMode": "120000"}, "had another mode"),
        ({"blob": "d" * 40}, "not what its blob id says"),
        ({"base": "main"}, "no blob id"),
        ({"path": 7}, "not text"),
        ({"size": 1}, "not what its blob id says"),
        ({"size": 3}, "cut off"),
        ({"size": -1}, "how large"),
        ({"size": "2"}, "how large"),
        ({"size": True}, "how large"),
        ({"size": MAX_UNPACKED + 1}, "how large"),
        ({"action": "deleted"}, "how large"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(change: dict[str, object], why: str) -> None:
    assert decode([with_head(described(b"{}"))]).files[0].content == b"{}"
    with pytest.raises(InvalidValue, match=why):
        decode([with_head(described(b"{}", **change))])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"id": "20260101-101501"}, "does not name its id"),
        ({"gateway": None}, "does not name its id"),
        ({"gateway": "g" * 254}, "too long"),
        ({"baseCommit": "x"}, "x"),
        ({"files": []}, "how many"),
        ({"files": 5001}, "how many"),
        ({"files": 2}, "without end"),
        ({"files": 0}, "more than it says"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        decode([with_head(described(b"{}"), **change)])


@pytest.mark.parametrize("text", [b"", b"\n", b"[]\n", b"{\n", b"{", b'{"id":"20260101-101500"}\n'])
def test_what_is_no_set_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidValue):
        decode([packed(text)])


def test_what_follows_the_compressed_stream_is_refused() -> None:
    whole = with_head(described(b"{}")).packed
    for tail in (b"x", b"x" * 100_000):
        more = whole + tail
        with pytest.raises(InvalidValue, match="more than it says"):
            decode([ChangeSetChunk("20260101-101500", 0, 1, hashlib.sha256(more).hexdigest(), more)])
    cut = whole[:-1]
    with pytest.raises(InvalidValue, match="cut off"):
        decode([ChangeSetChunk("20260101-101500", 0, 1, hashlib.sha256(cut).hexdigest(), cut)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"files":[' + b"{}," * 1_300_000 + b"{}]}\n", "line"),
        (json.dumps(HEAD).encode() + b"\n" + b'{"a":[' + b"[]," * 1_300_000 + b"[]]}\n", "line"),
        (json.dumps(HEAD).encode() + b"\n" + b"[" * 5_000_000, "line"),
        (b" " * (MAX_UNPACKED + 1), "line"),
        (json.dumps(HEAD).encode() + b"\n" + described(bytes(MAX_UNPACKED)), "unpacks to more than"),
    ],
    ids=["objects", "lists", "depth", "blanks", "content"],
)
def test_a_bomb_costs_no_more_memory_than_a_set_may_have(text: bytes, why: str) -> None:
    bomb = packed(text)
    assert len(bomb.packed) < 20_000, "it costs the sender next to nothing"

    def refused() -> None:
        with pytest.raises(InvalidValue, match=why):
            decode([bomb])

    limit = 3 * MAX_UNPACKED if why.startswith("unpacks") else 2 << 20
    assert peak_of(refused) < limit


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([("f", 15 << 20)], id="one large file"),
        pytest.param([(f"projects/{n:04}", 3000) for n in range(5000)], id="as many files as may be"),
        pytest.param([(f"{n:04}", 0) for n in range(5000)], id="empty files with short names"),
        pytest.param(
            [("/".join(["x" * 250] * 6) + f"/{n:04}", 0) for n in range(1000)], id="the longest names"
        ),
    ],
)
def test_the_most_that_is_taken_costs_a_few_times_its_own_size(files: list[tuple[str, int]]) -> None:
    changes = ChangeSet(
        "20260101-101500",
        "site",
        BASE,
        tuple(replace(file_of(b"x" * size, path), repo_path=path) for path, size in files),
    )
    size = unpacked_size(changes.files)
    chunks = sent(changes)
    assert peak_of(lambda: decode(chunks)) < 4 * size


@pytest.mark.parametrize(
    "raw", [b"", b"{}\n", b"x" * 1000, b'{"chunk":9,"of":9,"id":"x","sha256":""}\n', b"{" * 300]
)
def test_a_chunk_without_its_header_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidValue):
        ChangeSetChunk.parse(raw)


def packed(text: bytes) -> ChangeSetChunk:
    content = zlib.compress(text)
    return ChangeSetChunk("20260101-101500", 0, 1, hashlib.sha256(content).hexdigest(), content)
