"""Buckets that never end their list, and environment variables that would name another account."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from aiohttp import web

from stoker.artifacts.bucket import BucketOrigin
from stoker.artifacts.limits import ArtifactLimits
from stoker.artifacts.object_store import check_egress
from stoker.domain.egress import EgressPolicy
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.intent.policies import SnapshotBucketPolicy as SnapshotBucket
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, SourceUrl
from stoker.domain.secrets import Secret
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.http_client import egress
from stoker.snapshots import bucket_storage as snapshot_buckets
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually_async

LOGIN = ArtifactCredentials("AKIA", Secret(planted("bucket-key")))
REF = GitRef("v1")
ENDLESS = "<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
OBJECT = (
    "<Contents><Key>{}</Key><Size>{}</Size><ETag>&quot;1&quot;</ETag>"
    "<LastModified>2026-11-01T08:00:00.000Z</LastModified></Contents>"
)


class Server:
    """A bucket whose list is what a test says."""

    def __init__(self) -> None:
        self.list = ENDLESS
        self.objects: dict[str, bytes] = {}
        self.seen: list[web.Request] = []
        self.url = ""
        self.sent_on = ""
        """Where every request is redirected to."""

    def hold(self, objects: Mapping[str, bytes]) -> None:
        """Names with a slash at their end are marks of folders, as consoles make them."""
        self.objects = dict(objects)
        self.list = "".join(OBJECT.format(name, len(content)) for name, content in objects.items())

    def bucket(
        self, login: ArtifactCredentials = LOGIN, limits: ArtifactLimits | None = None
    ) -> BucketOrigin:
        async def read() -> ArtifactCredentials:
            return login

        url = SourceUrl(f"s3://plant?endpoint={self.url}")
        return BucketOrigin(url, read, limits if limits is not None else ArtifactLimits(), retries=0)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if self.sent_on:
            return web.Response(status=307, headers={"Location": f"{self.sent_on}{request.path_qs}"})
        if "list-type" in request.query:
            return web.Response(text=f"<ListBucketResult>{self.list}</ListBucketResult>")
        content = self.objects.get(request.path.removeprefix("/plant/"))
        if content is None:
            return web.Response(status=404, text="<Error><Code>NoSuchKey</Code></Error>")
        headers = {"ETag": '"1"', "Last-Modified": "Sun, 01 Nov 2026 08:00:00 GMT"}
        return web.Response(body=content, headers=headers)


@asynccontextmanager
async def listening(host: str) -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    made.url = f"http://{host}:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening("127.0.0.1") as made:
        yield made


async def test_giving_up_an_endless_list_leaves_nothing_behind(server: Server) -> None:
    threads = threading.active_count()
    asking = asyncio.create_task(server.bucket().resolve(REF))
    await eventually_async(lambda: len(server.seen) > 10)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    assert threading.active_count() <= threads

    async def quiet() -> bool:
        before = len(server.seen)
        await asyncio.sleep(0.1)
        return len(server.seen) == before

    await eventually_async(quiet, 5.0, "no page is asked for any more")


async def test_an_endless_list_ends(server: Server) -> None:
    with pytest.raises(Retry, match="could not be listed in time") as error:
        await server.bucket(limits=ArtifactLimits(seconds=0.3)).resolve(REF)
    assert error.value.reason == Reason.SOURCE_UNREACHABLE


async def test_the_last_list_of_a_pull_can_be_given_up(server: Server, tmp_path: Path) -> None:
    server.hold({"v1/a": b"1"})
    bucket = server.bucket()
    pulled = await bucket.pull(await bucket.resolve(REF), REF, tmp_path)
    server.list, asked = ENDLESS, len(server.seen)
    taking = asyncio.create_task(asyncio.to_thread(lambda: [b"".join(one.chunks) for one in pulled.files()]))
    await eventually_async(lambda: len(server.seen) > asked + 10)
    pulled.stop()
    with pytest.raises(Retry, match="was cancelled"):
        await taking


async def test_marks_of_folders_are_no_files(server: Server, tmp_path: Path) -> None:
    server.hold({"v1/": b"", "v1/a/": b"", "v1/a/b": b"1", "v1/none": b"", "v1/empty/": b""})
    server.objects["v1/a"] = b""  # some stores answer for a folder, however it is named
    bucket = server.bucket()
    pulled = await bucket.pull(await bucket.resolve(REF), REF, tmp_path)
    taken = await asyncio.to_thread(lambda: {one.path: b"".join(one.chunks) for one in pulled.files()})
    assert taken == {"a/b": b"1", "none": b""}
    server.hold({"v1/": b""})
    with pytest.raises(Stalled, match="there is nothing in"):
        await bucket.resolve(REF)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that a cloud gives to this process by environment variables."""
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-pod")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-pod")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-pod")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("login", [LOGIN, ArtifactCredentials()])
async def test_the_identity_of_this_process_goes_to_no_bucket(
    server: Server, login: ArtifactCredentials
) -> None:
    server.hold({"v1/a": b"1"})
    await server.bucket(login).resolve(REF)
    signed = [request.headers.get("Authorization", "") for request in server.seen]
    assert all(("Credential=AKIA/" in one) == (login is LOGIN) for one in signed)
    assert not any("x-amz-security-token" in request.headers for request in server.seen)
    assert not any("of-the-pod" in str(request.headers) for request in server.seen)


@pytest.mark.usefixtures("elsewhere")
async def test_snapshots_with_credentials_of_their_own_use_nothing_of_the_process(server: Server) -> None:
    server.list = ""
    keys = {"accessKeyId": Secret("AKIA"), "secretAccessKey": Secret("hush-hush")}
    bucket = SnapshotBucket("plant", endpoint=server.url)
    for more in ({}, {"sessionToken": Secret("of-the-secret")}):
        storage = snapshot_buckets.s3_storage(bucket, "site", keys | more, retries=0)
        assert await asyncio.to_thread(storage.listed) == []
        assert "Credential=AKIA/" in server.seen[-1].headers["Authorization"]
        token = server.seen[-1].headers.get("x-amz-security-token")
        assert token == ("of-the-secret" if more else None)


@pytest.mark.usefixtures("elsewhere")
async def test_snapshots_without_credentials_are_the_pods_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SKIP_SIGNATURE")
    server.list = ""
    storage = snapshot_buckets.s3_storage(SnapshotBucket("plant", endpoint=server.url), "site", retries=0)
    assert await asyncio.to_thread(storage.listed) == []
    assert "Credential=of-the-pod/" in server.seen[-1].headers["Authorization"]
    assert server.seen[-1].headers["x-amz-security-token"] == "of-the-pod"


async def test_a_redirect_to_another_host_is_not_followed(server: Server) -> None:
    """Not even where everything may be connected to: the login was meant for one host."""
    async with listening("127.0.0.2") as other:
        other.hold({"v1/a": b"1"})
        server.sent_on = other.url
        with pytest.raises(Retry, match="cannot be read"):
            await server.bucket().resolve(REF)
        snapshots = snapshot_buckets.s3_storage(
            SnapshotBucket(name="plant", endpoint=server.url),
            "filler",
            {"accessKeyId": Secret("AKIA"), "secretAccessKey": Secret(planted("bucket-key"))},
            retries=0,
        )
        with pytest.raises(Retry, match="cannot be listed"):
            await asyncio.to_thread(snapshots.listed)
        assert len(server.seen) == 2
        assert other.seen == []


@pytest.fixture
def enforced() -> Iterator[None]:
    """As in the cluster, with nothing allowed."""
    egress.set_egress_policy(EgressPolicy.of([]))
    yield
    egress.set_egress_policy(None)


@pytest.mark.usefixtures("enforced")
async def test_an_endpoint_of_the_machine_is_not_connected_to(server: Server) -> None:
    with pytest.raises(Retry, match="loopback") as caught:
        await server.bucket().resolve(REF)
    assert caught.value.reason is Reason.EGRESS_REFUSED
    snapshots = snapshot_buckets.s3_storage(
        SnapshotBucket(name="plant", endpoint=server.url), "filler", retries=0
    )
    for act in (snapshots.listed, lambda: snapshots.put("x", [b"1"]), lambda: snapshots.get("x", 0, 1)):
        with pytest.raises(StokerError, match="loopback"):
            await asyncio.to_thread(act)
    assert server.seen == []


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("host", ["kubernetes.default.svc", "minio.tools.svc", "[fd00:ec2::254]"])
async def test_endpoints_of_the_cluster_are_refused(host: str) -> None:
    async def read() -> ArtifactCredentials:
        return LOGIN

    bucket = BucketOrigin(SourceUrl(f"s3://plant?endpoint=http://{host}"), read, ArtifactLimits(), retries=0)
    with pytest.raises(Retry, match="is not connected to"):
        await bucket.resolve(REF)


@pytest.mark.parametrize(
    ("endpoint", "allowed", "refused"),
    [
        ("http://{name}:{port}", [], True),
        ("http://{name}:{port}", ["10.0.0.0/8"], True),
        ("http://{name}:{port}", ["minio.example"], False),
        ("https://{name}:{port}", [], False),
        ("http://10.0.0.9:{port}", [], False),
    ],
)
async def test_an_endpoint_without_tls_is_an_address_or_a_listed_host(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, allowed: list[str], refused: bool
) -> None:
    """Its library resolves again and follows redirects to names below the host, which may lead anywhere."""
    name, port = "minio.example", 9000

    def answer(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, host, ("10.0.0.9", port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    egress.set_egress_policy(EgressPolicy.of(allowed))
    try:
        with pytest.raises(Retry, match="without TLS") if refused else nullcontext():
            await check_egress(endpoint.format(name=name, port=port), "", LOGIN, "the bucket")
    finally:
        egress.set_egress_policy(None)
