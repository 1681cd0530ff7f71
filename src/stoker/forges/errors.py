"""What a forge's answers mean when they are not what was asked for.

All of them are tried again: the change is in git already and kept, and a right or a
rule is mended on the forge, where nobody tells us of it. The forge's own words are
cut to a line, and the token that was sent can stand in none of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.domain.text import quoted
from stoker.http_client import Answer

AGAIN_SECONDS = 60.0
LONGEST_QUOTE = 300
LONGEST_BODY = 64 << 10
"""Bytes of an explanation; a longer body is none, and would take thirty times its size to decode."""
_WORDS = ("message", "error_description", "error", "errors", "detail")
_DEEPEST = 4
_MEANINGS = {
    401: "does not accept the token",
    403: "does not allow this to the token",
    404: "knows no such repository or branch, or none that the token may see",
}


class ForgeRefused(Retry):
    """The forge answered, and not with what was asked for."""

    default_reason = Reason.FORGE_REFUSED


class ForgeUnavailable(Retry):
    """It did not answer, is in trouble itself, or wants to be left alone for a while."""

    default_reason = Reason.SERVICE_UNREACHABLE


def refusal(answer: Answer, host: str, project: str, token: Secret) -> Retry:
    """Why there is no pull request now."""
    where = f"{host} ({project})"
    quote = f"; it says: {words(answer.body, token)}"
    if answer.status == 429 or (answer.status == 403 and answer.wait is not None):
        return ForgeUnavailable(
            f"{where} was asked too often{quote}",
            after=answer.wait if answer.wait is not None else AGAIN_SECONDS,
        )
    if answer.status >= 500 or answer.status == 408:
        return ForgeUnavailable(f"{where} answered with status {answer.status}{quote}", after=answer.wait)
    if 300 <= answer.status < 400:
        return ForgeRefused(
            f"{where} answers with a redirect, which is not followed; was the repository moved?",
            after=AGAIN_SECONDS,
        )
    meaning = _MEANINGS.get(answer.status, f"refused with status {answer.status}")
    return ForgeRefused(f"{where} {meaning}{quote}", after=AGAIN_SECONDS)


def unreadable(host: str, project: str) -> ForgeRefused:
    return ForgeRefused(
        f"{host} ({project}) answers with something that cannot be read; is it the address of a forge's API?",
        after=AGAIN_SECONDS,
    )


def words(body: bytes, token: Secret) -> str:
    """A forge's explanation as one printable line."""
    try:
        said = list(_texts(json.loads(body), 0)) if len(body) <= LONGEST_BODY else []
    except (ValueError, RecursionError):
        said = []
    return quoted("; ".join(said), LONGEST_QUOTE, (token.reveal(),)) or "nothing that can be read"


def _texts(found: object, depth: int) -> Iterator[str]:
    """GitHub has `errors` of objects, GitLab lists or objects of lists under `message`, Gitea plain texts."""
    if depth > _DEEPEST:
        return
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        for one in found[:8]:
            yield from _texts(one, depth + 1)
    elif isinstance(found, dict):
        known = [found[name] for name in _WORDS if found.get(name)]
        if known:
            for one in known:
                yield from _texts(one, depth + 1)
        elif depth:
            plain = [f"{name} {value}" for name, value in found.items() if isinstance(value, str)]
            yield from plain[:8]
            for name, value in list(found.items())[:8]:
                yield from (
                    f"{name} {text}" for text in _texts(value, depth + 1) if not isinstance(value, str)
                )
