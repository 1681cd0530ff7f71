"""The connections of one HTTP session: resolved, checked, and opened to the checked address.

aiohttp calls an `EgressCheckedResolver` twice: as its resolver, and for each socket, which covers
hosts that are IP addresses. An attacker therefore gains nothing by a name that resolves to another
address a moment later (DNS rebinding). Import it only where aiohttp is used anyway.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from stoker.domain.egress import parse_address
from stoker.http_client import egress
from stoker.http_client.errors import EgressRefused, ServiceUnreachable

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType


class EgressCheckedResolver(AbstractResolver):
    """The address check of one session; `refusal` holds why an address was refused."""

    def __init__(self, services_of: str = "") -> None:
        """`services_of` is a namespace whose Services may be reached by name."""
        self.refusal: EgressRefused | None = None
        self._policy = egress.current_egress_policy()
        self._services_of = services_of
        self._checked: set[str] = set()
        self._trusted: set[str] = set()

    def connector(self, **options: Any) -> aiohttp.TCPConnector:
        if self._policy is None:
            return aiohttp.TCPConnector(**options)
        return aiohttp.TCPConnector(
            resolver=self, socket_factory=self._socket, use_dns_cache=False, **options
        )

    def through(self, proxy: str | None, url: str, *, own: bool) -> None:
        """Raise if `url` may not be requested through a proxy; `own`: the process's environment names it.

        A proxy resolves names itself, so only the name can be checked here.
        """
        if proxy is None:
            return
        egress.check_host_name(urlsplit(url).hostname or "", self._services_of)
        if own:
            host = urlsplit(proxy).hostname or ""
            self._trusted.add(host)
            self._checked.add(host)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            if host in self._trusted:
                found = await _resolve_unchecked(host, port)
            else:
                found = await egress.checked_addresses(host, port, self._services_of)
        except EgressRefused as error:
            self.refusal = error
            raise OSError(None, error.message) from None
        except ServiceUnreachable as error:
            raise OSError(None, error.message) from None
        self._checked |= {one.address for one in found}
        return [
            ResolveResult(
                hostname=host,
                host=one.address,
                port=port,
                family=one.family,
                proto=one.proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for one in found
        ]

    async def close(self) -> None:
        """Do nothing: no connection is held open."""

    def _socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, proto, _, target = info
        host = str(target[0])
        if host not in self._checked and self._policy is not None:
            address = parse_address(host)
            why = "cannot be read" if address is None else self._policy.refuses_address(address)
            if why is not None:
                self.refusal = egress.egress_refused(host, why)
                raise OSError(None, self.refusal.message)
        return socket.socket(family, kind, proto)


async def _resolve_unchecked(host: str, port: int) -> list[egress.ResolvedAddress]:
    import asyncio  # noqa: PLC0415 - needed only for environment proxies

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [egress.ResolvedAddress(family, proto, str(target[0])) for family, _, proto, _, target in found]
