"""Objects to bytes and back, for the verbs of the client.

A body may be a struct, a dictionary or bytes that are JSON already. An answer
that is not JSON came from something between us and the server and is worth
another try; one that is JSON of another shape is an object that a person must
look at. Neither sentence ever quotes a value.
"""

from __future__ import annotations

import sys
from typing import TypeVar

import msgspec

from stoker.kube.client.errors import ServerError, UnreadableResponse, one_line

T = TypeVar("T")

# The API server takes objects that are nested up to 10,000 deep where a schema lets it. Python's own limit
# of 1,000 also bounds the decoder, and one such object would make every list of its kind unreadable.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 12_000))


def encode(body: object) -> bytes:
    """The body of a request."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def decode(body: bytes, into: type[T], what: str) -> T:
    """An answer, or one item of it, as the type that was asked for."""
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
    """The parameters that are there, as they stand in the address."""
    return tuple((key, value) for key, value in parameters.items() if value)
