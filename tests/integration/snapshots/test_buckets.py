"""Snapshots in a bucket: S3 by a real object store, Google Cloud Storage by a double of its API."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.snapshots import bucket_storage
from stoker.snapshots.bucket_storage import PART, BucketStorage
from stoker.snapshots.storage import ObjectMissing
from stoker_testkit.environments.snapshot_environment import SnapshotSite
from stoker_testkit.services.gcs import Gcs
from stoker_testkit.services.s3 import S3

NOISE = random.Random(3).randbytes  # noqa: S311 - the same in every run
BUCKET = "plant"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with S3.start(tmp_path_factory.mktemp("s3")) as store:
        store.create_bucket(BUCKET)
        yield store


@pytest.fixture
def gcs() -> Iterator[Gcs]:
    with Gcs.start() as store:
        yield store


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Another one for each test: they share the bucket."""
    return f"tests/{abs(hash(request.node.nodeid))}"


@pytest.fixture(params=["s3", "gcs"])
def storage(request: pytest.FixtureRequest, prefix: str) -> BucketStorage:
    if request.param == "s3":
        s3: S3 = request.getfixturevalue("s3")
        return bucket_storage.s3_storage(
            s3.bucket(BUCKET, key_prefix=prefix), "site", s3.credentials, retries=0
        )
    gcs: Gcs = request.getfixturevalue("gcs")
    return bucket_storage.gcs_storage(
        gcs.bucket(BUCKET, key_prefix=prefix), "site", gcs.credentials, retries=0
    )


@pytest.fixture
def s3_site(s3: S3, prefix: str, tmp_path: Path) -> SnapshotSite:
    bucket = s3.bucket(BUCKET, key_prefix=prefix)
    return filled(
        SnapshotSite(tmp_path, bucket_storage.s3_storage(bucket, "site", s3.credentials, retries=0))
    )


def filled(site: SnapshotSite) -> SnapshotSite:
    for number in range(30):
        site.write(f"projects/p{number}/view.json", b'{"number": %d}' % number * 200)
    site.write("thumbnail.png", NOISE(50_000))
    site.write("run.sh", b"#!/bin/sh\n", 0o755)
    return site


def test_snapshots_in_a_bucket_are_taken_listed_restored_and_deleted(
    storage: BucketStorage, tmp_path: Path
) -> None:
    site = filled(SnapshotSite(tmp_path, storage))
    expected = {}
    for number in range(4):
        site.write("changes", b"%d" % number)
        taken = site.take()
        expected[taken.id] = site.files()
        assert site.snapshots.newest() == taken
    gone = site.snapshots.prune(2)
    assert gone == tuple(list(expected)[1::-1])
    assert [one.id for one in site.snapshots.listed()] == list(expected)[:1:-1]
    for one in site.snapshots.listed():
        site.snapshots.verify(one.id)
        assert site.restored(one.id) == expected[one.id]
    last = list(expected)[-1]
    assert {one.name for one in storage.listed()} == {
        *(f"{name}.manifest" for name in list(expected)[2:]),
        *site.snapshots.open(list(expected)[2]).manifest.packs,
        f"{last}.pack",
    }


def test_an_unchanged_snapshot_sends_its_manifest_alone(storage: BucketStorage, tmp_path: Path) -> None:
    site = filled(SnapshotSite(tmp_path, storage))
    first = site.take()
    second = site.take(site.snapshots.open(first.id).manifest.files)
    assert site.opened == []
    assert [one.name for one in storage.listed() if one.name.startswith(f"{second.id}.")] == [
        f"{second.id}.manifest"
    ]
    assert site.restored(second.id) == site.files()


def test_a_large_pack_goes_in_parts(storage: BucketStorage, tmp_path: Path) -> None:
    site = SnapshotSite(tmp_path, storage)
    site.write("large", NOISE(2 * PART + 17))
    site.write("small", b"s")
    taken = site.take()
    assert site.restored(taken.id) == site.files()


def test_what_breaks_off_leaves_nothing(storage: BucketStorage) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(5):
            yield b"x" * PART
        raise InterruptedError("asked to end")

    with pytest.raises(InterruptedError, match="asked to end"):
        storage.put("site-20260212-100000.pack", chunks())
    assert storage.listed() == []
    storage.put("site-20260212-100000.pack", (b"x" for _ in range(3)))
    assert storage.get("site-20260212-100000.pack", 0, 10) == b"xxx"


def test_objects_are_read_in_part_and_deleted_once(storage: BucketStorage) -> None:
    storage.put("x", [b"0123", b"", b"456789"])
    assert storage.get("x", 2, 4) == b"2345"
    assert storage.get("x", 8, 100) == b"89"
    assert storage.get("x", 100, 5) == b""
    storage.put("empty", [])
    assert storage.get("empty", 0, 5) == b""
    storage.delete("x")
    storage.delete("x")
    with pytest.raises(ObjectMissing):
        storage.get("x", 0, 1)


def test_each_gateway_has_its_own_place_below_the_prefix(s3: S3, prefix: str, s3_site: SnapshotSite) -> None:
    other = SnapshotSite(
        s3_site.data.parent,
        bucket_storage.s3_storage(s3.bucket(BUCKET, key_prefix=prefix), "other", s3.credentials),
        gateway="other",
    )
    taken = s3_site.take()
    assert (s3.objects / BUCKET / prefix / "site" / f"{taken.id}.manifest").is_file()
    assert other.snapshots.listed() == ()
    other.take()
    other.snapshots.prune(1)
    assert len(s3_site.snapshots.listed()) == 1


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".pack", lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:]),
        (".pack", lambda data: data[:-1]),
        (".pack", lambda data: b""),
        (".manifest", lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:]),
        (".manifest", lambda data: data[:-1]),
        (".manifest", lambda data: b""),
    ],
)
def test_a_damaged_object_is_refused(
    s3_site: SnapshotSite, suffix: str, damage: Callable[[bytes], bytes]
) -> None:
    taken = s3_site.take()
    name = taken.id + suffix
    data = s3_site.storage.get(name, 0, 1 << 20)
    s3_site.storage.put(name, [damage(data)])
    with pytest.raises(Stalled) as caught:
        s3_site.snapshots.verify(taken.id)
    assert caught.value.reason is Reason.SNAPSHOT_CORRUPT
    anew = s3_site.take()
    s3_site.snapshots.verify(anew.id)


def test_a_bucket_that_is_away_is_tried_again_and_nothing_is_lost(s3: S3, s3_site: SnapshotSite) -> None:
    first = s3_site.take()
    s3_site.write("changes", b"x")
    s3.pause()
    try:
        for ask in (
            s3_site.take,
            s3_site.snapshots.listed,
            lambda: s3_site.snapshots.open(first.id),
            lambda: s3_site.snapshots.prune(1),
        ):
            with pytest.raises(Retry, match="does not answer") as caught:
                ask()
            assert caught.value.reason is Reason.SNAPSHOT_FAILED
    finally:
        s3.resume()
    assert [one.id for one in s3_site.snapshots.listed()] == [first.id]
    second = s3_site.take()
    assert s3_site.restored(second.id) == s3_site.files()


def test_wrong_credentials_and_a_missing_bucket_are_reported_without_the_key(
    s3: S3, gcs: Gcs, tmp_path: Path
) -> None:
    wrong = s3.credentials | {"secretAccessKey": Secret("wrong-and-hidden")}
    cases = [
        (bucket_storage.s3_storage(s3.bucket(BUCKET), "site", wrong, retries=0), "403"),
        (
            bucket_storage.s3_storage(s3.bucket("nowhere"), "site", s3.credentials, retries=0),
            "404 NoSuchBucket",
        ),
    ]
    with Gcs.start() as stranger:
        cases.append(
            (bucket_storage.gcs_storage(gcs.bucket(BUCKET), "site", stranger.credentials, retries=0), "401")
        )
    for number, (storage, says) in enumerate(cases):
        site = filled(SnapshotSite(tmp_path / str(number), storage))
        for ask in (site.take, site.snapshots.listed, lambda storage=storage: storage.get("x", 0, 1)):
            with pytest.raises(Retry, match=says) as caught:
                ask()
            assert "hidden" not in caught.value.message
            assert "http" not in caught.value.message
    assert gcs.refused
    assert gcs.objects == {}


def test_leftovers_of_a_crash_go_when_they_are_old_enough(s3: S3, prefix: str, s3_site: SnapshotSite) -> None:
    left = "site-20200101-000000.pack"
    s3_site.storage.put(left, [b"left"])
    s3_site.take()
    assert left in {one.name for one in s3_site.storage.listed()}, (
        "another process may still be writing the rest"
    )
    long_ago = time.time() - 2 * bucket_storage.LEFTOVER_AGE_SECONDS
    os.utime(s3.objects / BUCKET / prefix / "site" / left, (long_ago, long_ago))
    s3_site.take()
    assert left not in {one.name for one in s3_site.storage.listed()}


def test_an_upload_that_fails_is_given_up(gcs: Gcs) -> None:
    storage = bucket_storage.gcs_storage(gcs.bucket(BUCKET), "site", gcs.credentials)

    def chunks() -> Iterator[bytes]:
        yield from (b"x" * PART, b"y" * PART)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        storage.put("site-20260212-100000.pack", chunks())
    assert gcs.unfinished == 0
    assert gcs.objects == {}
