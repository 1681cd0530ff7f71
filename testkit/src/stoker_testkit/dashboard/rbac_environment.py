"""Namespaces with people in them, for dashboards of a cluster: accounts, the chart's roles, and a browser.

What people may do is what the chart's roles for them say; what the dashboard's account may do is
what the chart grants the controller for it.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from stoker.domain.secrets import Secret
from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import PlainObjects, require
from stoker_testkit.secret_leaks.tracked_credentials import known

RBAC = "rbac.authorization.k8s.io"
OWN_ROLE = "stoker-controller-dashboard"
COMMIT = "c0ffee" + "0" * 34
DIGEST = "d" * 64
GROUPS = {
    "Stoker": "stoker.io",
    "IgnitionSync": "sync.ignition.io",
    "GitRepoConfig": "configbutler.ai",
    "GitDestination": "configbutler.ai",
}


@cache
def chart_rules(name: str) -> list[dict[str, Any]]:
    """The rules of a role that the chart makes for a dashboard, by its name."""
    values = {"dashboard": {"enabled": True}, "reverser": {"enabled": True}}
    with tempfile.TemporaryDirectory(prefix="stoker-chart-") as folder:
        objects = Helm(Path(folder)).template(values)
    roles = {one["metadata"]["name"]: one for one in objects if one["kind"] in ("Role", "ClusterRole")}
    found: list[dict[str, Any]] = roles[name]["rules"]
    return found


@dataclass
class RbacEnvironment:
    """A namespace with people in it, beside one in which they have no business."""

    cluster: ClusterAccess
    namespace: str
    other: str

    def objects(self, namespace: str = "") -> PlainObjects:
        return PlainObjects(self.cluster, namespace or self.namespace)

    # People.

    def person(self, name: str, *roles: str) -> Secret:
        """An account with roles of the chart, and a token of it."""
        meta = {"name": name, "namespace": self.namespace}
        self.objects().post("/api/v1", "serviceaccounts", {"metadata": meta})
        for role in roles:
            self.grant(role, name, chart_rules(role))
        return self.token(name)

    def token(self, name: str) -> Secret:
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = require(self.cluster.request("POST", path, body), 201)["status"]["token"]
        return Secret(known("dashboard-token", token))

    def grant(self, role: str, account: str, rules: list[dict[str, Any]], *, namespace: str = "") -> None:
        """Rules in a namespace, the account's own unless another is named."""
        where = namespace or self.namespace
        self._bound(f"/namespaces/{where}", "Role", f"{account}-{role}", account, rules)

    def let_ask(self, account: str) -> None:
        """The chart's cluster-wide rules with which an account can review visitors."""
        rules = [rule for rule in chart_rules(OWN_ROLE) if "create" in rule["verbs"]]
        self._bound("", "ClusterRole", f"{account}-{self.namespace}", account, rules)

    def _bound(self, below: str, kind: str, name: str, account: str, rules: list[dict[str, Any]]) -> None:
        plural, group = f"{kind.lower()}s", f"/apis/{RBAC}/v1{below}"
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        ref = {"apiGroup": RBAC, "kind": kind, "name": name}
        role = {"metadata": {"name": name}, "rules": rules}
        binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
        for path, body in ((plural, role), (f"{kind.lower()}bindings", binding)):
            require(self.cluster.request("POST", f"{group}/{path}", body), 201)

    # Objects.

    def apply(self, kind: str, name: str, spec: Mapping[str, Any], *, namespace: str = "") -> None:
        manifest = {
            "apiVersion": f"{GROUPS[kind]}/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace or self.namespace},
            "spec": spec,
        }
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def path(self, kind: str, name: str, namespace: str = "") -> str:
        plural = f"{kind.lower()}s"
        return f"/apis/{GROUPS[kind]}/v1alpha1/namespaces/{namespace or self.namespace}/{plural}/{name}"

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return require(self.cluster.request("GET", self.path(kind, name)), 200)

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        require(self.cluster.request("DELETE", self.path(kind, name, namespace)), 200)

    def says(self, kind: str, name: str, status: Mapping[str, Any]) -> None:
        """Write a status as the controller of the kind would."""
        path, merge = f"{self.path(kind, name)}/status", "application/merge-patch+json"
        require(self.cluster.request("PATCH", path, {"status": status}, content_type=merge), 200)


def waiting_status(digest: str = DIGEST) -> dict[str, Any]:
    """The status of a resource that waits for an approval."""
    plan = {"digest": "e" * 64, "filesAdded": 1, "filesModified": 2, "filesDeleted": 0}
    gateway = {
        "name": "filler",
        "podName": "filler-0",
        "syncStatus": "Synced",
        "syncedCommit": COMMIT,
        "pendingPlan": plan,
        "heldProjects": [{"project": "site", "user": "ann"}],
        "lastSnapshot": {"id": "20260501T080000Z-aaaaaaaa", "size": "180MB"},
        "syncHistory": [
            {"timestamp": "2026-05-01T08:00:00Z", "result": "success", "commit": COMMIT},
            {"timestamp": "2026-04-01T08:00:00Z", "result": "GatewayUnreachable"},
        ],
    }
    request = {
        "commit": COMMIT,
        "ref": "main",
        "digest": digest,
        "state": "Pending",
        "requestedAt": "2026-05-01T08:00:00Z",
        "filesAdded": 1,
    }
    return {
        "lastSyncRef": "main",
        "lastSyncCommit": COMMIT,
        "discoveredGateways": [gateway],
        "approval": request,
    }


class SignedInBrowser:
    """A browser that signs in at the port, keeps its cookie, and sends what our page would send."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.url = f"{'https' if context else 'http'}://localhost:{port}"
        self.jar = CookieJar()
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.HTTPCookieProcessor(self.jar),
            urllib.request.ProxyHandler({}),
        ]
        handlers += [urllib.request.HTTPSHandler(context=context)] if context else []
        self._opener = urllib.request.build_opener(*handlers)
        self.csrf = ""

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310 - the address is our own server's
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-Stoker-CSRF": self.csrf, "Origin": self.url},
        )
        try:
            with self._opener.open(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def answers(self) -> bool:
        """Whether a process listens there."""
        try:
            return self.ask("GET", "/api/session")[0] == 200
        except OSError:
            return False

    def sign_in(self, token: Secret) -> int:
        status, body = self.ask("POST", "/api/session", {"token": token.reveal()})
        self.csrf = body.get("csrf", "")
        return status

    def names(self) -> list[str]:
        """The resources that are seen."""
        status, picture = self.ask("GET", "/api/picture")
        return [one["name"] for one in picture["resources"]] if status == 200 else []
