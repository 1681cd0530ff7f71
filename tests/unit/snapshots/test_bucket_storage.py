"""Settings of a bucket that are refused before a request. Requests are in the integration tests."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.policies import SnapshotBucketPolicy
from stoker.domain.secrets import Secret
from stoker.snapshots import bucket_storage
from stoker.snapshots.bucket_storage import BucketStorage

KEYS = {"accessKeyId": Secret("AKIA"), "secretAccessKey": Secret("hush-hush")}
Make = Callable[..., BucketStorage]


@pytest.mark.parametrize("make", [bucket_storage.s3_storage, bucket_storage.gcs_storage])
def test_without_the_library_it_says_what_to_install(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "obstore"]:
        monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def importing(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError(name)
        return original(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(Misconfigured, match="need the package obstore; install stoker with the extra 's3'"):
        make(SnapshotBucketPolicy("plant"), "site")


@pytest.mark.parametrize(
    ("make", "credentials", "says"),
    [
        (bucket_storage.s3_storage, {"accessKeyId": Secret("AKIA")}, "has no secretAccessKey"),
        (bucket_storage.s3_storage, {}, "has no accessKeyId"),
        (
            bucket_storage.s3_storage,
            KEYS | {"secretAccessKey": Secret("hush\n-hush")},
            "secretAccessKey .* is not one line",
        ),
        (bucket_storage.gcs_storage, {}, "has no serviceAccount.json"),
        (bucket_storage.gcs_storage, {"serviceAccount.json": Secret(b"\xff")}, "is no text"),
        (
            bucket_storage.gcs_storage,
            {"serviceAccount.json": Secret('{"private_key": "hush-hush"}')},
            "cannot be used",
        ),
        (bucket_storage.gcs_storage, {"serviceAccount.json": Secret("hush-hush")}, "cannot be used"),
    ],
)
def test_credentials_that_are_none_are_named_and_not_shown(
    make: Make, credentials: dict[str, Secret], says: str
) -> None:
    with pytest.raises(Misconfigured, match=says) as caught:
        make(SnapshotBucketPolicy("plant"), "site", credentials)
    assert "hush" not in caught.value.message
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("make", [bucket_storage.s3_storage, bucket_storage.gcs_storage])
def test_a_bucket_has_a_name_and_its_prefix_leads_nowhere_else(make: Make) -> None:
    with pytest.raises(Misconfigured, match="none is named"):
        make(SnapshotBucketPolicy(), "site")
    for prefix in ("../other", "a/../../b", "/a"):
        with pytest.raises(InvalidValue):
            make(SnapshotBucketPolicy("plant", key_prefix=prefix), "site")


@pytest.mark.parametrize("make", [bucket_storage.s3_storage, bucket_storage.gcs_storage])
@pytest.mark.parametrize(
    "endpoint", ["ftp://x", "minio:9000", "https://", "https://me:hush@minio", "https://x/?hush"]
)
def test_an_endpoint_is_a_plain_address(make: Make, endpoint: str) -> None:
    with pytest.raises(Misconfigured, match="is no http or https address") as caught:
        make(SnapshotBucketPolicy("plant", endpoint=endpoint), "site")
    assert "hush" not in caught.value.message


def test_the_location_has_the_prefix_and_the_gateway() -> None:
    assert bucket_storage.s3_storage(
        SnapshotBucketPolicy("plant", key_prefix="a/b/"), "Line 1", KEYS
    ).where.startswith("s3://plant/a/b/Line_1-")
    assert (
        bucket_storage.s3_storage(SnapshotBucketPolicy("plant", endpoint="https://minio:9000"), "site").where
        == "s3://plant/site"
    )
