"""Requests to a resource by annotation: another ref, an approval, an approved plan.

People and webhooks write these, so an invalid value is ignored with a notice: it must
not stop a resource whose spec is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from stoker.api.to_intent.annotations import annotation_values as values
from stoker.api.to_intent.pod_facts import PodAnnotation
from stoker.domain.clock import rfc3339_or
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.annotation_requests import ApprovalGrant, RefRequest, ResourceRequests
from stoker.domain.intent.intent import Notice

T = TypeVar("T")

REQUESTED_REF = "requested-ref"
REQUESTED_AT = "requested-at"
REQUESTED_BY = "requested-by"
REQUESTED_SOURCE = "requested-source"
NUDGED_AT = "nudged-at"
NUDGED_SOURCE = "nudged-source"
DASHBOARD = "dashboard"
"""A source that is a person, not a git server."""
TRACEPARENT = "traceparent"
"""The trace of the last of these requests; for tracing only."""
APPROVED_BY = "approved-by"
APPROVED_AT = "approved-at"
APPROVED_REF = "approved-ref"
APPROVED_PLAN = "approved-plan"
RELEASED = "release-quarantine"


def parse_requests(annotations: Mapping[str, str], group: str) -> tuple[ResourceRequests, tuple[Notice, ...]]:
    """Parse annotations with the prefix of the resource's own group; approvals also without a prefix."""
    reader = _AnnotationReader(annotations, group)
    requested = reader.read(REQUESTED_REF, values.parse_ref)
    approver = reader.read(APPROVED_BY, values.parse_line, bare=True)
    approved_at = reader.read(APPROVED_AT, _parse_time, bare=True)
    approved_ref = reader.read(APPROVED_REF, values.parse_ref, bare=True)
    approved_plans = reader.read(APPROVED_PLAN, values.parse_digests, bare=True)
    # An approval whose limits cannot be parsed must not become an approval of everything.
    readable = reader.unreadable.isdisjoint((APPROVED_REF, APPROVED_PLAN))
    requests = ResourceRequests(
        ref=RefRequest(
            ref=requested,
            at=reader.read(REQUESTED_AT, _parse_time),
            by=reader.read(REQUESTED_BY, values.parse_line) or "",
            source=reader.read(REQUESTED_SOURCE, values.parse_line) or "",
        )
        if requested
        else None,
        approval=ApprovalGrant(approver, approved_at, approved_ref)
        if approver and approved_at and readable
        else None,
        # Without `approved-by` an approval is withdrawn, even if its other annotations are still there.
        approved_plans=(approved_plans or ()) if approver or not (approved_at or approved_ref) else (),
        released_commits=reader.read(RELEASED, values.parse_commits) or (),
    )
    return requests, tuple(reader.notices)


class _AnnotationReader:
    """Reads annotations one by one and collects notices about invalid ones."""

    def __init__(self, annotations: Mapping[str, str], group: str) -> None:
        self._annotations = annotations
        self._group = group
        self.notices: list[Notice] = []
        self.unreadable: set[str] = set()

    def read(self, key: str, parse: Callable[[PodAnnotation], T], *, bare: bool = False) -> T | None:
        names = [f"{self._group}/{key}", *([key] if bare else [])]
        for name in names:
            value = self._annotations.get(name, "").strip()
            if not value:
                continue
            try:
                return parse(PodAnnotation(name, value))
            except InvalidValue as error:
                self.notices.append(Notice(error.reason, f"{error.message}; it is ignored"))
                self.unreadable.add(key)
        return None


def _parse_time(annotation: PodAnnotation) -> datetime:
    moment = rfc3339_or(annotation.value, None)
    if moment is None:
        raise annotation.refused("it must be a time with its zone, such as 2026-03-02T08:15:00Z")
    return moment
