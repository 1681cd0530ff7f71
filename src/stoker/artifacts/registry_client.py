"""HTTP client of one registry: manifests in memory, blobs into files, both with size limits.

Many registries redirect blob downloads to an object store. The client follows a few redirects
(`MAX_HOPS`), only to addresses that pass the egress check (`stoker.http_client.egress`), never from TLS to
plain http, and without the credentials. Error messages name the artifact and never the address of a
redirect, which may contain a signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urljoin, urlsplit

from stoker.artifacts.errors import (
    ArtifactAuthFailed,
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactTooLarge,
    ArtifactUnreachable,
)
from stoker.artifacts.registry_auth import AuthChallenge, authorization_header, check_realm
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.http_client.errors import EgressRefused
from stoker.http_client.proxy import proxy_for
from stoker.http_client.tls import client_tls_context

if TYPE_CHECKING:
    from types import TracebackType

    from aiohttp import ClientResponse, ClientSession

    from stoker.http_client.connections import EgressCheckedResolver

MAX_HOPS = 5
CONNECT_TIMEOUT = 10.0
IDLE_TIMEOUT_SECONDS = 30.0
MAX_WAIT = 3600.0
_CHUNK_BYTES = 1 << 16


class RegistryClient:
    """A client for one lookup or pull of an artifact; it keeps no token beyond that."""

    def __init__(
        self, base: str, repository: str, title: str, credentials: ArtifactCredentials, seconds: float
    ) -> None:
        """Create the client; `base` is `https://host`, or `http://host` for a registry without TLS."""
        self._base = base
        self._repository = repository
        self._title = title
        self._credentials = credentials
        self._seconds = seconds
        self._authorization = ""
        self._session: ClientSession | None = None
        self._connections: EgressCheckedResolver | None = None

    async def __aenter__(self) -> Self:
        import aiohttp  # noqa: PLC0415 - slow to import, and most sources are git repositories

        from stoker.http_client.connections import EgressCheckedResolver  # noqa: PLC0415 - needs aiohttp

        self._connections = EgressCheckedResolver()
        by_tls = self._base.startswith("https://") or self._credentials.proxy.startswith("https://")
        context = client_tls_context(self._credentials.ca) if by_tls or self._credentials.ca else None
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(
                total=self._seconds, sock_connect=CONNECT_TIMEOUT, sock_read=IDLE_TIMEOUT_SECONDS
            ),
            connector=self._connections.connector(ssl=context if context is not None else True, limit=4),
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def head(self, path: str, accept: str) -> dict[str, str]:
        """Send a HEAD request; return the response headers with lower-case names."""
        with_accept = {"Accept": accept}
        async with self._answer("HEAD", path, with_accept) as response:
            return {name.lower(): value for name, value in response.headers.items()}

    async def get(self, path: str, accept: str, max_bytes: int) -> bytes:
        """Get a manifest or an index; raise if it announces or sends more than `max_bytes`."""
        parts, size = [], 0
        async with self._answer("GET", path, {"Accept": accept}) as response:
            self._demand_small(response.content_length or 0, max_bytes)
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                parts.append(chunk)
                size += len(chunk)
                self._demand_small(size, max_bytes)
        return b"".join(parts)

    async def download(self, digest: str, size: int, target: Path) -> None:
        """Download a blob to `target`; raise unless it has exactly this size and digest."""
        algorithm, _, wanted = digest.partition(":")
        hashed, left = hashlib.new(algorithm), size
        async with self._answer("GET", f"blobs/{digest}", {}) as response:
            with target.open("xb") as file:
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    left -= len(chunk)
                    if left < 0:
                        break
                    hashed.update(chunk)
                    file.write(chunk)  # goes to the page cache: faster than a thread
        if left or hashed.hexdigest() != wanted:
            raise ArtifactDamaged(f"blob {digest} of {self._title} does not match its digest")

    @asynccontextmanager
    async def _answer(self, method: str, path: str, headers: dict[str, str]) -> AsyncIterator[ClientResponse]:
        import aiohttp  # noqa: PLC0415

        from stoker.http_client.network_errors import network_error_text  # noqa: PLC0415 - needs aiohttp

        url = f"{self._base}/v2/{self._repository}/{path}"
        try:
            response = await self._followed(method, url, headers)
            if response.status == 401 and not self._is_own(response):
                response.close()  # the target of a redirect must not choose where the login is sent
                raise ArtifactAuthFailed(f"{self._title} redirects to a server that denies access")
            if response.status == 401:
                challenge = AuthChallenge.parse(response.headers.get("WWW-Authenticate", ""))
                response.close()
                if challenge.realm and challenge.scheme == "bearer":
                    check_realm(challenge.realm, plain=self._plain, title=self._title)
                self._authorization = await authorization_header(
                    challenge, self._credentials, self._repository, self._title
                )
                response = await self._followed(method, url, headers)
            async with response:
                self._judge(response, path)
                yield response
        except EgressRefused as error:
            raise self._refused(error) from None
        except StokerError:
            raise
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            if self._connections is not None and self._connections.refusal is not None:
                raise self._refused(self._connections.refusal) from None
            idle = isinstance(error, aiohttp.SocketTimeoutError)
            text = network_error_text(error, IDLE_TIMEOUT_SECONDS if idle else self._seconds)
            raise ArtifactUnreachable(f"{self._title} {text}") from None

    async def _followed(self, method: str, url: str, headers: dict[str, str]) -> ClientResponse:
        assert self._session is not None  # noqa: S101 - set by __aenter__
        assert self._connections is not None  # noqa: S101 - set by __aenter__
        for _ in range(MAX_HOPS):
            proxy = proxy_for(url, self._credentials.proxy)
            self._connections.through(proxy, url, own=not self._credentials.proxy)
            own = urlsplit(url)[:2] == urlsplit(self._base)[:2]
            login = {"Authorization": self._authorization} if self._authorization and own else {}
            response = await self._session.request(
                method,
                url,
                headers={"User-Agent": "stoker", "Accept-Encoding": "identity", **headers, **login},
                proxy=proxy,
                allow_redirects=False,
            )
            if response.status not in (301, 302, 303, 307, 308):
                return response
            target = response.headers.get("Location", "")
            response.close()
            url = urljoin(url, target)
            check_realm(url, plain=self._plain, title=self._title)
        raise ArtifactUnreachable(f"{self._title} redirects more than {MAX_HOPS} times")

    def _demand_small(self, size: int, max_bytes: int) -> None:
        if size > max_bytes:
            raise ArtifactTooLarge(f"{self._title} has a manifest of more than {max_bytes} bytes")

    def _judge(self, response: ClientResponse, path: str) -> None:
        status = response.status
        if status == 200:
            return
        if status in (401, 403):
            raise ArtifactAuthFailed(f"{self._title} denied access; check the login")
        if status == 404:
            if path.startswith("blobs/"):
                raise ArtifactDamaged(
                    f"{path.removeprefix('blobs/')} is named by {self._title} but does not exist"
                )
            raise ArtifactNotFound(f"there is no {self._title}")
        after = response.headers.get("Retry-After", "")
        if status == 429:
            raise Retry(
                f"{self._title}: too many requests, the registry limits the rate",
                after=min(float(after), MAX_WAIT) if after.isdecimal() else None,
                reason=Reason.SOURCE_UNREACHABLE,
            )
        raise ArtifactUnreachable(f"{self._title}: the registry answered with status {status}")

    def _refused(self, error: EgressRefused) -> ArtifactUnreachable:
        return ArtifactUnreachable(f"{self._title} cannot be reached: {error.message}", reason=error.reason)

    def _is_own(self, response: ClientResponse) -> bool:
        """Whether the registry itself answered, and not the target of a redirect."""
        from yarl import URL  # noqa: PLC0415 - comes with aiohttp

        return response.url.origin() == URL(self._base).origin()

    @property
    def _plain(self) -> bool:
        return self._base.startswith("http://")
