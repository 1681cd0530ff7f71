"""Who calls over HTTP: whether they know a secret, and how much of what they send is taken.

Both receivers stand on this, the one of a whole cluster (`stoker.webhooks.receiver.receiver`)
and that of one machine (`stoker.agent.loop.local_webhook`). A caller proves that it knows a
secret by an HMAC-SHA256 of the body, as GitHub, Gitea, Forgejo, Gogs and Bitbucket
send it, by GitLab's token or by a bearer token. Every comparison takes the same time,
right or wrong, and none is left out because another was right. An empty secret is
known to nobody.
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
    """Whether there is anything that could be right; without, the body need not be read."""
    return any(headers.get(name) for name in (*_SIGNATURES, _GITLAB, _AUTHORIZATION))


def is_signed_with(headers: Mapping[str, str], body: bytes, key: Secret) -> bool:
    """Whether one of the signatures is that of the body under this key."""
    expected = hmac.new(key.reveal_bytes(), body, hashlib.sha256).hexdigest()
    offered = [headers.get(name, "").removeprefix("sha256=").lower() for name in _SIGNATURES]
    right = [_is_equal_digest(one, expected.encode()) for one in offered]
    return any(right) and bool(key)


def has_gitlab_token(headers: Mapping[str, str], token: Secret) -> bool:
    """Whether GitLab's header is this token."""
    return _is_equal_digest(headers.get(_GITLAB, ""), token.reveal_bytes()) and bool(token)


def has_bearer_token(headers: Mapping[str, str], token: Secret) -> bool:
    """Whether it is the bearer token of the request."""
    scheme, _, bearer = headers.get(_AUTHORIZATION, "").partition(" ")
    return _is_equal_digest(
        bearer.strip() if scheme.lower() == "bearer" else "", token.reveal_bytes()
    ) and bool(token)


def is_authentic(headers: Mapping[str, str], body: bytes, secret: Secret) -> bool:
    """Whether the sender knows the secret, in whichever way it shows that."""
    return any(
        [
            is_signed_with(headers, body, secret),
            has_gitlab_token(headers, secret),
            has_bearer_token(headers, secret),
        ]
    )


async def read_capped(chunks: AsyncIterable[bytes], limit: int) -> bytes | None:
    """All of it, or nothing as soon as it is longer than that."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            return None
        parts.append(chunk)
    return b"".join(parts)


def _is_equal_digest(header: str, expected: bytes) -> bool:
    """Digests are compared, or the time would tell how long the secret is; a header may hold anything."""
    offered = hashlib.sha256(header.encode(errors="surrogateescape")).digest()
    return hmac.compare_digest(offered, hashlib.sha256(expected).digest())
