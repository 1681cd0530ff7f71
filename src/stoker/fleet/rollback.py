"""Sets or removes `spec.rollback` of a resource, for a user who rolls back or ends a rollback.

It is one merge patch of one field, so it needs exactly the right to write the resource. The field holds one
rollback, and a second would undo the first: an existing rollback is replaced only if the user asks for that.
"""

from __future__ import annotations

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.fleet.lookup import FoundResource, find_resource, patch_resource
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Conflict
from stoker.snapshots.ids import belongs_to, is_snapshot_id

MAX_ATTEMPTS = 5
"""Status writes change the resource version all the time, so a patch may conflict several times."""


async def request_rollback(
    client: KubeClient,
    named: ResourceName,
    to: str | None,
    *,
    gateway: str | None = None,
    replace: bool = False,
) -> str:
    """Write the rollback, or remove it if `to` is None; return a sentence that describes the change.

    With `replace` an existing rollback to another target is overwritten. Raises if the snapshot is not one of
    `gateway`.
    """
    wanted: dict[str, str | None] = {"toSnapshot": None, "toCommit": None}
    if to is not None and is_snapshot_id(to):
        _check_owner(gateway, to)
        wanted["toSnapshot"] = to
    elif to is not None:
        wanted["toCommit"] = str(CommitId(to))
    for left in reversed(range(MAX_ATTEMPTS)):
        seen = await find_resource(client, named)
        if to is not None and not replace:
            _check_no_request(named, seen, to)
        body = {
            "metadata": {"resourceVersion": seen.version},
            "spec": {"rollback": wanted if to else None},
        }
        try:
            await patch_resource(client, seen.kind, named, body)
        except Conflict:  # another process wrote the resource meanwhile, perhaps this very field
            if not left:
                raise
        else:
            break
    return f"{seen.kind} {named} goes back to {to}" if to else f"{seen.kind} {named} follows its ref again"


def _check_owner(gateway: str | None, snapshot: str) -> None:
    if gateway and not belongs_to(gateway, snapshot):
        raise Stalled(
            f"{snapshot} is no snapshot of gateway {gateway[:80]}", reason=Reason.SNAPSHOT_NOT_FOUND
        )


def _check_no_request(named: ResourceName, seen: FoundResource, to: str) -> None:
    if seen.taken_back_to and seen.taken_back_to != to:
        raise Stalled(
            f"{seen.kind} {named} is already rolled back to {seen.taken_back_to}, and another rollback would"
            " undo that one: let it follow its ref again first",
            reason=Reason.ROLLED_BACK,
        )
