"""The account that a program runs under, as the owner of what it makes for itself.

Leases that replicas make by name cannot be listed in a chart. Owned by the account, they
go away with it when a release does, and with nothing that ever goes while somebody still
works: a Lease that is collected under its holder would let a second one begin. A person
has no account, and owns nothing.
"""

from __future__ import annotations

from typing import Any

from stoker.api.meta import OwnerReference
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource
from stoker.telemetry.logs import get_logger

_SELF_REVIEWS = ApiResource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_ACCOUNT = "system:serviceaccount:"

log = get_logger(__name__)


async def find_own_account(client: KubeClient, namespace: str) -> OwnerReference | None:
    """The service account that the API server sees, if it lives in that namespace: owners must."""
    body = {"apiVersion": _SELF_REVIEWS.api_version, "kind": _SELF_REVIEWS.kind}
    try:
        answer = await client.create(_SELF_REVIEWS, body, into=dict[str, Any])
    except StokerError as error:
        log.warning("account.unknown", error=error.message)
        return None
    user: dict[str, Any] = answer.get("status", {}).get("userInfo", {})
    name, uid = str(user.get("username", "")), str(user.get("uid", ""))
    home, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or home != namespace or not uid:
        return None
    return OwnerReference(api_version="v1", kind="ServiceAccount", name=account, uid=uid)
