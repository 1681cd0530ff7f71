"""Text from elsewhere as part of a sentence of ours: without secrets, on one line, printable, short.

Secrets are hidden before anything is cut. A cut through a secret leaves a part of it that no
search for the whole finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stoker.domain.secrets import HIDDEN

# The values of an address's query: tokens and signatures are sent there.
_QUERY = re.compile(r"(?<=[?&])([^\s=&#'\"<>?]{1,100})=[^\s&#'\"<>]+")


def redact_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets and without the values in the queries of addresses."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _QUERY.sub(rf"\1={HIDDEN}", text)


def quote_line(text: str, longest: int, secrets: Iterable[str] = ()) -> str:
    """One short line of a text, with its secrets hidden before it is cut."""
    return one_line(redact_secrets(text, secrets)[: 8 * longest], longest)


def flatten(text: str) -> str:
    """On one line, without anything that a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def truncate(text: str, longest: int) -> str:
    """At most so many characters; a cut is shown."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str, longest: int) -> str:
    return truncate(flatten(text), longest)
