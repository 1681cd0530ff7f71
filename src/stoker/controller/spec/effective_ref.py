"""Decides which ref a resource follows: the spec's, or a requested ref that is still valid. Pure.

A request is valid until the spec's own ref changes after it. To detect that, the status records the spec's
ref beside the request. The reconciler then removes the annotations of an expired request
(`clear_request_annotations`): if they stayed, a spec that returns to its earlier ref would revive the
request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.api.spec.status import RequestedRef
from stoker.api.to_intent.annotations.annotation_requests import (
    DASHBOARD,
    NUDGED_AT,
    NUDGED_SOURCE,
    REQUESTED_AT,
    REQUESTED_BY,
    REQUESTED_REF,
    REQUESTED_SOURCE,
)
from stoker.domain.clock import rfc3339_micro
from stoker.domain.intent.annotation_requests import RefRequest
from stoker.domain.refs import GitRef

_REQUEST = (REQUESTED_REF, REQUESTED_AT, REQUESTED_BY, REQUESTED_SOURCE)
_LONGEST = 253
WEBHOOK = "webhook"
MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class EffectiveRef:
    """The ref to follow, and the request to record in the status."""

    ref: GitRef
    recorded: RequestedRef | None = None
    expired: bool = False
    """There is a request that is no longer valid; its annotations have to be removed."""


def effective_ref(
    spec_ref: GitRef, request: RefRequest | None, recorded: RequestedRef | None
) -> EffectiveRef:
    """Return the ref to follow."""
    if request is None:
        return EffectiveRef(spec_ref)
    at = rfc3339_micro(request.at) if request.at is not None else None
    known = recorded is not None and (recorded.ref, recorded.at) == (request.ref, at)
    if known and recorded is not None and recorded.spec_ref != spec_ref:
        return EffectiveRef(spec_ref, expired=True)
    followed = RequestedRef(
        ref=str(request.ref),
        at=at,
        by=request.by[:_LONGEST] or None,
        source=request.source[:_LONGEST] or None,
        spec_ref=str(spec_ref),
    )
    return EffectiveRef(request.ref, followed)


def followed_ref_reason(recorded: RequestedRef | None) -> str:
    """Why a ref other than the spec's is followed; empty if it is the spec's."""
    if recorded is None or recorded.ref == recorded.spec_ref:
        return ""
    source = f" ({recorded.source})" if recorded.source else ""
    at = f" at {recorded.at}" if recorded.at else ""
    return (
        f"requested by {recorded.by or 'annotation'}{source}{at}; spec.git.ref {recorded.spec_ref} is not "
        "followed until a request names it or spec.git.ref changes"
    )


def request_values(annotations: Mapping[str, str], group: str) -> tuple[str, ...]:
    """Values that change with each new request, including a request for a new lookup that names no ref."""
    return tuple(annotations.get(f"{group}/{name}", "") for name in (*_REQUEST, NUDGED_AT))


def last_request_id(annotations: Mapping[str, str], group: str) -> str:
    """A text that differs with each new request and is short enough for a status."""
    found = [annotations.get(f"{group}/{name}", "") for name in (REQUESTED_REF, REQUESTED_AT, NUDGED_AT)]
    return " ".join(one[:80] for one in found if one)


def request_trigger(annotations: Mapping[str, str], group: str) -> str:
    """Return the trigger type of the last request: webhook or manual."""
    if annotations.get(f"{group}/{NUDGED_AT}", "") > annotations.get(f"{group}/{REQUESTED_AT}", ""):
        return MANUAL if annotations.get(f"{group}/{NUDGED_SOURCE}") == DASHBOARD else WEBHOOK
    by = annotations.get(f"{group}/{REQUESTED_BY}", "")
    return WEBHOOK if by == WEBHOOK or annotations.get(f"{group}/{REQUESTED_SOURCE}") else MANUAL


def clear_request_annotations(group: str) -> dict[str, None]:
    """The annotations of a merge patch that removes a request."""
    return {f"{group}/{name}": None for name in _REQUEST}
