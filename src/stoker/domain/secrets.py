"""A value that must never be shown.

Tokens, keys and passwords travel as `Secret` from the file or the API object they were
read from to the call that needs them. Formatting, logging, comparing or serializing a
`Secret` by accident shows nothing. The only access is `reveal()`, which is easy to
search for.
"""

from __future__ import annotations

import hmac
from typing import NoReturn, final

from stoker.domain.errors import InvalidValue

HIDDEN = "<secret>"


@final
class Secret:
    """Text or bytes that no formatter, logger, pickler or encoder can see into."""

    __slots__ = ("__value",)

    def __init__(self, value: str | bytes) -> None:
        self.__value = value.encode() if isinstance(value, str) else bytes(value)

    def reveal(self) -> str:
        """Return the text; the caller passes it to one process or request and keeps no copy."""
        return self.__value.decode()

    def reveal_bytes(self) -> bytes:
        return self.__value

    @property
    def is_one_line(self) -> bool:
        """Whether it is text without line breaks, usable as a variable or a header."""
        try:
            return not {"\0", "\n", "\r"} & set(self.__value.decode())
        except UnicodeDecodeError:
            return False

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.__value, other.__value)

    __hash__ = None  # type: ignore[assignment]  # a secret as a dictionary key would appear in a dump

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied")


def one_line_secret(value: bytes, title: str) -> Secret:
    """Return a token, a password or a name, stripped; raise if it is more or other than a line of text."""
    secret = Secret(value.strip())
    if not secret.is_one_line:
        raise InvalidValue(f"{title} does not hold one line of text")
    return secret
