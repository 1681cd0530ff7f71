"""Text output for the waiting plans of a resource, with the command that approves them."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.api.spec.status import ApprovalRequest
from stoker.cli.common.in_cluster import ClusterResourceOptions
from stoker.fleet import approve
from stoker.fleet.approve import PendingPlans


async def read_waiting_plans(place: ClusterResourceOptions) -> PendingPlans:
    async with place.client() as client:
        return await approve.read_waiting_plans(client, place.named)


def waiting_plan_lines(waiting: PendingPlans) -> Iterator[str]:
    """Lines for each waiting plan, and the command to run next."""
    for one in waiting.gateways:
        plan = one.pending_plan
        if plan is not None:
            counts = _change_counts(plan.files_added, plan.files_modified, plan.files_deleted)
            yield f"{one.name}: {counts} ({plan.reason or 'waiting'}; plan {plan.digest})"
    request, named = waiting.request, waiting.named
    for digest in sorted({one.pending_plan.digest for one in waiting.held if one.pending_plan is not None}):
        yield _approve_command_line(waiting, digest)
    if request is None:
        if not waiting.held:
            yield f"{waiting.kind} {named} has no plan that is waiting for approval"
        return
    of = f"stage {request.stage} of " if request.stage else ""
    yield f"{of}commit {request.commit[:8]} ({request.ref}) is {request.state}" + _approver_text(request)
    if request.message:
        yield request.message
    if waiting.waits:
        counts = _change_counts(request.files_added, request.files_modified, request.files_deleted)
        yield f"total: {counts}; plan {request.digest}; expires at {request.expires_at}"
        yield _approve_command_line(waiting, request.digest or "")


def _approve_command_line(waiting: PendingPlans, digest: str) -> str:
    named = waiting.named
    return f"to approve: stoker approve {named.name} --namespace {named.namespace} --digest {digest}"


def _change_counts(added: int | None, modified: int | None, deleted: int | None) -> str:
    return f"{added or 0} added, {modified or 0} modified, {deleted or 0} deleted"


def _approver_text(request: ApprovalRequest) -> str:
    return f" by {request.approved_by} at {request.approved_at}" if request.approved_by else ""
