"""Answers the authentication challenge of a registry.

    Basic     the login itself, with every request
    Bearer    a short-lived token from the token service (realm) that the registry names; public
              registries require a token even without a login

The login is sent to that token service, so the connection to it must be as safe as to the registry itself.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from stoker.artifacts.errors import ArtifactAuthFailed, ArtifactUnreachable
from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.http_client import EgressRefused, ServiceRequest, ServiceUnreachable, send_request

MAX_CHALLENGE = 4096
MAX_TOKEN = 64 << 10
TIMEOUT = 30.0
_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"')


class AuthChallenge(NamedTuple):
    """One `WWW-Authenticate` header."""

    scheme: str
    realm: str = ""
    service: str = ""

    @classmethod
    def parse(cls, header: str) -> AuthChallenge:
        scheme, _, rest = header[:MAX_CHALLENGE].strip().partition(" ")
        said = dict(_PARAMETER.findall(rest))
        return cls(scheme.lower(), said.get("realm", ""), said.get("service", ""))


class _RegistryToken(msgspec.Struct):
    token: str = ""
    access_token: str = ""


async def authorization_header(
    challenge: AuthChallenge, credentials: ArtifactCredentials, repository: str, title: str
) -> str:
    """Return the `Authorization` header for a challenge; fetches a token if the registry requires it."""
    if challenge.scheme == "basic" and credentials.password is not None:
        return _basic_header(credentials)
    if challenge.scheme != "bearer":
        raise ArtifactAuthFailed(f"{title} denied anonymous access; a login is needed")
    if not challenge.realm:
        if credentials.password is None or not credentials.is_token:
            raise ArtifactAuthFailed(f"{title} requires a token but names no token server")
        return f"Bearer {credentials.password.reveal()}"
    return f"Bearer {await _fetch_token(challenge, credentials, repository, title)}"


async def _fetch_token(
    challenge: AuthChallenge, credentials: ArtifactCredentials, repository: str, title: str
) -> str:
    query = urlencode({"service": challenge.service, "scope": f"repository:{repository}:pull"})
    join = "&" if urlsplit(challenge.realm).query else "?"
    headers = {} if credentials.password is None else {"Authorization": _basic_header(credentials)}
    request = ServiceRequest(
        f"{challenge.realm}{join}{query}",
        headers=headers,
        timeout=TIMEOUT,
        ca=credentials.ca,
        proxy=credentials.proxy,
        max_reply=MAX_TOKEN,
    )
    try:
        answer = await send_request(request)
    except ServiceUnreachable as error:
        why = f"the token for {title} cannot be fetched: {error.message}"
        refused = isinstance(error, EgressRefused)
        raise ArtifactUnreachable(why, reason=error.reason if refused else None) from None
    if answer.status in (400, 401, 403, 404):
        raise ArtifactAuthFailed(f"{request.host} refused a token for {title} with this login")
    if not answer.ok:
        raise ArtifactUnreachable(f"{request.host} answers {answer.status} to the token request for {title}")
    try:
        given = msgspec.json.decode(answer.body, type=_RegistryToken)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ArtifactUnreachable(f"{request.host} did not answer with a token for {title}") from None
    token = given.token or given.access_token
    if not token or not token.isascii() or not token.isprintable():
        raise ArtifactUnreachable(f"{request.host} returned an empty or unusable token for {title}")
    return token


def check_realm(url: str, *, plain: bool, title: str) -> None:
    """Raise unless an address that a registry names may be contacted.

    It must use TLS, unless `plain` (the registry itself uses http), and must not be link-local: cloud
    metadata services answer there with credentials of the machine.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # such as an unclosed IPv6 bracket
        raise ArtifactUnreachable(f"{title} redirects to an invalid address") from None
    if parts.scheme != "https" and not (plain and parts.scheme == "http"):
        raise ArtifactUnreachable(f"{title} redirects to an address without TLS, which is not followed")
    try:
        RepoUrl(f"{parts.scheme}://{parts.netloc}/")
    except InvalidValue:
        raise ArtifactUnreachable(f"{title} redirects to an address that is not followed") from None


def _basic_header(credentials: ArtifactCredentials) -> str:
    password = b"" if credentials.password is None else credentials.password.reveal_bytes()
    return "Basic " + base64.b64encode(credentials.username.encode() + b":" + password).decode()
