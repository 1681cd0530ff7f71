"""Logs in as an installed GitHub App: exchanges the app's key for a short-lived token.

The app signs a JWT with its private key, and GitHub returns a token that is valid for an hour. A token is
limited to one repository, never the whole installation, and to the rights that the caller needs: write
access only for a push. Tokens are cached in memory only, per app, installation, repository, rights *and*
key, so that a user who names another user's app without its key gets no token. They are renewed some
minutes before they expire. The expiry is measured with GitHub's clock and a monotonic clock, so that login
also works on a machine with a wrong time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from types import MappingProxyType
from urllib.parse import urlsplit

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import TOKEN_USER, GitPassword, RepoAccess
from stoker.git.auth.github_api import post_json, token_error
from stoker.git.errors import SourceUnreachable
from stoker.http_client import ServiceResponse

MAX_KEPT = 256
_BACKDATE_SECONDS = 60
_VALID_FOR = 540  # plus the backdating: ten minutes, GitHub's maximum
_RENEW_BEFORE = 300.0


class TokenRights(Enum):
    """The permissions of a token in its repository, in GitHub's terms."""

    READ = MappingProxyType({"contents": "read"})
    PUSH = MappingProxyType({"contents": "write"})
    PROPOSE = MappingProxyType({"contents": "write", "pull_requests": "write"})


@dataclass(frozen=True, slots=True)
class GitHubApp:
    """One installation of an app."""

    app_id: int
    installation_id: int
    key: Secret

    def __str__(self) -> str:
        return f"GitHub App {self.app_id}, installation {self.installation_id}"


@dataclass(slots=True)
class _CachedToken:
    token: Secret | None = None
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_TokenKey = tuple[str, int, int, str, TokenRights, bytes]


class GitHubAppTokens:
    """The token cache of this process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._kept: dict[_TokenKey, _CachedToken] = {}

    async def access(
        self,
        app: GitHubApp,
        url: RepoUrl,
        rights: TokenRights = TokenRights.READ,
        *,
        ca: bytes | None = None,
        proxy: str = "",
    ) -> RepoAccess:
        """Return an access with a valid token for this one repository of the installation."""
        api, repository = api_url(url), repository_name(url)
        digest = hashlib.sha256(app.key.reveal_bytes()).digest()
        kept = self._entry((api, app.app_id, app.installation_id, repository, rights, digest))
        async with kept.lock:  # concurrent callers wait for the same token
            if kept.token is None or self._clock.monotonic() >= kept.until:
                scope = {"repositories": [repository], "permissions": dict(rights.value)}
                kept.token, kept.until = await self._renewed(app, api, scope, ca, proxy)
            token = kept.token
        return RepoAccess(
            GitPassword(TOKEN_USER, token),
            ca=ca,
            proxy=proxy,
            subject=f"app/{app.app_id}/{app.installation_id}",
            refused=partial(_forget_token, kept, token),
        )

    def _entry(self, key: _TokenKey) -> _CachedToken:
        if key not in self._kept:
            idle = [known for known, kept in self._kept.items() if not kept.lock.locked()]
            for known in idle[: len(self._kept) - MAX_KEPT + 1] if len(self._kept) >= MAX_KEPT else ():
                del self._kept[known]
        return self._kept.setdefault(key, _CachedToken())

    async def _renewed(
        self, app: GitHubApp, api: str, scope: Mapping[str, object], ca: bytes | None, proxy: str
    ) -> tuple[Secret, float]:
        address = f"{api}/app/installations/{app.installation_id}/access_tokens"
        now = self._clock.now().timestamp()
        asked = self._clock.monotonic()
        answer = await post_json(address, _app_jwt(app, now), scope, ca, proxy)
        if (
            answer.status == 401
            and answer.date is not None
            and abs(answer.date - now) > _BACKDATE_SECONDS / 2
        ):
            # Our clock may be wrong: sign the JWT again with GitHub's time.
            asked = self._clock.monotonic()
            answer = await post_json(address, _app_jwt(app, answer.date), scope, ca, proxy)
        if answer.status != 201:
            raise token_error(answer, str(app), api)
        return _parse_token(answer, app, asked)


def api_url(url: RepoUrl) -> str:
    """Return the API address of the host of a repository."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http"):
        raise InvalidValue("a GitHub App logs in over https; use the https address of the repository")
    host = (parts.hostname or "").lower()
    if host in ("github.com", "www.github.com"):
        return "https://api.github.com"
    if host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"{parts.scheme}://{parts.netloc}/api/v3"


def repository_name(url: RepoUrl) -> str:
    """Return the repository's name without its owner, who is the owner of the installation."""
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    if not name:
        raise InvalidValue("the address of a GitHub App's repository names no repository")
    return name


def _forget_token(kept: _CachedToken, token: Secret) -> None:
    """Drop a refused token, unless another caller has already renewed it."""
    if kept.token is token:
        kept.token = None


def _app_jwt(app: GitHubApp, now: float) -> Secret:
    """Return the app's JWT, signed with RS256."""
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - few log in this way
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415

    try:
        key = serialization.load_pem_private_key(app.key.reveal_bytes().strip() + b"\n", password=None)
    except (ValueError, TypeError):  # TypeError: it is encrypted
        raise InvalidValue(
            f"the private key of {app} is not an unencrypted private key in PEM form"
        ) from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InvalidValue(f"the private key of {app} is not an RSA key, which GitHub's are")
    claims = {"iat": int(now) - _BACKDATE_SECONDS, "exp": int(now) + _VALID_FOR, "iss": str(app.app_id)}
    signed = b".".join(
        _base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims)
    )
    signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    return Secret(signed + b"." + _base64url(signature))


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _parse_token(answer: ServiceResponse, app: GitHubApp, asked: float) -> tuple[Secret, float]:
    """Return the token and the monotonic time at which to renew it."""
    try:
        content = json.loads(answer.body)
        token, expires = Secret(content["token"]), datetime.fromisoformat(content["expires_at"]).timestamp()
        usable = bool(token) and token.is_one_line and answer.date is not None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        usable = False
    if not usable:
        raise SourceUnreachable(f"GitHub answered {app} with something that is no token")
    lasts = max(0.0, expires - (answer.date or 0.0))
    return token, asked + lasts - min(_RENEW_BEFORE, lasts / 2)
