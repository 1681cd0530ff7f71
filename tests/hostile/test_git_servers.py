"""Servers that send nonsense, too much, too slowly, or for ever.

Each one is honest until a mirror exists and turns evil then. Whatever it sends, the
fetch ends in time with a named error, git stays within its bounds, what the mirror
held stays readable, nothing is left lying about, and an honest answer is taken as if
nothing had happened.
"""

from __future__ import annotations

import asyncio
import hashlib
import resource
import struct
import subprocess
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.errors import StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.mirror.mirror import Mirror
from stoker.git.mirror.tree import read_tree
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker_testkit.repositories.bare_repository import Repository, git_environment
from stoker_testkit.repositories.git_http_server import GitHttpServer

MAIN = GitRef("main")
CAP = 4 << 20
MEMORY = 128 << 20
TIMEOUT = 3.0
BLOB, TREE, OFS_DELTA, REF_DELTA = 3, 2, 6, 7

Answer = Callable[["EvilServer", web.Request], Awaitable[web.StreamResponse]]


def packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def on_band(data: bytes, band: int = 1) -> bytes:
    return packet(bytes([band]) + data)


def object_header(kind: int, size: int) -> bytes:
    out = bytearray()
    byte, size = kind << 4 | size & 15, size >> 4
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)


def pack_of(*objects: bytes, count: int | None = None, trailer: bytes | None = None) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(objects) if count is None else count) + b"".join(objects)
    return body + (hashlib.sha1(body, usedforsecurity=False).digest() if trailer is None else trailer)


def answer_with(pack: bytes) -> bytes:
    chunks = (pack[at : at + 60_000] for at in range(0, len(pack), 60_000))
    return PACKFILE + b"".join(map(on_band, chunks)) + b"0000"


PACKFILE = packet(b"packfile\n")


class EvilServer(GitHttpServer):
    """The real server, until a test makes it answer otherwise."""

    evil: Answer | None = None
    evil_listing = False

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.evil is not None and (request.method == "POST" or self.evil_listing):
            return await self.evil(self, request)
        return await super()._answer(request)

    async def question(self, request: web.Request) -> bytes:
        body = await request.read()
        return zlib.decompress(body, 31) if request.headers.get("Content-Encoding") == "gzip" else body

    async def opening(self, request: web.Request) -> bytes:
        """What a server sends before the pack to a client that names its commits."""
        _, _, have = (await self.question(request)).partition(b"have ")
        reply = packet(b"acknowledgments\n") + packet(b"ACK " + have[:40] + b"\n") + packet(b"ready\n")
        return reply + b"0001" if have else b""

    async def honest(self, request: web.Request) -> bytes:
        """What the real server would have answered."""
        body = await self.question(request)
        done = await asyncio.to_thread(
            subprocess.run,
            ["git", "upload-pack", "--stateless-rpc", str(self.root / "plant.git")],
            input=body,
            capture_output=True,
            check=True,
            env=git_environment() | {"GIT_PROTOCOL": "version=2"},
        )
        return done.stdout


async def respond(request: web.Request, body: AsyncIterator[bytes]) -> web.StreamResponse:
    service = "advertisement" if request.method == "GET" else "result"
    response = web.StreamResponse(headers={"Content-Type": f"application/x-git-upload-pack-{service}"})
    await response.prepare(request)
    try:
        async for chunk in body:
            await response.write(chunk)
    except ConnectionError:
        pass  # git has had enough
    return response


def sends(*chunks: bytes) -> Answer:
    async def answer(self: EvilServer, request: web.Request) -> web.StreamResponse:
        async def body() -> AsyncIterator[bytes]:
            if b"".join(chunks).startswith(PACKFILE):
                yield await self.opening(request)
            for chunk in chunks:
                yield chunk

        return await respond(request, body())

    return answer


def tampers(change: Callable[[bytes], bytes]) -> Answer:
    async def answer(self: EvilServer, request: web.Request) -> web.StreamResponse:
        real = await self.honest(request)

        async def body() -> AsyncIterator[bytes]:
            yield change(real)

        return await respond(request, body())

    return answer


def repeats(first: bytes, again: bytes, pause: float = 0.0) -> Answer:
    async def answer(self: EvilServer, request: web.Request) -> web.StreamResponse:
        async def body() -> AsyncIterator[bytes]:
            if first.startswith(PACKFILE):
                yield await self.opening(request)
            yield first
            while True:
                yield again
                await asyncio.sleep(pause)

        return await respond(request, body())

    return answer


def with_pack(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """An honest answer in which the pack alone is another."""

    def changed(answer: bytes) -> bytes:
        at = answer.index(PACKFILE)
        opening, rest, pack = answer[:at], answer[at + len(PACKFILE) :], b""
        while (length := int(rest[:4], 16)) > 4:
            pack += rest[5:length] if rest[4] == 1 else b""
            rest = rest[length:]
        assert pack.startswith(b"PACK")
        return opening + answer_with(change(pack))

    return changed


def flipped(pack: bytes, at: int) -> bytes:
    at %= len(pack)
    return pack[:at] + bytes([pack[at] ^ 0xFF]) + pack[at + 1 :]


NOISE = zlib.compress(bytes(range(256)) * 128, 0)
ENDLESS = on_band(object_header(BLOB, 256 * 128) + NOISE)
BOMB = object_header(TREE, 3 << 30) + zlib.compress(bytes(1 << 20))
SELF = object_header(OFS_DELTA, 10) + b"\0" + zlib.compress(b"x" * 10)
BEFORE_THE_START = object_header(OFS_DELTA, 10) + b"\xff\xff\x7f" + zlib.compress(b"x" * 10)
NO_BASE = object_header(REF_DELTA, 10) + b"\x11" * 20 + zlib.compress(b"x" * 10)

UNREACHABLE, LARGE, HERE = Reason.SOURCE_UNREACHABLE, Reason.SOURCE_TOO_LARGE, Reason.GIT_FAILED

EVIL: dict[str, tuple[Answer, set[Reason]]] = {
    "nothing": (sends(), {UNREACHABLE}),
    "a page": (sends(b"<html>Please log in</html>"), {UNREACHABLE}),
    "no number as length": (sends(b"zzzzpackfile\n"), {UNREACHABLE}),
    "a negative length": (sends(b"-001packfile\n"), {UNREACHABLE}),
    "a length below its own": (sends(b"0003"), {UNREACHABLE}),
    "a length beyond the end": (sends(PACKFILE, b"fff0\x01PACK"), {UNREACHABLE}),
    "an unknown band": (sends(PACKFILE, on_band(b"PACK", band=9)), {UNREACHABLE}),
    "an error with escapes": (sends(packet(b"ERR \x1b[2Jgone\n")), {UNREACHABLE}),
    "no pack": (sends(answer_with(b"KCAP" + bytes(100))), {UNREACHABLE}),
    "an empty pack": (sends(answer_with(pack_of())), {UNREACHABLE}),
    "a pack of the future": (sends(answer_with(b"PACK" + struct.pack(">II", 99, 1))), {UNREACHABLE}),
    "a wrong checksum": (tampers(with_pack(lambda pack: flipped(pack, -1))), {UNREACHABLE}),
    "a flipped byte": (tampers(with_pack(lambda pack: flipped(pack, 30))), {UNREACHABLE}),
    "half an answer": (tampers(lambda answer: answer[: len(answer) // 2]), {UNREACHABLE}),
    "half a pack": (tampers(with_pack(lambda pack: pack[: len(pack) // 2])), {UNREACHABLE}),
    "more after the pack": (tampers(with_pack(lambda pack: pack + bytes(1000))), {UNREACHABLE}),
    "fewer objects than announced": (sends(answer_with(pack_of(count=4_000_000_000))), {UNREACHABLE, LARGE}),
    "a delta of itself": (sends(answer_with(pack_of(SELF))), {UNREACHABLE}),
    "a delta before the start": (sends(answer_with(pack_of(BEFORE_THE_START))), {UNREACHABLE}),
    "a delta of nothing": (sends(answer_with(pack_of(NO_BASE))), {UNREACHABLE}),
    "another object than was asked for": (
        sends(answer_with(pack_of(object_header(BLOB, 1) + zlib.compress(b"x")))),
        {UNREACHABLE, HERE},
    ),
    "a tree of three gigabytes": (sends(answer_with(pack_of(BOMB))), {LARGE}),
    "two thousand million objects": (
        repeats(PACKFILE + on_band(b"PACK" + struct.pack(">II", 2, 1 << 31)), ENDLESS),
        {LARGE},
    ),
    "a pack without end": (
        repeats(PACKFILE + on_band(b"PACK" + struct.pack(">II", 2, 100_000)), ENDLESS),
        {LARGE},
    ),
    "one byte at a time": (repeats(PACKFILE, on_band(b".", band=2), pause=0.1), {UNREACHABLE}),
    "progress without end": (repeats(PACKFILE, on_band(b"x" * 60_000, band=2)), {LARGE}),
    "acknowledgements without end": (
        repeats(packet(b"acknowledgments\n"), packet(b"NAK\n") * 1000, pause=0.01),
        {UNREACHABLE},
    ),
}
LISTING: dict[str, tuple[Answer, set[Reason]]] = {
    "refs without end": (
        repeats(
            packet(b"# service=git-upload-pack\n") + b"0000",
            packet(b"1" * 40 + b" refs/heads/x" * 1000) * 10,
            pause=0.01,
        ),
        {UNREACHABLE, LARGE},
    ),
    "nothing but a page": (sends(b"<html>Please log in</html>"), {UNREACHABLE}),
}


class EvilServerSite:
    """A mirror of an honest server that is about to turn."""

    def __init__(self, server: EvilServer, repository: Repository, tmp_path: Path) -> None:
        self.server = server
        self.repository = repository
        self.runner = GitRunner(tmp_path / "cache", timeout=TIMEOUT, max_memory=MEMORY)
        remote = Remote(self.runner, RepoUrl(server.url("plant.git")), fixed_access(RepoAccess()))
        self.mirror = Mirror(
            remote, tmp_path / "cache", limits=FetchLimits(fetch=CAP, news=CAP, seconds=TIMEOUT)
        )

    async def assert_survives(self, reasons: set[Reason], *, begin_with_a_mirror: bool) -> None:
        honest = self.repository.commit({"a": "1", "b": "x" * 5000})
        async with self.mirror.held():
            if begin_with_a_mirror:
                evil, self.server.evil = self.server.evil, None
                await self.mirror.fetch(honest, MAIN)
                self.server.evil = evil
            later = self.repository.commit({f"f{n}": f"{n}" * 500 for n in range(50)})
            self.server.requests.clear()
            with pytest.raises(StokerError) as failed:
                await self.mirror.fetch(later, MAIN)
            assert failed.value.reason in reasons, failed.value.message
            assert failed.value.message.isprintable()
            # What is new, and then one commit alone, for which the mirror is rebuilt at most once.
            assert sum(request.method == "GET" for request in self.server.requests) <= 2
            self.assert_tidy()
            if begin_with_a_mirror:
                files = (await read_tree(self.runner, self.mirror.path, honest)).files
                assert files.keys() == {"a", "b"}
            self.server.evil = None
            await self.mirror.fetch(later, MAIN)
            assert len((await read_tree(self.runner, self.mirror.path, later)).files) == 52
            self.assert_tidy()

    def assert_tidy(self) -> None:
        mirror = self.mirror.path
        assert not [*mirror.rglob("tmp_*"), *mirror.rglob("*.lock")]
        assert {path.name for path in mirror.parent.iterdir()} <= {mirror.name, f"{mirror.name}.lock"}


@pytest.fixture
def site(repositories: Path, tmp_path: Path) -> Iterator[EvilServerSite]:
    repository = Repository.create(repositories / "plant.git")
    with EvilServer.start(repositories) as server:
        yield EvilServerSite(server, repository, tmp_path)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # which a child has until it is git
    assert most < ours + 2 * MEMORY, "a git needed too much memory"


@pytest.mark.parametrize("begin_with_a_mirror", [True, False], ids=["a mirror", "none"])
@pytest.mark.parametrize("what", EVIL)
async def test_whatever_a_server_sends_the_mirror_survives(
    site: EvilServerSite, what: str, begin_with_a_mirror: bool
) -> None:
    answer, reasons = EVIL[what]
    site.server.evil = answer
    await site.assert_survives(reasons, begin_with_a_mirror=begin_with_a_mirror)


@pytest.mark.parametrize("what", LISTING)
async def test_whatever_a_server_announces_the_mirror_survives(site: EvilServerSite, what: str) -> None:
    answer, reasons = LISTING[what]
    site.server.evil_listing = True
    site.server.evil = answer
    await site.assert_survives(reasons, begin_with_a_mirror=True)
