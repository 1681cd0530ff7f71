"""A bucket of a real object store as a source."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from stoker.artifacts.bucket import SMALL_OBJECT_BYTES, BucketOrigin
from stoker.artifacts.limits import ArtifactLimits
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, SourceUrl
from stoker.domain.secrets import Secret
from stoker.engine.artifact_source import ArtifactCredentials
from stoker_testkit.services.s3 import S3

BUCKET = "plant"
BIG = bytes(range(256)) * (SMALL_OBJECT_BYTES // 256) + b"and a bit more"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with S3.start(tmp_path_factory.mktemp("s3")) as running:
        running.create_bucket(BUCKET)
        yield running


class Place:
    """A prefix of each test's own."""

    def __init__(self, s3: S3, prefix: str) -> None:
        self.s3 = s3
        self.prefix = prefix
        key, secret = s3.credentials["accessKeyId"], s3.credentials["secretAccessKey"]
        self.login = ArtifactCredentials(key.reveal(), secret)
        self.store = S3Store(
            BUCKET,
            prefix=prefix,
            endpoint=s3.url,
            region="us-east-1",
            access_key_id=key.reveal(),
            secret_access_key=secret.reveal(),
            client_options={"allow_http": True},
        )

    @property
    def url(self) -> SourceUrl:
        return SourceUrl(f"s3://{BUCKET}/{self.prefix}?endpoint={self.s3.url}&region=us-east-1")

    def put(self, files: dict[str, str | bytes]) -> None:
        for path, content in files.items():
            obstore.put(self.store, path, content.encode() if isinstance(content, str) else content)

    def bucket(
        self, login: ArtifactCredentials | None = None, limits: ArtifactLimits | None = None
    ) -> BucketOrigin:
        async def read() -> ArtifactCredentials:
            return login if login is not None else self.login

        return BucketOrigin(self.url, read, limits if limits is not None else ArtifactLimits())


@pytest.fixture
def place(s3: S3, request: pytest.FixtureRequest) -> Place:
    return Place(s3, f"t{abs(hash(request.node.nodeid))}")


async def taken(bucket: BucketOrigin, artifact: CommitId, ref: str, tmp_path: Path) -> dict[str, bytes]:
    pulled = await bucket.pull(artifact, GitRef(ref), tmp_path)
    return {file.path: b"".join(file.chunks) for file in pulled.files()}


async def test_a_listing_is_an_artifact(place: Place, tmp_path: Path) -> None:
    place.put({"v1/a.json": "1", "v1/d/big.bin": BIG, "v1/empty": "", "v2/a.json": "2"})
    bucket = place.bucket()
    first = await bucket.resolve(GitRef("v1"))
    assert await bucket.resolve(GitRef("v1")) == first
    assert await taken(bucket, first, "v1", tmp_path) == {"a.json": b"1", "d/big.bin": BIG, "empty": b""}
    assert await bucket.resolve(GitRef("v2")) != first
    whole = await bucket.resolve(GitRef("HEAD"))
    assert set(await taken(bucket, whole, "HEAD", tmp_path)) == {
        *("v1/a.json", "v1/d/big.bin", "v1/empty", "v2/a.json")
    }
    # The same content again is the same artifact; other content is another one.
    place.put({"v1/a.json": "1"})
    assert await bucket.resolve(GitRef("v1")) == first
    place.put({"v1/a.json": "3"})
    assert await bucket.resolve(GitRef("v1")) != first


async def test_a_bucket_that_changed_is_not_taken_for_what_it_was(place: Place, tmp_path: Path) -> None:
    place.put({f"v1/{number}.json": "1" for number in range(20)})
    bucket = place.bucket()
    found = await bucket.resolve(GitRef("v1"))
    pulled = await bucket.pull(found, GitRef("v1"), tmp_path)
    files = pulled.files()
    next(files)
    place.put({"v1/9.json": "2"})  # the last of them, by name
    with pytest.raises(Retry) as error:
        [b"".join(file.chunks) for file in files]
    assert error.value.reason == Reason.ARTIFACT_DAMAGED
    with pytest.raises(Retry, match="has changed since"):
        await bucket.pull(found, GitRef("v1"), tmp_path)
    again = await bucket.resolve(GitRef("v1"))
    assert len(await taken(bucket, again, "v1", tmp_path)) == 20


async def test_a_file_that_comes_while_others_are_read_is_noticed(place: Place, tmp_path: Path) -> None:
    place.put({"v1/a": "1"})
    bucket = place.bucket()
    pulled = await bucket.pull(await bucket.resolve(GitRef("v1")), GitRef("v1"), tmp_path)
    files = pulled.files()
    next(files)
    place.put({"v1/b": "2"})
    with pytest.raises(Retry, match="changed while it was read"):
        list(files)


async def test_too_much_is_refused_before_it_is_fetched(place: Place) -> None:
    place.put({"v1/a": "1" * 100, "v1/b": "2" * 100})
    for limits in (ArtifactLimits(files=1), ArtifactLimits(packed=150)):
        with pytest.raises(StokerError) as error:
            await place.bucket(limits=limits).resolve(GitRef("v1"))
        assert error.value.reason == Reason.SOURCE_TOO_LARGE


async def test_missing_objects_and_missing_permissions(place: Place, tmp_path: Path) -> None:
    place.put({"v1/a": "1"})
    with pytest.raises(StokerError) as nothing:
        await place.bucket().resolve(GitRef("v9"))
    assert nothing.value.reason == Reason.REF_NOT_FOUND
    secret = place.login.password
    assert secret is not None
    for login in (
        ArtifactCredentials(),
        ArtifactCredentials(place.login.username, Secret("wr0ng-secret-key")),
    ):
        with pytest.raises(StokerError) as refused:
            await place.bucket(login).resolve(GitRef("v1"))
        assert refused.value.reason == Reason.SOURCE_AUTH_FAILED, refused.value.message
        assert "wr0ng" not in refused.value.message
    with pytest.raises(StokerError, match="keeps no history"):
        await place.bucket().pull(CommitId("0" * 64), GitRef("0" * 64), tmp_path)


async def test_a_store_that_is_away_is_asked_again(s3: S3, place: Place) -> None:
    place.put({"v1/a": "1"})
    url = SourceUrl(f"s3://{BUCKET}/x?endpoint=http://127.0.0.1:1")

    async def read() -> ArtifactCredentials:
        return place.login

    with pytest.raises(Retry) as error:
        await BucketOrigin(url, read, retries=0).resolve(GitRef("v1"))
    assert error.value.reason == Reason.SOURCE_UNREACHABLE


def test_sync_follows_a_prefix_and_asks_for_nothing_that_it_has(place: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "key").write_text(place.s3.credentials["secretAccessKey"].reveal())

    def sync(ref: str) -> dict[str, Any]:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "stoker", "sync", f"--repo={place.url}", f"--ref={ref}"),
                *(f"--data-dir={data}", f"--cache-dir={tmp_path / 'cache'}", "--map=projects:projects"),
                *(f"--username={place.login.username}", f"--token-file={tmp_path / 'key'}", "--output=json"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    place.put({"v1/projects/a.json": "1", "v1/readme": "x", "v2/projects/b.json": "2"})
    first = sync("v1")
    assert (data / "projects/a.json").read_text() == "1"
    assert sync("v1")["added"] == []
    second = sync("v2")
    assert second["commit"] != first["commit"]
    assert [path.name for path in (data / "projects").iterdir()] == ["b.json"]
    # A rollback by the id needs the bucket no more: it is in the mirror.
    assert sync(first["commit"])["commit"] == first["commit"]
    assert [path.name for path in (data / "projects").iterdir()] == ["a.json"]
