"""Authenticates a caller, and determines the resources it may address.

The operator's own keys come first: their holder may address every resource and gets a 404 if there is
none. Other callers may address the resources whose own keys they hold. For a resource that does not
exist, is not enabled or has no key, the proof is compared with a random dummy key, so that every request
takes the same time and gets the same response.

No secret is stored here: each request reads them through the functions that the receiver was given.
These must answer from memory, because unauthenticated callers trigger them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.http_server.request_signatures import has_bearer_token, has_gitlab_token, is_signed_with
from stoker.webhooks.receiver.index import IndexedResource

CallerKeyReader = Callable[[str, SecretKey], Secret | None]
"""Returns the value of a Secret's key in a namespace, from memory; None if it is missing."""

_DUMMY_KEY = Secret(secrets.token_bytes(32))


@dataclass(frozen=True, slots=True)
class CallerKeys:
    """The keys of a caller: an HMAC key and a bearer token. GitLab sends either as its token."""

    hmac: Secret | None = None
    bearer: Secret | None = None

    def known_to(self, headers: Mapping[str, str], body: bytes) -> bool:
        key, token = self.hmac or _DUMMY_KEY, self.bearer or _DUMMY_KEY
        proofs = [
            is_signed_with(headers, body, key),
            has_gitlab_token(headers, key),
            has_gitlab_token(headers, token),
            has_bearer_token(headers, token),
        ]
        return any(proofs)


@dataclass(frozen=True, slots=True)
class CallerAuthResult:
    """Whether the caller is authenticated, and the resources it may address."""

    believed: bool
    about: tuple[IndexedResource, ...] = ()


def authenticate(
    headers: Mapping[str, str],
    body: bytes,
    found: Sequence[IndexedResource],
    operator: CallerKeys,
    read: CallerKeyReader,
) -> CallerAuthResult:
    """Authenticate the caller; always check the operator's keys and one resource of each kind."""
    as_operator = operator.known_to(headers, body)
    open_to_calls = {one.identity.door: one for one in found if one.enabled}
    fitting = [
        open_to_calls[door]
        for door in SyncResourceKind
        if _webhook_keys(open_to_calls.get(door), read).known_to(headers, body)
    ]
    if as_operator:
        return CallerAuthResult(True, tuple(open_to_calls.values()))
    return CallerAuthResult(bool(fitting), tuple(fitting))


def _webhook_keys(known: IndexedResource | None, read: CallerKeyReader) -> CallerKeys:
    if known is None:
        return CallerKeys()
    namespace = known.identity.namespace
    return CallerKeys(
        None if known.hmac_key is None else read(namespace, known.hmac_key),
        None if known.bearer is None else read(namespace, known.bearer),
    )
