"""The service account of this process, as the owner of objects that it creates for itself.

A chart cannot list Leases that replicas create by name. Owned by the account, they are deleted with it when
the release is uninstalled. The account is never deleted while a process still works: a Lease that is
garbage-collected under its holder would let a second holder begin. A person who runs a command has no
service account, and owns nothing.
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
    """Return the service account that the API server sees, if it is in that namespace, as owners must be."""
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
