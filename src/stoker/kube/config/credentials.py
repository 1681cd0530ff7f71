"""Who we are to the API server, and what to do when it no longer believes it.

A request asks `current()` for an `RequestIdentity`; after a 401 the transport hands the
refused identity to `renew()`, which says whether another one is there. The pod's
token is replaced by the kubelet while we run, so files are read again after a
minute and at once after a 401. Plug-ins that print credentials are in
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
    """What one request shows of us: an Authorization header, a certificate, both or neither."""

    authorization: Secret | None = None
    certificate: ClientCertificate | None = None


class KubeCredentials(Protocol):
    """A source of identities."""

    async def current(self) -> RequestIdentity:
        """The identity to use now; raises Misconfigured where there is none to be had."""
        ...

    async def renew(self, refused: RequestIdentity) -> bool:
        """After a 401 for `refused`: look again, and say whether trying again makes sense."""
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """An identity that never changes: a token, a password, a certificate, or nobody in particular."""

    identity: RequestIdentity = RequestIdentity()

    async def current(self) -> RequestIdentity:
        return self.identity

    async def renew(self, refused: RequestIdentity) -> bool:
        return False


class FileCredentials:
    """An identity that `read` makes from files which others replace under us."""

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
        """A file that is missing for a moment while it is being replaced leaves us who we were."""
        self._read_at = self._clock.monotonic()
        try:
            self._identity = self._read()
        except Misconfigured:
            return


def bearer_header(token: Secret, where: str) -> Secret:
    """The header for a token; anything that could not stand in a header is not a token."""
    text = token.reveal_bytes().strip()
    if not text or any(byte <= 0x20 or byte >= 0x7F for byte in text):
        raise Misconfigured(f"{where} holds no usable token")
    return Secret(b"Bearer " + text)


def basic_header(username: str, password: Secret) -> Secret:
    """The header for a name and a password."""
    return Secret(b"Basic " + base64.b64encode(username.encode() + b":" + password.reveal_bytes()))


def bearer_header_from_file(path: Path) -> Secret:
    """The header for the token in a file."""
    return bearer_header(Secret(read_bounded(path, f"the token file {path}")), f"the token file {path}")


def decode_secret(_: type, value: object) -> Secret:
    """Lets msgspec read text straight into a Secret, so that no decoded file shows one in its repr."""
    if isinstance(value, str):
        return Secret(value)
    raise TypeError("Expected `str`")
