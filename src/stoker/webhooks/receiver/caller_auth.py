"""Whether a caller is believed, and about which resources.

The operator's own keys come first: who knows them may ask about every resource and is
told when there is none. Others are believed about the resources whose own keys they
know (C-051). A resource that does not exist, is not enabled or has no key is compared
with a key that nobody knows, so that each request costs the same and looks the same
from outside.

No secret is kept here: each request asks for them anew through the functions that the
receiver was given, which must answer from memory, because strangers make them run.
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
"""The value of a key of a Secret in a namespace, from memory; None where it is missing."""

_DUMMY_KEY = Secret(secrets.token_bytes(32))


@dataclass(frozen=True, slots=True)
class CallerKeys:
    """What callers may know: a key to sign with, a token to show. GitLab shows either."""

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
    """What came of it: whether the caller is anybody, and whom it may speak to."""

    believed: bool
    about: tuple[IndexedResource, ...] = ()


def authenticate(
    headers: Mapping[str, str],
    body: bytes,
    found: Sequence[IndexedResource],
    operator: CallerKeys,
    read: CallerKeyReader,
) -> CallerAuthResult:
    """Who it is. Always the same work: the operator's keys, and those of one resource of each kind."""
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
