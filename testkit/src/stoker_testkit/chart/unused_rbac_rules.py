"""Takes each rule of a role away, one at a time, and looks whether something could then not be done.

What an account has done comes from the audit log (`stoker_testkit.cluster.audit_log`); whether
it could still be done is what the API server's own authorizer says. A rule that nothing
is missed without is granted without need, or twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker_testkit.cluster.audit_log import AuditedRequest
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import ConditionTimeout, eventually

RbacRule = Mapping[str, Any]

PATIENCE = 20.0
_GROUP = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the requests."""

    cluster: ClusterAccess
    namespace: str
    name: str

    def may(self, asked: AuditedRequest, verb: str) -> bool:
        """The present decision of the authorizer."""
        resource, _, below = asked.resource.partition("/")
        attributes = {
            "verb": verb,
            "group": asked.group,
            "resource": resource,
            "subresource": below,
            "namespace": asked.namespace,
            "name": asked.name,
        }
        spec = {
            "user": f"system:serviceaccount:{self.namespace}:{self.name}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}"],
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer: Any = self.cluster.request(
            "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body
        ).json()
        return bool(answer["status"]["allowed"])


def needless(
    account: Account, roles: Iterable[Mapping[str, Any]], asked: Iterable[AuditedRequest]
) -> list[str]:
    """The rules without which all that was done could have been done."""
    done = sorted({(one._replace(at=0.0), verb) for one in asked for verb in _verbs(one)})
    found = []
    for role in roles:
        path = _path(role["metadata"])
        for number, rule in enumerate(role["rules"]):
            under_it = [each for each in done if _allows(rule, role["metadata"].get("namespace", ""), *each)]
            others = [*role["rules"][:number], *role["rules"][number + 1 :]]
            if not under_it or not _missed(account, path, role["rules"], others, under_it):
                found.append(f"{role['kind']} {path.rpartition('/')[2]}: {dict(rule)}")
    return found


def _missed(
    account: Account,
    path: str,
    rules: list[RbacRule],
    others: list[RbacRule],
    done: list[tuple[AuditedRequest, str]],
) -> bool:
    """Whether something cannot be done while a rule is away."""
    _write(account.cluster, path, others)
    try:
        eventually(
            lambda: not all(account.may(*each) for each in done),
            PATIENCE,
            "something is missed",
            interval=0.05,
        )
    except ConditionTimeout:
        return False
    finally:
        _write(account.cluster, path, rules)
    eventually(lambda: all(account.may(*each) for each in done), PATIENCE, f"{path} is whole again")
    return True


def _write(cluster: ClusterAccess, path: str, rules: list[RbacRule]) -> None:
    answer = cluster.request("PATCH", path, {"rules": rules}, content_type="application/merge-patch+json")
    if answer.status != 200:
        raise AssertionError(f"{path}: {answer.body!r}")


def _path(metadata: Mapping[str, Any]) -> str:
    if "namespace" in metadata:
        return f"{_GROUP}/namespaces/{metadata['namespace']}/roles/{metadata['name']}"
    return f"{_GROUP}/clusterroles/{metadata['name']}"


def _verbs(asked: AuditedRequest) -> Iterator[str]:
    if asked.code not in (401, 403):
        yield asked.verb
        if asked.made_anew:
            yield "create"


def _allows(rule: RbacRule, where: str, asked: AuditedRequest, verb: str) -> bool:
    return (
        where in ("", asked.namespace)
        and asked.group in rule["apiGroups"]
        and asked.resource in rule["resources"]
        and verb in rule["verbs"]
        and asked.name in rule.get("resourceNames", (asked.name,))
    )
