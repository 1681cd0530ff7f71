"""`spec.rollback` of a resource, written for people who go back, or are done with it.

One merge patch of one field, as `kubectl patch` would send it: whoever may write the
resource may do this, and nobody else.
"""

from __future__ import annotations

from stoker.cli.in_cluster import Place
from stoker.cli.named_resources import RESOURCES, look
from stoker.domain.refs import CommitId
from stoker.kube.objects import Header
from stoker.snapshots.naming import is_snapshot_id


async def ask(place: Place, to: str | None) -> str:
    """Write the request, or take it away where `to` is None; what was done, in words."""
    wanted: dict[str, str | None] = {"toSnapshot": None, "toCommit": None}
    if to is not None and is_snapshot_id(to):
        wanted["toSnapshot"] = to
    elif to is not None:
        wanted["toCommit"] = str(CommitId(to))
    async with place.client() as client:
        kind = (await look(client, place)).kind
        body = {"spec": {"rollback": wanted if to else None}}
        await client.patch(RESOURCES[kind], body, place.name, place.namespace, into=Header)
    whose = f"{kind} {place.namespace}/{place.name}"
    return f"{whose} goes back to {to}" if to else f"{whose} follows its ref again"
