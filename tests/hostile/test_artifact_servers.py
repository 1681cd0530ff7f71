"""Registries that send nonsense, too much, or elsewhere.

Whatever they answer, it ends with a named error, within bounds, and what we log in with
goes to the registry alone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from stoker.artifacts.limits import ArtifactLimits
from stoker.artifacts.registry import RegistryOrigin
from stoker.domain.egress import EgressPolicy
from stoker.domain.errors import StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, SourceUrl
from stoker.domain.secrets import Secret
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.http_client import egress
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.oci_artifacts import (
    OCI_INDEX,
    OCI_LAYER,
    Layer,
    PublishedArtifact,
    digest_of,
    flux,
    index,
    made_of,
    special,
    tar,
)

PASSWORD = planted("registry-password")
LOGIN = ArtifactCredentials("robot", Secret(PASSWORD))
TAG = GitRef("v1")
GOOD = flux({"a.json": "1"})
EVIL = flux({"a.json": "evil"})

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A registry in which each path answers as a test wants."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, str]] = []
        """Path and login of each request."""
        self.host = ""

    def publish(self, artifact: PublishedArtifact) -> None:
        for name in ("v1", artifact.digest):
            self.answers[f"/v2/plant/manifests/{name}"] = _plainly(artifact.manifest)
        for inner in artifact.inner:
            self.answers[f"/v2/plant/manifests/{inner.digest}"] = _plainly(inner.manifest)
        for digest, content in artifact.blobs.items():
            self.answers[f"/v2/plant/blobs/{digest}"] = _plainly(content)

    async def pull(
        self, folder: Path, artifact: PublishedArtifact = GOOD, limits: ArtifactLimits | None = None
    ) -> list[str]:
        pulled = await self.registry(limits).pull(
            CommitId(artifact.digest.removeprefix("sha256:")), TAG, folder
        )
        return [file.path for file in pulled.files()]

    def registry(self, limits: ArtifactLimits | None = None) -> RegistryOrigin:
        async def read() -> ArtifactCredentials:
            return LOGIN

        url = SourceUrl(f"oci://{self.host}/plant?plainHttp=true")
        return RegistryOrigin(url, read, limits if limits is not None else ArtifactLimits(seconds=5.0))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path, request.headers.get("Authorization", "")))
        answer = self.answers.get(request.path)
        return web.Response(status=404) if answer is None else await answer(request)


def _plainly(content: bytes) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=content)

    return answer


def _slowly(content: bytes, seconds: float) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(body=content)

    return answer


def sent_on(target: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": target})

    return answer


def challenged(header: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, headers={"WWW-Authenticate": header})

    return answer


@asynccontextmanager
async def running() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.host = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running() as one:
        one.publish(GOOD)
        yield one


def layer_of(artifact: PublishedArtifact) -> str:
    return str(json.loads(artifact.manifest)["layers"][0]["digest"])


async def reason_of(pulling: Awaitable[object]) -> str:
    with pytest.raises(StokerError) as error:
        await pulling
    assert PASSWORD not in error.value.message
    assert len(error.value.message) < 600
    return error.value.reason


async def test_a_blob_elsewhere_is_fetched_without_the_login(server: Server, tmp_path: Path) -> None:
    blob = f"/v2/plant/blobs/{layer_of(GOOD)}"
    content = server.answers[blob]
    both = "Basic " + base64.b64encode(f"robot:{PASSWORD}".encode()).decode()

    async def only_with_login(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != both:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return web.Response(status=307, headers={"Location": f"http://{store.host}/signed?token=abc"})

    async with running() as store:
        store.answers["/signed"] = content
        server.answers[blob] = only_with_login
        assert await server.pull(tmp_path) == ["a.json"]
        assert store.seen == [("/signed", "")]
    assert server.seen[-1] == (blob, both)


async def test_a_redirect_target_does_not_decide_where_the_login_goes(server: Server, tmp_path: Path) -> None:
    async with running() as store:
        server.answers[f"/v2/plant/blobs/{layer_of(GOOD)}"] = sent_on(f"http://{store.host}/signed")
        store.answers["/token"] = _plainly(b'{"token": "good"}')
        for challenge in (f'Bearer realm="http://{store.host}/token",service="s"', 'Basic realm="x"'):
            folder = tmp_path / challenge[:5]
            folder.mkdir()
            store.answers["/signed"] = challenged(challenge)
            assert await reason_of(server.pull(folder)) == Reason.SOURCE_AUTH_FAILED
        assert store.seen == [("/signed", "")] * 2


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/iam",
        "http://[fe80::1]/x",
        "http://2852039166/x",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http://user:pw@127.0.0.1/x",
    ],
)
async def test_an_address_of_the_machine_is_not_followed(server: Server, tmp_path: Path, target: str) -> None:
    server.answers[f"/v2/plant/blobs/{layer_of(GOOD)}"] = sent_on(target)
    assert await reason_of(server.pull(tmp_path)) == Reason.SOURCE_UNREACHABLE


async def test_a_circle_of_redirects_ends(server: Server, tmp_path: Path) -> None:
    blob = f"/v2/plant/blobs/{layer_of(GOOD)}"
    server.answers[blob] = sent_on(f"http://{server.host}{blob}")
    assert await reason_of(server.pull(tmp_path)) == Reason.SOURCE_UNREACHABLE
    assert len(server.seen) < 10


@pytest.mark.parametrize(
    "realm",
    ["http://169.254.169.254/token", "file:///etc/passwd", "//no.scheme/token", "http://127.0.0.1:0/x"],
)
async def test_the_login_goes_to_no_odd_giver_of_tokens(server: Server, realm: str) -> None:
    server.answers["/v2/plant/manifests/v1"] = challenged(f'Bearer realm="{realm}",service="s"')
    assert await reason_of(server.registry().resolve(TAG)) == Reason.SOURCE_UNREACHABLE


async def test_a_giver_of_tokens_that_gives_none(server: Server) -> None:
    realm = f"http://{server.host}/token"
    server.answers["/v2/plant/manifests/v1"] = challenged(f'Bearer realm="{realm}",service="s"')
    for body in (b"", b"[]", b'{"token": ""}', b'{"token": "a\\nb"}', b"x" * 100_000):
        server.answers["/token"] = _plainly(body)
        assert await reason_of(server.registry().resolve(TAG)) == Reason.SOURCE_UNREACHABLE
    server.answers["/token"] = _plainly(b'{"token": "good"}')
    assert (
        await reason_of(server.registry().resolve(TAG)) == Reason.SOURCE_AUTH_FAILED
    )  # asked once more, no longer
    assert server.seen[-1] == ("/v2/plant/manifests/v1", "Bearer good")


async def test_a_tag_without_a_digest_is_hashed_by_us(server: Server) -> None:
    assert f"sha256:{await server.registry().resolve(TAG)}" == GOOD.digest


async def test_a_manifest_that_is_not_what_was_asked_for(server: Server, tmp_path: Path) -> None:
    server.publish(EVIL)  # which is whole by itself
    server.answers[f"/v2/plant/manifests/{GOOD.digest}"] = _plainly(EVIL.manifest)
    assert await reason_of(server.pull(tmp_path)) == Reason.ARTIFACT_DAMAGED


async def test_a_manifest_inside_an_index_that_is_not_what_was_named(server: Server, tmp_path: Path) -> None:
    outer = index(GOOD)
    server.publish(outer)
    server.publish(EVIL)
    server.answers[f"/v2/plant/manifests/{GOOD.digest}"] = _plainly(EVIL.manifest)
    assert await reason_of(server.pull(tmp_path, outer)) == Reason.ARTIFACT_DAMAGED


async def test_a_blob_that_never_ends_is_cut_off(server: Server, tmp_path: Path) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"\0" * 65536)
            sent += 65536

    server.answers[f"/v2/plant/blobs/{layer_of(GOOD)}"] = endless
    assert await reason_of(server.pull(tmp_path)) == Reason.ARTIFACT_DAMAGED
    assert sent < 64 << 20
    assert (tmp_path / "0").stat().st_size < 1 << 20


async def test_a_blob_that_ends_too_early(server: Server, tmp_path: Path) -> None:
    server.answers[f"/v2/plant/blobs/{layer_of(GOOD)}"] = _plainly(b"")
    assert await reason_of(server.pull(tmp_path)) == Reason.ARTIFACT_DAMAGED


async def test_silence_ends(server: Server, tmp_path: Path) -> None:
    over = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        await over.wait()
        return web.Response()

    server.answers["/v2/plant/manifests/v1"] = silent
    assert (
        await reason_of(server.registry(ArtifactLimits(seconds=0.5)).resolve(TAG))
        == Reason.SOURCE_UNREACHABLE
    )
    over.set()


async def test_many_slow_blobs_have_one_deadline_together(server: Server, tmp_path: Path) -> None:
    many = made_of(*(Layer(tar({f"{number}.json": "1"})) for number in range(4)))
    server.publish(many)
    for digest, content in many.blobs.items():
        server.answers[f"/v2/plant/blobs/{digest}"] = _slowly(content, 0.3)
    assert (
        await reason_of(server.pull(tmp_path, many, ArtifactLimits(seconds=0.8))) == Reason.SOURCE_UNREACHABLE
    )


async def test_layers_share_what_they_may_unpack_to(server: Server, tmp_path: Path) -> None:
    folders = [special(f"{number}/", tarfile.DIRTYPE) for number in range(5)]
    many = made_of(*(Layer(tar({f"{number}.json": "1"}, *folders)) for number in range(2)))
    server.publish(many)
    for name, limits in (("headers", ArtifactLimits(files=2)), ("bytes", ArtifactLimits(unpacked=5000))):
        (tmp_path / name).mkdir()
        assert await reason_of(server.pull(tmp_path / name, many, limits)) == Reason.SOURCE_TOO_LARGE


async def test_an_index_by_a_digest_that_is_no_id_is_refused_by_name(server: Server, tmp_path: Path) -> None:
    document = json.loads(index(GOOD).manifest)
    document["manifests"][0]["digest"] = "sha512:" + "0" * 128
    outer = PublishedArtifact(json.dumps(document).encode(), OCI_INDEX)
    server.publish(outer)
    assert await reason_of(server.pull(tmp_path, outer)) == Reason.ARTIFACT_REFUSED


async def test_more_than_is_accepted_is_refused_before_it_is_fetched(server: Server, tmp_path: Path) -> None:
    assert await reason_of(server.pull(tmp_path, limits=ArtifactLimits(packed=10))) == Reason.SOURCE_TOO_LARGE
    assert (
        await reason_of(server.pull(tmp_path, limits=ArtifactLimits(manifest=10))) == Reason.SOURCE_TOO_LARGE
    )
    assert not [path for path, _ in server.seen if "/blobs/" in path]


def too_large(announced: bool, sent: list[int], over: asyncio.Event) -> Answer:
    """Announces more than is accepted and then stays silent, or sends without an end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response()
        response = web.StreamResponse(headers={"Content-Length": str(5 << 20)} if announced else {})
        await response.prepare(request)
        if announced:
            await over.wait()
            return response
        while True:
            await response.write(b" " * 65536)
            sent.append(65536)

    return answer


@pytest.mark.parametrize("kind", ["manifest", "index", "manifest of an index", "tag without digest"])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_manifest_above_the_limit_is_not_read_to_its_end(
    server: Server, tmp_path: Path, kind: str, announced: bool
) -> None:
    artifact = index(GOOD) if "index" in kind else GOOD
    server.publish(artifact)
    name = {"manifest of an index": GOOD.digest, "tag without digest": "v1"}.get(kind, artifact.digest)
    sent: list[int] = []
    over = asyncio.Event()
    server.answers[f"/v2/plant/manifests/{name}"] = too_large(announced, sent, over)
    by_tag = kind == "tag without digest"
    asked = server.registry().resolve(TAG) if by_tag else server.pull(tmp_path, artifact)
    try:
        assert await reason_of(asked) == Reason.SOURCE_TOO_LARGE
    finally:
        over.set()
    assert sum(sent) < 64 << 20


async def test_a_manifest_that_its_index_says_is_too_large_is_not_fetched(
    server: Server, tmp_path: Path
) -> None:
    document = json.loads(index(GOOD).manifest)
    document["manifests"][0]["size"] = 5 << 20
    artifact = PublishedArtifact(json.dumps(document).encode(), OCI_INDEX)
    server.publish(artifact)
    assert await reason_of(server.pull(tmp_path, artifact)) == Reason.SOURCE_TOO_LARGE
    assert [path for path, _ in server.seen] == [f"/v2/plant/manifests/{artifact.digest}"]


async def test_a_false_size_of_a_large_blob(server: Server, tmp_path: Path) -> None:
    document = json.loads(GOOD.manifest)
    document["layers"][0]["size"] = 1
    lying = PublishedArtifact(json.dumps(document).encode(), blobs=GOOD.blobs)
    server.publish(lying)
    assert await reason_of(server.pull(tmp_path, lying)) == Reason.ARTIFACT_DAMAGED


@pytest.mark.parametrize("status", [400, 418, 429, 500, 503])
async def test_every_other_answer_is_tried_again(server: Server, status: int) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Retry-After": "9" * 30})

    server.answers["/v2/plant/manifests/v1"] = answer
    assert await reason_of(server.registry().resolve(TAG)) == Reason.SOURCE_UNREACHABLE


async def test_a_title_that_leads_outside_is_refused(server: Server, tmp_path: Path) -> None:
    for title in ("../../etc/cron.d/x", "/etc/passwd", ".git/config"):
        folder = tmp_path / digest_of(title.encode())[-8:]
        folder.mkdir()
        evil = made_of(Layer(b"1", OCI_LAYER, {"org.opencontainers.image.title": title}))
        server.publish(evil)
        assert await reason_of(server.pull(folder, evil)) == Reason.ARTIFACT_REFUSED


@pytest.fixture
def enforced() -> Iterator[None]:
    """As in the cluster, where the registry of these tests alone is allowed."""
    egress.set_egress_policy(EgressPolicy.of(["127.0.0.1"]))
    yield
    egress.set_egress_policy(None)


INSIDE = [
    "127.0.0.2:1",
    "169.254.169.254",
    "[::1]:1",
    "[::ffff:127.0.0.2]:1",
    "kubernetes.default.svc",
    "x.svc",
]


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("host", INSIDE)
async def test_a_token_is_not_asked_for_inside_the_cluster_or_the_machine(server: Server, host: str) -> None:
    server.answers["/v2/plant/manifests/v1"] = challenged(f'Bearer realm="http://{host}/token",service="x"')
    with pytest.raises(
        StokerError, match=r"token .* is not connected to|redirects to|a link-local"
    ) as caught:
        await server.registry().resolve(TAG)
    assert caught.value.reason in (Reason.EGRESS_REFUSED, Reason.SOURCE_UNREACHABLE)


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("host", INSIDE)
async def test_a_blob_is_not_fetched_from_inside_the_cluster_or_the_machine(
    server: Server, host: str, tmp_path: Path
) -> None:
    server.answers[f"/v2/plant/blobs/{layer_of(GOOD)}"] = sent_on(f"http://{host}/blob")
    with pytest.raises(StokerError, match=r"is not connected to|an address that is not followed") as caught:
        await server.pull(tmp_path)
    assert caught.value.reason in (Reason.EGRESS_REFUSED, Reason.SOURCE_UNREACHABLE)


async def test_a_blob_is_fetched_from_an_allowed_host_without_the_login(
    server: Server, tmp_path: Path, enforced: None
) -> None:
    async with running() as store:
        store.publish(GOOD)
        path = f"/v2/plant/blobs/{layer_of(GOOD)}"
        server.answers[path] = sent_on(f"http://{store.host}{path}")
        assert await server.pull(tmp_path) == ["a.json"]
        assert store.seen == [(path, "")]


async def test_the_registry_itself_is_checked(server: Server) -> None:
    egress.set_egress_policy(EgressPolicy.of([]))
    try:
        with pytest.raises(StokerError, match="loopback") as caught:
            await server.registry().resolve(TAG)
    finally:
        egress.set_egress_policy(None)
    assert caught.value.reason is Reason.EGRESS_REFUSED
    assert server.seen == []
