"""One request to GitHub's API, and its refusals in words.

Used for tokens of GitHub Apps. The statement that proves who we are goes to the
API of the repository's own host and nowhere else: redirects are not followed. The
answer is bounded in time and size, and what GitHub says about a refusal is cut to
a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.secrets import Secret
from stoker.git.errors import SourceAuthFailed, SourceUnreachable, one_line
from stoker.git.proxies import checked
from stoker.git.tls import certificates

if TYPE_CHECKING:
    from ssl import SSLContext

TIMEOUT = 30.0
MAX_REPLY = 64 * 1024


class ApiAnswer(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    date: float | None
    """The server's own time, in seconds."""
    wait: float | None
    """How long it asks us to stay away."""


async def post(address: str, bearer: Secret, ca: bytes | None, proxy: str) -> ApiAnswer:
    """POST without a body."""
    import aiohttp  # noqa: PLC0415 - costs more than a whole sync, and only GitHub Apps need it

    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {bearer.reveal()}",
        "User-Agent": "stoker",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    host = urlsplit(address).hostname or address
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session,
            session.post(
                address,
                headers=headers,
                ssl=_context(ca),
                proxy=_proxy_for(address, proxy),
                allow_redirects=False,
            ) as response,
        ):
            body = await response.content.read(MAX_REPLY + 1)
            while len(body) <= MAX_REPLY and (more := await response.content.read(MAX_REPLY + 1)):
                body += more
            if len(body) > MAX_REPLY:
                raise SourceUnreachable(f"the API of {host} answers with more than {MAX_REPLY} bytes")
            return ApiAnswer(response.status, body, _date(response.headers), _wait(response.headers))
    except TimeoutError:
        raise SourceUnreachable(f"the API of {host} did not answer within {TIMEOUT:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise SourceUnreachable(f"the API of {host} cannot be reached: {type(error).__name__}") from None


def explained(answer: ApiAnswer, who: str, api: str) -> StokerError:
    """Why there is no token."""
    host = urlsplit(api).hostname
    said = f"{host} says: {_message(answer.body)}"
    if answer.status in (403, 429) and answer.wait is not None:
        return SourceUnreachable(f"{who} has asked {host} too often: {said}", after=answer.wait)
    if answer.status == 401:
        return SourceAuthFailed(f"{who}: the app id or its private key is wrong: {said}")
    if answer.status == 404:
        return SourceAuthFailed(
            f"{who}: the app has no such installation, or the address has no such API: {said}"
        )
    if answer.status in (403, 422):
        return SourceAuthFailed(f"{who} gets no token, as when it is suspended: {said}")
    if 300 <= answer.status < 400:
        return SourceUnreachable(f"{who}: the API of {host} answers with a redirect, which is not followed")
    return SourceUnreachable(f"{who}: the API of {host} answered with status {answer.status}: {said}")


def _message(body: bytes) -> str:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    message = content.get("message") if isinstance(content, dict) else None
    return one_line(message) if isinstance(message, str) else "nothing that can be read"


def _context(ca: bytes | None) -> SSLContext:
    """One of our own: an agent imports aiohttp without the authorities of the system."""
    import ssl  # noqa: PLC0415

    context = ssl.create_default_context()
    if ca is None:
        return context
    try:
        context.load_verify_locations(cadata=certificates(ca).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise InvalidValue("the CA certificates cannot be read") from None
    return context


def _proxy_for(address: str, proxy: str) -> str | None:
    """The proxy that git would take for this address."""
    from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415

    target = urlsplit(address)
    known = getproxies_environment()
    chosen = checked(proxy) if proxy else known.get(target.scheme, known.get("all", ""))
    if not chosen or proxy_bypass(target.hostname or ""):
        return None
    chosen = chosen if "://" in chosen else f"http://{chosen}"
    if chosen.startswith("socks"):
        raise InvalidValue("a GitHub App cannot log in through a SOCKS proxy; use an http proxy")
    return chosen


def _date(headers: Mapping[str, str]) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        return parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _wait(headers: Mapping[str, str]) -> float | None:
    """Retry-After, or the time at which GitHub's budget is filled again."""
    seconds = headers.get("Retry-After", "")
    if seconds.isdecimal():
        return min(float(seconds), 3600.0)
    reset, date = headers.get("X-RateLimit-Reset", ""), _date(headers)
    if headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal() and date is not None:
        return min(max(float(reset) - date, 1.0), 3600.0)
    return None
