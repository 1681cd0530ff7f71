"""The JSON body of a request that was believed, and how one gets at what stands in it.

A sender that knows the secret may still be broken, or owned by somebody else: what
is nested without end, says the same key twice, or is no JSON is refused with a
sentence, and a value of another type than expected is never an exception of ours.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from stoker.domain.errors import InvalidValue
from stoker.domain.json_cost import decoded_size

MAX_DECODED = 16 << 20
"""Bytes that a body may take in memory; a push of twenty commits takes a hundredth."""

WebhookPayload: TypeAlias = dict[str, Any]


def read_object(body: bytes) -> WebhookPayload:
    """The object that the body is."""
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
    except ValueError:  # a number of more digits than Python reads
        raise InvalidValue("the body holds a number that cannot be read") from None
    if not isinstance(found, dict):
        raise InvalidValue("the body is not a JSON object")
    return found


def text_at(body: WebhookPayload, *path: str) -> str:
    """The text at a path; none or another type is refused by the path's name."""
    found = value_at(body, *path)
    if not isinstance(found, str) or not found:
        raise InvalidValue(f"{'.'.join(path)} is missing or not a text")
    return found


def value_at(body: WebhookPayload, *path: str) -> Any:
    """What stands at a path, or None; only objects are walked through."""
    found: Any = body
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def objects_at(body: WebhookPayload, *path: str) -> list[WebhookPayload]:
    """The list of objects at a path."""
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
