"""Decodes and encodes AdmissionReview and ConversionReview.

Any client that reaches the port can send anything: nothing is used before it fits its type, and every
error is a message for a 400. Objects stay raw bytes: a handler decodes only the fields it knows, so
unknown fields are never lost.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from stoker.domain.errors import InvalidValue
from stoker.domain.text import one_line

T = TypeVar("T")

ADMISSION = "admission.k8s.io/v1"
CONVERSION = "apiextensions.k8s.io/v1"

# The API server truncates a warning at 256 characters, and drops all warnings above 4,096 in total.
MAX_WARNING = 255
MAX_WARNINGS = 12


class GroupVersionKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class ReviewUser(msgspec.Struct, frozen=True):
    """The user of the request, as authenticated by the API server."""

    username: str = ""
    groups: tuple[str, ...] | None = None


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The operation that the API server asks about."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: ReviewUser = ReviewUser()
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()

    @property
    def new(self) -> bytes | None:
        """The object as it would be stored; None for a deletion."""
        return _raw_or_none(self.object)

    @property
    def old(self) -> bytes | None:
        return _raw_or_none(self.old_object)


class ConversionRequest(msgspec.Struct, frozen=True):
    """Objects of one kind to convert to another version."""

    uid: str
    desired_version: str = msgspec.field(name="desiredAPIVersion", default="")
    objects: tuple[msgspec.Raw, ...] = ()


class _AdmissionReview(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: AdmissionRequest | None = None


class _ConversionReview(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: ConversionRequest | None = None


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """The result of a review: allowed, unless `refusal` has a message."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()


def read_admission(body: bytes) -> AdmissionRequest:
    review = _decode_review(body, _AdmissionReview)
    if (review.api_version, review.kind) != (ADMISSION, "AdmissionReview") or review.request is None:
        raise InvalidValue(f"this is not an AdmissionReview of {ADMISSION} with a request")
    return review.request


def read_conversion(body: bytes) -> ConversionRequest:
    review = _decode_review(body, _ConversionReview)
    if (review.api_version, review.kind) != (CONVERSION, "ConversionReview") or review.request is None:
        raise InvalidValue(f"this is not a ConversionReview of {CONVERSION} with a request")
    return review.request


def admission_answer(uid: str, verdict: AdmissionVerdict) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": not verdict.refusal}
    if verdict.refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": one_line(verdict.refusal)}
    if verdict.patch and not verdict.refusal:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    if verdict.warnings:
        response["warnings"] = _bound_warnings(verdict.warnings)
    return msgspec.json.encode({"apiVersion": ADMISSION, "kind": "AdmissionReview", "response": response})


def conversion_answer(uid: str, converted: tuple[msgspec.Raw, ...], failure: str = "") -> bytes:
    """Return all converted objects, or none and the reason if one of them cannot be converted."""
    result = {"status": "Failure", "message": one_line(failure)} if failure else {"status": "Success"}
    response = {"uid": uid, "result": result, "convertedObjects": () if failure else converted}
    return msgspec.json.encode({"apiVersion": CONVERSION, "kind": "ConversionReview", "response": response})


def _raw_or_none(raw: msgspec.Raw) -> bytes | None:
    content = bytes(raw)
    return None if content in (b"", b"null") else content


def _decode_review(body: bytes, into: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=into)
    except RecursionError:
        raise InvalidValue("the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidValue(f"the body is no review: {one_line(str(error), 200)}") from None


def _bound_warnings(warnings: tuple[str, ...]) -> list[str]:
    said = [one_line(each, MAX_WARNING) for each in dict.fromkeys(warnings)]
    more = len(said) - MAX_WARNINGS
    return said if more <= 0 else [*said[:MAX_WARNINGS], f"and {more} more"]
