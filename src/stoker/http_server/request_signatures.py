"""Checks whether an HTTP caller knows a secret, and reads bodies up to a limit.

Both webhook receivers use this: that of a cluster (`stoker.webhooks.receiver.receiver`) and that of a
single machine (`stoker.agent.loop.local_webhook`). A caller proves that it knows a secret by an HMAC-SHA256
of the body, as GitHub, Gitea, Forgejo, Gogs and Bitbucket send it, by GitLab's token, or by a bearer token.
Every comparison takes constant time, and all are made even if one has already matched. An empty secret
matches no caller.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterable, Mapping

from stoker.domain.secrets import Secret

MAX_BODY = 1 << 20

_SIGNATURES = (
    "X-Hub-Signature-256",
    "X-Hub-Signature",
    "X-Gitea-Signature",
    "X-Forgejo-Signature",
    "X-Gogs-Signature",
)
_GITLAB = "X-Gitlab-Token"
_AUTHORIZATION = "Authorization"


def has_credentials(headers: Mapping[str, str]) -> bool:
    """Return whether there are any credentials to check; without them, the body need not be read."""
    return any(headers.get(name) for name in (*_SIGNATURES, _GITLAB, _AUTHORIZATION))


def is_signed_with(headers: Mapping[str, str], body: bytes, key: Secret) -> bool:
    """Return whether one of the signatures is the HMAC of the body with this key."""
    expected = hmac.new(key.reveal_bytes(), body, hashlib.sha256).hexdigest()
    offered = [headers.get(name, "").removeprefix("sha256=").lower() for name in _SIGNATURES]
    right = [_is_equal_digest(one, expected.encode()) for one in offered]
    return any(right) and bool(key)


def has_gitlab_token(headers: Mapping[str, str], token: Secret) -> bool:
    """Return whether GitLab's header equals this token."""
    return _is_equal_digest(headers.get(_GITLAB, ""), token.reveal_bytes()) and bool(token)


def has_bearer_token(headers: Mapping[str, str], token: Secret) -> bool:
    """Return whether the request's bearer token equals this token."""
    scheme, _, bearer = headers.get(_AUTHORIZATION, "").partition(" ")
    return _is_equal_digest(
        bearer.strip() if scheme.lower() == "bearer" else "", token.reveal_bytes()
    ) and bool(token)


def is_authentic(headers: Mapping[str, str], body: bytes, secret: Secret) -> bool:
    """Return whether the sender proves, by any of the three methods, that it knows the secret."""
    return any(
        [
            is_signed_with(headers, body, secret),
            has_gitlab_token(headers, secret),
            has_bearer_token(headers, secret),
        ]
    )


async def read_capped(chunks: AsyncIterable[bytes], limit: int) -> bytes | None:
    """Return the whole body, or None as soon as it exceeds the limit."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            return None
        parts.append(chunk)
    return b"".join(parts)


def _is_equal_digest(header: str, expected: bytes) -> bool:
    """Compare digests, so that the time does not reveal the secret's length; a header may hold any bytes."""
    offered = hashlib.sha256(header.encode(errors="surrogateescape")).digest()
    return hmac.compare_digest(offered, hashlib.sha256(expected).digest())
