"""Reads the JSON body of an authenticated request, and the values in it.

A sender with the right secret may still be broken or compromised. A body that is nested without end, has
a duplicate key or is no JSON is refused with a message, and a value of an unexpected type never causes an
unexpected exception.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from stoker.domain.errors import InvalidValue
from stoker.domain.json_cost import decoded_size

MAX_DECODED = 16 << 20
"""Limit of a decoded body in memory, in bytes; a push of twenty commits needs a hundredth."""

WebhookPayload: TypeAlias = dict[str, Any]


def read_object(body: bytes) -> WebhookPayload:
    """Decode the body, which must be a JSON object."""
    if not body.strip():
        raise InvalidValue("the body is empty; it must be a JSON object")
    if decoded_size(body, MAX_DECODED) > MAX_DECODED:
        raise InvalidValue("the body holds more values than any webhook sends")
    try:
        found = json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_refuse_duplicate_keys,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise InvalidValue(f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidValue(f"the body is not JSON at byte {error.pos}") from None
    except RecursionError:
        raise InvalidValue("the body is nested too deep") from None
    except ValueError:  # a number with more digits than Python reads
        raise InvalidValue("the body holds a number that cannot be read") from None
    if not isinstance(found, dict):
        raise InvalidValue("the body is not a JSON object")
    return found


def text_at(body: WebhookPayload, *path: str) -> str:
    """Return the text at a path; raises InvalidValue with the path if it is missing or no text."""
    found = value_at(body, *path)
    if not isinstance(found, str) or not found:
        raise InvalidValue(f"{'.'.join(path)} is missing or not a text")
    return found


def value_at(body: WebhookPayload, *path: str) -> Any:
    """Return the value at a path, or None; only objects are descended into."""
    found: Any = body
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def objects_at(body: WebhookPayload, *path: str) -> list[WebhookPayload]:
    """Return the list of objects at a path; raises InvalidValue with the path otherwise."""
    found = value_at(body, *path)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidValue(f"{'.'.join(path)} is missing or not a list of objects")
    return found


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> WebhookPayload:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidValue("the body says a key twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise InvalidValue(f"the body is not JSON: it holds {name}")
