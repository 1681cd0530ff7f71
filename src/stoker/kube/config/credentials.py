"""The credentials that requests present to the API server, and their renewal.

A request calls `current()` for a `RequestIdentity`; after a 401 the transport passes the refused identity to
`renew()`, which returns whether another one is available. The kubelet replaces the pod's token at run time,
so files are read again after a minute and immediately after a 401. Plug-ins that print credentials are in
`stoker.kube.config.exec_plugin`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker.domain.clock import Clock
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.kube.config.files import read_bounded
from stoker.kube.config.tls import ClientCertificate

FILE_CACHE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The credentials of one request: an Authorization header, a certificate, both or neither."""

    authorization: Secret | None = None
    certificate: ClientCertificate | None = None


class KubeCredentials(Protocol):
    """A source of identities."""

    async def current(self) -> RequestIdentity:
        """Return the identity to use now; raise Misconfigured if there is none."""
        ...

    async def renew(self, refused: RequestIdentity) -> bool:
        """After a 401 for `refused`: read again, and return whether a retry makes sense."""
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """An identity that never changes: a token, a password, a certificate, or anonymous."""

    identity: RequestIdentity = RequestIdentity()

    async def current(self) -> RequestIdentity:
        return self.identity

    async def renew(self, refused: RequestIdentity) -> bool:
        return False


class FileCredentials:
    """An identity that `read` makes from files which other processes replace."""

    __slots__ = ("_clock", "_identity", "_read", "_read_at")

    def __init__(self, read: Callable[[], RequestIdentity], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._identity = read()
        self._read_at = clock.monotonic()

    async def current(self) -> RequestIdentity:
        if self._clock.monotonic() - self._read_at >= FILE_CACHE_SECONDS:
            self._look_again()
        return self._identity

    async def renew(self, refused: RequestIdentity) -> bool:
        self._look_again()
        return self._identity != refused

    def _look_again(self) -> None:
        """Read again; a file that is missing while it is being replaced keeps the previous identity."""
        self._read_at = self._clock.monotonic()
        try:
            self._identity = self._read()
        except Misconfigured:
            return


def bearer_header(token: Secret, where: str) -> Secret:
    """Return the header for a token; text that is not valid in a header is refused."""
    text = token.reveal_bytes().strip()
    if not text or any(byte <= 0x20 or byte >= 0x7F for byte in text):
        raise Misconfigured(f"{where} holds no usable token")
    return Secret(b"Bearer " + text)


def basic_header(username: str, password: Secret) -> Secret:
    """Return the header for a name and a password."""
    return Secret(b"Basic " + base64.b64encode(username.encode() + b":" + password.reveal_bytes()))


def bearer_header_from_file(path: Path) -> Secret:
    """Return the header for the token in a file."""
    return bearer_header(Secret(read_bounded(path, f"the token file {path}")), f"the token file {path}")


def decode_secret(_: type, value: object) -> Secret:
    """Decode text directly into a Secret for msgspec, so that no decoded file shows one in its repr."""
    if isinstance(value, str):
        return Secret(value)
    raise TypeError("Expected `str`")
