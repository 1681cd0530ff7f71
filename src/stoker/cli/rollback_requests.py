"""`spec.rollback` of a resource, written for people who go back, or are done with it.

One merge patch of one field, as `kubectl patch` would send it: whoever may write the
resource may do this, and nobody else.
"""

from __future__ import annotations

from pathlib import Path

from stoker.api.adapters import MODELS
from stoker.api.registry import KINDS
from stoker.domain.refs import CommitId
from stoker.kube.client import Client
from stoker.kube.config import load
from stoker.kube.objects import Header
from stoker.kube.resources import Resource
from stoker.snapshots.naming import is_snapshot_id

RESOURCES = {
    kind.name: Resource(kind.group, kind.api_version.rpartition("/")[2], kind.plural, kind.name, True)
    for kind in KINDS
    if kind.model in MODELS
}


async def ask(
    kind: str, name: str, namespace: str, to: str | None, kubeconfig: Path | None, context: str | None
) -> str:
    """Write the request, or take it away where `to` is None; what was done, in words."""
    wanted: dict[str, str | None] = {"toSnapshot": None, "toCommit": None}
    if to is not None and is_snapshot_id(to):
        wanted["toSnapshot"] = to
    elif to is not None:
        wanted["toCommit"] = str(CommitId(to))
    async with Client(load(kubeconfig, context), user_agent="stoker-cli") as client:
        await client.patch(
            RESOURCES[kind], {"spec": {"rollback": wanted if to else None}}, name, namespace, into=Header
        )
    whose = f"{kind} {namespace}/{name}"
    return f"{whose} goes back to {to}" if to else f"{whose} follows its ref again"
