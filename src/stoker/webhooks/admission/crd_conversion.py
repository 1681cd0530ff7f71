"""Converts objects from one version of a kind to another; there is only one version yet, so none changes.

Either all objects are converted or none. Objects are returned as the bytes they came as, so no field that
this version does not know can be lost.
"""

from __future__ import annotations

import msgspec

from stoker.api.registry import KINDS, kind_for
from stoker.domain.errors import InvalidValue
from stoker.webhooks.admission.reviews import ConversionRequest, conversion_answer, read_conversion


class _ConversionHead(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""


async def answer_conversion(body: bytes) -> bytes:
    """Answer a ConversionReview; a failed conversion is an answer, too."""
    request = read_conversion(body)
    try:
        return conversion_answer(request.uid, convert_objects(request))
    except InvalidValue as error:
        return conversion_answer(request.uid, (), error.message)


def convert_objects(request: ConversionRequest) -> tuple[msgspec.Raw, ...]:
    """Return the objects in the desired version; raises for the first that cannot be converted."""
    for number, raw in enumerate(request.objects):
        try:
            head = msgspec.json.decode(raw, type=_ConversionHead)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidValue(f"object {number} cannot be read: {error}") from None
        if head.api_version != request.desired_version:
            raise InvalidValue(
                f"{head.kind[:80]} of {head.api_version[:80]} cannot become "
                f"{request.desired_version[:80]}: {_served_version(head.kind)}"
            )
        kind_for(head.api_version, head.kind)
    return request.objects


def _served_version(kind: str) -> str:
    versions = [one.api_version for one in KINDS if one.name == kind]
    return f"this installation knows {', '.join(versions)}" if versions else "it is not a kind of Stoker"
