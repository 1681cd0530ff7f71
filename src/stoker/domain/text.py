"""Foreign text inside a message: without secrets, on one line, printable, short.

Secrets are redacted before the text is cut: a cut through a secret leaves a part of it
that a search for the whole secret does not find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stoker.domain.secrets import HIDDEN

# The values in the query of an address, where tokens and signatures are sent.
_QUERY = re.compile(r"(?<=[?&])([^\s=&#'\"<>?]{1,100})=[^\s&#'\"<>]+")


def redact_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without these secrets and without the values in the queries of addresses."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _QUERY.sub(rf"\1={HIDDEN}", text)


def quote_line(text: str, longest: int, secrets: Iterable[str] = ()) -> str:
    """Return the text as one short line, with its secrets redacted before it is cut."""
    return one_line(redact_secrets(text, secrets)[: 8 * longest], longest)


def flatten(text: str) -> str:
    """Return the text on one line, without control characters that a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def truncate(text: str, longest: int) -> str:
    """Cut to at most `longest` characters; an ellipsis marks the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str, longest: int) -> str:
    return truncate(flatten(text), longest)
