"""Foreign text inside a message: without secrets, on one line, printable, short.

Secrets are redacted before the text is cut: a cut through a secret leaves a part of it
that a search for the whole secret does not find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
    return one_line(redact_secrets(text, secrets), longest)


def flatten(text: str) -> str:
    """Return the text on one line, without control characters that a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def truncate(text: str, longest: int) -> str:
    """Cut to at most `longest` characters; an ellipsis marks the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str, longest: int = 1000) -> str:
    """Return foreign text for use in a message: no line breaks, no control characters, truncated."""
    return truncate(flatten(text[: 8 * longest]), longest)


def escape_unprintable(text: str, keep: str = "") -> str:
    """Escape the characters that move a terminal's cursor or change the direction of the text."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
