"""Snapshots that are not what they were, or never were one: refused before anything is made of them."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import BlobId, blob_of
from stoker.domain.intent.policies import SnapshotScope
from stoker.domain.reasons import Reason
from stoker.snapshots.manifest import FORMAT, MAGIC, MAX_BYTES, SealedManifest, encode
from stoker.snapshots.stable_read import LARGE
from stoker.snapshots.storage import CHUNK_BYTES
from stoker.snapshots.types import PackCodec, PackLocation, SnapshotFile, SnapshotManifest, SnapshotOrigin
from stoker_testkit.environments.snapshot_environment import SnapshotSite

NOISE = random.Random(9).randbytes  # noqa: S311 - the same in every run
ID = "site-20260212-100000"
PACK = f"{ID}.pack"
BLOB = blob_of(b"content")
PREFIX = struct.Struct("<8sIIQQQQ")


@pytest.fixture
def site(tmp_path: Path) -> SnapshotSite:
    site = SnapshotSite(tmp_path, clock=lambda: 1_770_890_400.0)
    site.write("projects/a/view.json", b'{"root": {}}' * 50)
    site.write("projects/b/view.json", b'{"meta": {}}' * 50)
    site.write("thumbnail.png", NOISE(300))
    assert site.take().id == ID
    return site


def refused(site: SnapshotSite) -> str:
    """What a verification says, which must not let this snapshot pass."""
    with pytest.raises(Stalled) as caught:
        site.snapshots.verify(ID)
    assert caught.value.reason is Reason.SNAPSHOT_CORRUPT
    assert ID in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400
    return caught.value.message


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No more memory than this is taken at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]


def test_a_flipped_bit_of_a_pack_is_noticed_or_changes_nothing(site: SnapshotSite) -> None:
    """A compressed stream ends within a byte, and the rest of that byte means nothing."""
    pack = site.store / PACK
    whole = pack.read_bytes()
    expected = site.files()
    harmless = 0
    for at in range(len(whole)):
        pack.write_bytes(flipped(whole, at))
        try:
            assert site.restored(ID) == expected
            harmless += 1
        except Stalled:
            assert "is damaged at content" in refused(site)
    assert harmless <= 2, "one for each stream"
    pack.write_bytes(whole)
    site.snapshots.verify(ID)


def test_no_bit_of_a_manifest_can_flip_unnoticed(site: SnapshotSite) -> None:
    manifest = site.store / f"{ID}.manifest"
    whole = manifest.read_bytes()
    for at in range(len(whole)):
        manifest.write_bytes(flipped(whole, at))
        refused(site)
        (line,) = site.snapshots.listed()
        assert line.trouble
    manifest.write_bytes(whole)
    assert not site.snapshots.listed()[0].trouble


def test_nothing_can_be_cut_off_or_added(site: SnapshotSite) -> None:
    for name, expected in ((f"{ID}.manifest", "the manifest"), (PACK, "bytes instead of")):
        path = site.store / name
        whole = path.read_bytes()
        for data in (*(whole[:length] for length in range(0, len(whole), 7)), whole + b"\0", whole * 2):
            path.write_bytes(data)
            assert expected in refused(site)
            assert site.snapshots.listed()[0].trouble
        path.write_bytes(whole)
    (site.store / PACK).unlink()
    assert f"{PACK} is gone" in refused(site)
    assert site.snapshots.newest() is None


def test_only_what_a_restore_needs_has_to_be_whole(site: SnapshotSite) -> None:
    pack = site.store / PACK
    place = site.snapshots.open(ID).manifest.contents[blob_of(b'{"root": {}}' * 50)]
    pack.write_bytes(flipped(pack.read_bytes(), place.offset + 5))
    site.snapshots.verify(ID, ["projects/b/view.json", "thumbnail.png", "not there"])
    with pytest.raises(Stalled, match="is damaged at content"):
        site.snapshots.verify(ID, ["projects/a/view.json"])


def test_no_later_snapshot_leans_on_a_pack_that_was_found_damaged(site: SnapshotSite) -> None:
    known = site.snapshots.open(ID).manifest.files
    assert site.take(known).stored < 1_000
    (site.store / PACK).write_bytes(flipped((site.store / PACK).read_bytes(), 3))
    refused(site)
    anew = site.take(known)
    assert len(site.opened) == 3, "known content is read again, for no other copy exists"
    site.snapshots.verify(anew.id)
    assert site.restored(anew.id) == site.files()
    site.snapshots.prune(1)
    assert {path.name for path in site.store.glob("*.*")} == {
        f"{anew.id}.manifest",
        f"{anew.id}.pack",
        ".lock",
    }


def test_no_later_snapshot_leans_on_a_pack_that_is_cut_off(site: SnapshotSite) -> None:
    known = site.snapshots.open(ID).manifest.files
    (site.store / PACK).write_bytes((site.store / PACK).read_bytes()[:-1])
    anew = site.take(known)
    site.snapshots.verify(anew.id)
    assert site.restored(anew.id) == site.files()


@pytest.mark.parametrize(
    "content", [b"0123456789" * LARGE, NOISE(CHUNK_BYTES + LARGE)], ids=["text", "noise"]
)
def test_a_large_content_is_never_handed_on_as_a_whole_when_it_is_not(tmp_path: Path, content: bytes) -> None:
    site = SnapshotSite(tmp_path, clock=lambda: 1_770_890_400.0)
    site.write("large", content)
    site.take()
    pack = site.store / PACK
    whole = pack.read_bytes()
    for at in (0, len(whole) // 2, len(whole) - 1):
        pack.write_bytes(flipped(whole, at))
        with pytest.raises(Stalled, match="is damaged"):
            site.restored(ID)


def test_an_unreadable_snapshot_takes_no_other_place_and_its_pack_stays(site: SnapshotSite) -> None:
    others = []
    for number in range(4):
        site.write("changes", NOISE(500 + number))
        others.append(site.take())
    broken = site.store / f"{others[3].id}.manifest"
    broken.write_bytes(b"nonsense")
    assert site.snapshots.prune(3) == (ID,)
    assert site.snapshots.listed()[0].trouble
    assert (site.store / f"{others[3].id}.pack").exists()
    for good in others[:3]:
        site.snapshots.verify(good.id)


def test_packs_stay_while_a_later_versions_manifest_may_need_them(site: SnapshotSite) -> None:
    manifest = site.store / f"{ID}.manifest"
    data = manifest.read_bytes()
    manifest.write_bytes(MAGIC + struct.pack("<I", FORMAT + 1) + data[12:])
    assert "has format 2, which this version cannot read" in refused(site)
    other = "site-20260101-000000.pack"
    (site.store / other).write_bytes(b"of that version")
    site.take()
    site.snapshots.prune(1)
    assert {other, PACK} <= {path.name for path in site.store.iterdir()}


def manifest_with(**changes: Any) -> SnapshotManifest:
    values: dict[str, Any] = {
        "id": ID,
        "gateway": "site",
        "taken_at": 1.0,
        "scope": SnapshotScope.MANAGED,
        "origin": SnapshotOrigin(),
        "files": {"a": SnapshotFile(BLOB, 7, 0o644)},
        "left_out": (),
        "extra": b"",
        "size": 7,
        "packs": {PACK: 7},
        "contents": {BLOB: PackLocation(PACK, 0, 7, PackCodec.PLAIN, 7)},
        "digits": 40,
    }
    return SnapshotManifest(**(values | changes))


def named(*paths: str, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    files = {path: SnapshotFile(BLOB, 7, 0o644) for path in paths}
    return {"files": files, "size": 7 * len(files), "left_out": left_out}


def place(**changes: Any) -> dict[str, Any]:
    return {"contents": {BLOB: PackLocation(PACK, 0, 7, PackCodec.PLAIN, 7)._replace(**changes)}}


def test_the_example_is_whole() -> None:
    manifest = manifest_with(**named("a", "b/c", left_out=("d",)))
    assert SealedManifest(ID, encode(manifest)).manifest() == manifest


@pytest.mark.parametrize(
    "changes",
    [
        named("../x"),
        named("a/../../x"),
        named("/etc/passwd"),
        named("./a"),
        named("a//b"),
        named("a\\b"),
        named("C:/x"),
        named("a\nb"),
        named(".git/config"),
        named("a/" * 200 + "b"),
        named("a" * 300),
        named(""),
        named("a", "a/b"),
        named("a/b/c", "a/b"),
        named("a", left_out=("a",)),
        named("a", left_out=("../b",)),
        named(".sync-state/manifest"),
        named(".sync-staging/x"),
        named(".sync-state"),
        {"files": {"a": SnapshotFile(BLOB, 7, 0o4755)}},
        {"size": 8},
        {"size": 1 << 62},
        {"taken_at": 1e30},
        {"taken_at": float("nan")},
        {"id": "site-20260212-100001"},
        {"gateway": "other"},
        {"digits": 64, "contents": {}, "files": {}, "size": 7},
        {"packs": {PACK: 6}},
        {"packs": {PACK: 1 << 62}},
        {"packs": {"../x.pack": 7}, **place(pack="../x.pack")},
        {"packs": {"other-20260212-100000.pack": 7}, **place(pack="other-20260212-100000.pack")},
        {"packs": {f"{ID}.manifest": 7}, **place(pack=f"{ID}.manifest")},
        place(offset=1),
        place(offset=(1 << 64) - 7),
        place(stored=6),
        place(codec=2),
        place(codec=PackCodec.ZLIB, size=7 * 2000),
        place(size=1 << 60, codec=PackCodec.ZLIB),
        {"origin": SnapshotOrigin("c" * 5000)},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_manifest_whose_sum_fits_is_looked_at_all_the_same(changes: dict[str, Any]) -> None:
    with pytest.raises(Stalled, match="is damaged") as caught:
        SealedManifest(ID, encode(manifest_with(**changes))).manifest()
    assert caught.value.reason is Reason.SNAPSHOT_CORRUPT


def forged(change: Callable[[dict[str, Any]], object] = lambda head: None, **parts: Any) -> bytes:
    """The bytes of a manifest with other parts than anybody would write, and a sum that fits."""
    whole = encode(manifest_with())
    _, _, head_size, paths_size, text, contents_size, files_size = PREFIX.unpack_from(whole)
    at = PREFIX.size
    head = json.loads(whole[at : at + head_size])
    change(head)
    paths = whole[at + head_size : at + head_size + paths_size]
    rows = whole[at + head_size + paths_size : -32]
    result = parts.get("head", json.dumps(head).encode())
    paths = parts.get("paths", paths)
    sizes = parts.get("sizes", (len(result), len(paths), parts.get("text", text), contents_size, files_size))
    body: bytes = PREFIX.pack(MAGIC, FORMAT, *sizes) + result + paths + rows
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    "data",
    [
        forged(head=b"[]"),
        forged(head=b"null"),
        forged(head=b"[" * 100_000),
        forged(head=b"\xff"),
        forged(head=b"{}"),
        forged(lambda head: head.update(files=10**18)),
        forged(lambda head: head.update(files=-1)),
        forged(lambda head: head.update(files=True)),
        forged(lambda head: head.update(files="1")),
        forged(lambda head: head.update(files=2)),
        forged(lambda head: head.update(contents=10**9)),
        forged(lambda head: head.update(contents=0)),
        forged(lambda head: head.update(leftOut=1)),
        forged(lambda head: head.update(digits=41)),
        forged(lambda head: head.update(scope="everything")),
        forged(lambda head: head.update(extra="?")),
        forged(lambda head: head.update(packs=[["x"]])),
        forged(lambda head: head.update(packs={})),
        forged(lambda head: head.update(id=None)),
        forged(paths=zlib.compress(b"\0" * (64 << 20), 9), text=4),
        forged(paths=zlib.compress(b"\xff\0")),
        forged(paths=b"not compressed"),
        forged(paths=zlib.compress(b"a\0") + b"more"),
        forged(sizes=(1 << 31, 0, 0, 0, 0)),
        forged(sizes=(1, (1 << 64) - 1, 0, 0, 0)),
        forged(text=(1 << 63)),
        b"",
        MAGIC,
        b"x" * 1000,
    ],
    ids=range(29),
)
def test_foreign_bytes_are_no_manifest(data: bytes) -> None:
    with pytest.raises(Stalled, match="is damaged"):
        SealedManifest(ID, data).manifest()


def test_a_manifest_that_is_too_large_is_not_read_whole(site: SnapshotSite) -> None:
    with (site.store / f"{ID}.manifest").open("r+b") as file:
        file.truncate(MAX_BYTES + 10 * CHUNK_BYTES)
    assert "larger than any that we write" in refused(site)


def test_a_stream_that_holds_more_than_its_content_is_cut_short(site: SnapshotSite) -> None:
    """A content that says seven bytes and holds many costs seven bytes."""
    bomb = zlib.compress(b"\0" * (32 << 20), 9)
    (site.store / PACK).write_bytes(bomb)
    blob = BlobId("0" * 40)
    contents = {blob: PackLocation(PACK, 0, len(bomb), PackCodec.ZLIB, 7)}
    manifest = manifest_with(
        files={"a": SnapshotFile(blob, 7, 0o644)}, contents=contents, packs={PACK: len(bomb)}
    )
    (site.store / f"{ID}.manifest").write_bytes(encode(manifest))
    with at_most(8 << 20):
        assert "is damaged at content" in refused(site)


def test_paths_that_hold_more_than_they_say_are_cut_short() -> None:
    bomb = forged(paths=zlib.compress(b"\0" * (32 << 20), 9), text=4)
    with at_most(8 << 20), pytest.raises(Stalled, match="its paths are cut off"):
        SealedManifest(ID, bomb).manifest()
