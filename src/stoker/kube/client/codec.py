"""Encodes and decodes objects for the verbs of the client.

A body may be a struct, a dictionary or bytes that are JSON already. A response that is not JSON came from a
proxy in between and is worth a retry; JSON of another shape is an object that a user must look at. The error
messages never quote a value.
"""

from __future__ import annotations

import sys
from typing import TypeVar

import msgspec

from stoker.domain.text import one_line
from stoker.kube.client.errors import ServerError, UnreadableResponse

T = TypeVar("T")

# The API server accepts objects that are nested up to 10,000 deep where a schema allows it. Python's own
# limit of 1,000 also bounds the decoder, and one such object would make every list of its kind unreadable.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 12_000))


def encode(body: object) -> bytes:
    """Encode the body of a request."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def decode(body: bytes, into: type[T], what: str) -> T:
    """Decode a response, or one item of it, as the requested type."""
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.ValidationError as error:
        # msgspec names the field and both types, except for enums, where it quotes the value.
        where = one_line(str(error), 300) if "Invalid enum value" not in str(error) else "an unknown word"
        raise UnreadableResponse(
            f"{what}: this is not a readable {into.__name__}: {where}", status=200
        ) from None
    except RecursionError:
        raise UnreadableResponse(f"{what}: the answer is nested too deeply to be read", status=200) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ServerError(f"{what}: the answer is not JSON", status=200) from None


def query_parameters(**parameters: str | None) -> tuple[tuple[str, str], ...]:
    """Return the non-empty parameters as they appear in the query string."""
    return tuple((key, value) for key, value in parameters.items() if value)
