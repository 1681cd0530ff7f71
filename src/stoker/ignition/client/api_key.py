"""The gateway's API key: `name:secret`, as the gateway showed it once when the key was created.

A key without its name is the most common mistake, and the gateway answers it only with an
empty 401. So this module refuses it with an explanation before a request is sent. The key
is read again for every request, because a rotation replaces the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

ApiKeyReader = Callable[[], Secret]

MAX_FILE_BYTES = 8 * 1024
MAX_NAME_LENGTH = 100
HEADER = "X-Ignition-API-Token"

_SENDABLE = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[Xx]-[A-Za-z0-9-]{1,62}")


def api_key_file(path: Path) -> ApiKeyReader:
    """Return a reader that reads and checks the key from this file on each call."""

    def read() -> Secret:
        try:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise Misconfigured(f"API key file {path} cannot be read: {error.strerror}") from None
        if len(content) > MAX_FILE_BYTES:
            raise _malformed_key(f"API key file {path} is larger than any key")
        return check_api_key(Secret(content.strip()), f"API key file {path}")

    return read


def check_api_key(key: Secret, where: str) -> Secret:
    """Return the key if it has the form that a gateway accepts, else raise."""
    text = key.reveal_bytes().decode("latin-1")
    if not text:
        raise _malformed_key(f"{where} is empty")
    if text.lower().startswith("bearer "):
        raise _malformed_key(f"{where} begins with 'Bearer'; a gateway wants the key alone, as name:secret")
    if not _SENDABLE.fullmatch(text):
        raise _malformed_key(f"{where} holds spaces, line breaks or other characters that no key has")
    name, _, secret = text.partition(":")
    if not name or not secret:
        raise _malformed_key(
            f"{where} is not of the form name:secret; the gateway shows both parts once, when the key is made"
        )
    return key


def check_header_name(name: str) -> str:
    """Return a custom header name, by the same rule as the resources; standard HTTP headers are refused."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"{name[:80]!r} is not a header such as {HEADER}")
    return name


def api_key_name(key: Secret) -> str:
    """Return the part of the key that may be shown."""
    return key.reveal().partition(":")[0][:MAX_NAME_LENGTH]


def _malformed_key(message: str) -> InvalidValue:
    return InvalidValue(message, reason=Reason.TOKEN_MALFORMED)
