"""A real git server over HTTP: git's own backend behind a small web server.

Speaks what a forge speaks (protocol v2, shallow and partial clones, pushes),
because `git http-backend` does the talking; this module only carries requests to
it and decides who may pass. Credentials can be changed while it runs, as an
administrator would, and every request is on record.

    python -m stoker_testkit.repositories.git_http_server FOLDER    serve it; prints the address
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import signal
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aiohttp import hdrs, web

from stoker_testkit.certificates import KeyPair
from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.http_listener import WebListener
from stoker_testkit.repositories.bare_repository import git_environment
from stoker_testkit.stoppable import Stoppable

CHUNK_BYTES = 64 * 1024
ANONYMOUS = "anonymous"
USER = web.RequestKey("user", str)


@dataclass(frozen=True, slots=True)
class GitRequest:
    """One request as the server saw it."""

    method: str
    path: str
    protocol: str
    user: str | None
    status: int


class GitHttpServer(Stoppable):
    """Serves the bare repositories below `root`.

    Anyone may read and write while there are neither `users` (name to password)
    nor `tokens` (bearer); as soon as there are, a request must bring one of them.
    With `public` reading stays open to all and only a push must.
    """

    def __init__(
        self, root: Path, *, users: Mapping[str, str], tokens: Collection[str], public: bool
    ) -> None:
        self.root = root
        self.users = dict(users)
        self.tokens = set(tokens)
        self.public = public
        self.requests: list[GitRequest] = []
        self._loop = LoopThread("git-http")
        self._listener = WebListener()
        self._base = ""

    @classmethod
    def start(
        cls,
        root: Path,
        *,
        users: Mapping[str, str] | None = None,
        tokens: Collection[str] = (),
        public: bool = False,
        tls: KeyPair | None = None,
        host: str = "127.0.0.1",
    ) -> Self:
        """Serve `root` on a free port of an address of this machine, over https if a certificate is given."""
        root.mkdir(parents=True, exist_ok=True)
        server = cls(root, users=users or {}, tokens=tokens, public=public)
        server._loop.run(server._listen(tls, host))
        return server

    def url(self, repository: str) -> str:
        """The address of a repository, named by its path below the root."""
        return f"{self._base}/{repository}"

    def stop(self) -> None:
        self._loop.run(self._listener.close())
        self._loop.stop()

    async def _listen(self, tls: KeyPair | None, host: str) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        app.on_response_prepare.append(self._record)
        self._base = await self._listener.open(app, tls, host=host)

    async def _record(self, request: web.Request, response: web.StreamResponse) -> None:
        """Runs before the answer's first byte leaves, so a client that has the answer finds it on record."""
        protocol = request.headers.get("Git-Protocol", "")
        user = request.get(USER)
        self.requests.append(GitRequest(request.method, request.path_qs, protocol, user, response.status))

    def _user_of(self, request: web.Request) -> str | None:
        """The user of a request; empty if it is refused."""
        if not self.users and not self.tokens:
            return ANONYMOUS
        scheme, _, credentials = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "bearer" and any(_same(credentials, token) for token in self.tokens):
            return "bearer"
        if scheme.lower() == "basic":
            name, password = _basic(credentials)
            return name if name in self.users and _same(password, self.users[name]) else None
        # Credentials that are wrong are refused even where none are needed, as forges do.
        return ANONYMOUS if self.public and not scheme and "git-receive-pack" not in request.path_qs else None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        user = self._user_of(request)
        if user is None:
            challenge = {hdrs.WWW_AUTHENTICATE: 'Basic realm="stoker testing"'}
            return web.Response(status=401, headers=challenge, text="credentials are missing or wrong\n")
        request[USER] = user
        backend = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment(request, user),
        )
        assert backend.stdin is not None and backend.stdout is not None  # noqa: S101, PT018 - both are pipes
        feeding = asyncio.create_task(_feed(request, backend.stdin))
        try:
            return await _relay(request, backend.stdout)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            if backend.returncode is None and not backend.stdout.at_eof():
                backend.kill()
                await backend.stdout.read()  # a pipe that is full and not read would never be seen to end
            await backend.wait()

    def _environment(self, request: web.Request, user: str) -> dict[str, str]:
        """The request in the words of CGI; without a length, git reads the body to its end."""
        return git_environment() | {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "CONTENT_TYPE": request.headers.get(hdrs.CONTENT_TYPE, ""),
            "REMOTE_USER": user,
            "REMOTE_ADDR": "127.0.0.1",
        }


async def _feed(request: web.Request, stdin: asyncio.StreamWriter) -> None:
    try:
        async for chunk in request.content.iter_chunked(CHUNK_BYTES):
            stdin.write(chunk)
            await stdin.drain()
    except ConnectionError:
        return  # git needed no more of it, or the client has gone
    finally:
        stdin.close()


async def _relay(request: web.Request, stdout: asyncio.StreamReader) -> web.StreamResponse:
    response = web.StreamResponse(status=200)
    while line := (await stdout.readline()).strip():
        name, _, value = line.decode("latin-1").partition(": ")
        if name == "Status":
            response.set_status(int(value.split()[0]))
        else:
            response.headers[name] = value
    await response.prepare(request)
    while chunk := await stdout.read(CHUNK_BYTES):
        await response.write(chunk)
    await response.write_eof()
    return response


def _basic(credentials: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def main() -> None:
    with GitHttpServer.start(Path(sys.argv[1])) as server:
        sys.stdout.write(server.url("").rstrip("/") + "\n")
        sys.stdout.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
