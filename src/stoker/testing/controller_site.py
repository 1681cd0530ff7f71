"""A namespace in which a real controller works, with pods that are objects and nothing more.

There is no node: a pod's status is written as a kubelet would write it, and what its
agent says is applied to the status map as the real agent applies it, under its own
field manager. The controller runs as a process, or two, and as an account that may do
exactly what `RULES` say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.agent.publishing import manager_for
from stoker.api.adapters.pods import PodFacts, gateway_name, status_key
from stoker.domain.errors import StokerError
from stoker.domain.intent.intents import FrontDoor
from stoker.domain.protocol import (
    GatewayReport,
    Metadata,
    StatusKeyMode,
    SyncStatus,
    labels_of,
    metadata_map,
    status_map,
)
from stoker.testing.cluster_access import ClusterAccess
from stoker.testing.processes import Process
from stoker.testing.stopping import Stopped
from stoker.testing.waiting import eventually

PATIENCE = 45.0

READ = ["get", "list", "watch"]

RULES: tuple[dict[str, Any], ...] = (
    {
        "apiGroups": ["sync.ignition.io"],
        "resources": ["ignitionsyncs"],
        "verbs": [*READ, "patch"],
    },
    {"apiGroups": ["stoker.io"], "resources": ["stokers"], "verbs": [*READ, "patch"]},
    {"apiGroups": ["sync.ignition.io"], "resources": ["ignitionsyncs/status"], "verbs": ["update"]},
    {
        "apiGroups": ["stoker.io"],
        "resources": ["stokers/status", "syncprofiles/status"],
        "verbs": ["update"],
    },
    {"apiGroups": ["sync.ignition.io"], "resources": ["ignitionsyncbases"], "verbs": READ},
    {"apiGroups": ["stoker.io"], "resources": ["syncprofiles"], "verbs": READ},
    {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": READ},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*READ, "create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
        "verbs": [*READ, "create", "update"],
    },
)
"""What the controller needs in every namespace that it works in."""

VOLUME_RULES: tuple[dict[str, Any], ...] = (
    {
        "apiGroups": [""],
        "resources": ["persistentvolumeclaims"],
        "verbs": [*READ, "create", "patch", "delete"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["get", "create", "patch", "delete"],
    },
    {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "verbs": ["create", "patch", "delete"],
    },
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
        "verbs": ["patch", "delete"],
    },
)
"""The same, with shared volumes: claims, and what the fetchers of `stoker.controller.fetchers` take."""

HOME_RULES: tuple[dict[str, Any], ...] = (
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    },
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["ignition-sync-global-pause"],
        "verbs": READ,
    },
)
"""What it needs in its own namespace."""

CLUSTER_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get"]},
)

ACCOUNT = "stoker-controller"


@dataclass
class Site(Stopped):
    """One namespace and the controllers that work in it."""

    cluster: ClusterAccess
    namespace: str
    folder: Path
    running: list[Process] = field(default_factory=list)

    @classmethod
    def prepare(cls, cluster: ClusterAccess, namespace: str, folder: Path) -> Site:
        """Make the account that controllers run as, with its roles."""
        site = cls(cluster, namespace, folder)
        meta = {"name": ACCOUNT, "namespace": namespace}
        site.post("/api/v1", "serviceaccounts", {"metadata": meta})
        site.grant(ACCOUNT, ACCOUNT, (*RULES, *HOME_RULES))
        return site

    def grant(self, name: str, account: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Bind a Role with these rules to an account."""
        meta = {"name": name, "namespace": self.namespace}
        group = "/apis/rbac.authorization.k8s.io/v1"
        self.post(group, "roles", {"metadata": meta, "rules": list(rules)})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.post(group, "rolebindings", {"metadata": meta, "roleRef": ref, "subjects": [subject]})

    def start(self, *flags: str, kubeconfig: Path | None = None) -> Process:
        """One more controller."""
        if kubeconfig is None:
            kubeconfig = self.cluster.service_account_kubeconfig(self.namespace, ACCOUNT)
        listening = [f"--{one}-bind-address=0" for one in ("health-probe", "metrics", "receiver")]
        argv = [
            *(sys.executable, "-m", "stoker", "controller", f"--kubeconfig={kubeconfig}"),
            *("--log-format=json", "--log-level=debug"),
            *(f"--watch-namespaces={self.namespace}", f"--lease-namespace={self.namespace}"),
            *listening,
            *flags,
        ]
        log = self.folder / f"controller-{len(self.running)}.log"
        self.running.append(Process.start("stoker controller", argv, log=log))
        return self.running[-1]

    def stop(self) -> None:
        for process in self.running:
            process.stop()

    # What people do.

    def apply(self, kind: str, name: str, *, labels: Mapping[str, str] | None = None, **spec: object) -> None:
        group = "sync.ignition.io" if kind.startswith("IgnitionSync") else "stoker.io"
        manifest = {
            "apiVersion": f"{group}/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, "labels": dict(labels or {})},
            "spec": spec,
        }
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def annotate(self, kind: str, name: str, **annotations: str | None) -> None:
        group = "sync.ignition.io" if kind.startswith("IgnitionSync") else "stoker.io"
        said = {f"{group}/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.patch(self.path_of(kind, name), {"metadata": {"annotations": said}})

    def secret(self, name: str, **data: str) -> None:
        body = {"metadata": {"name": name, "namespace": self.namespace}, "stringData": data}
        self.post("/api/v1", "secrets", body)

    def delete(self, kind: str, name: str) -> None:
        _require(self.cluster.request("DELETE", self.path_of(kind, name)), 200, 202)

    # What kubelets and agents do.

    def pod(
        self,
        name: str,
        resource: str,
        *,
        kind: FrontDoor = FrontDoor.STOKER,
        gateway: str = "",
        account: str = "default",
        injected: bool = True,
        ready: bool = True,
        profile: str = "",
        **annotations: str,
    ) -> Pod:
        """A gateway's pod as the injector leaves it, or as it comes without one."""
        said = {
            "inject": "true",
            "cr-name": resource,
            "cr-kind": str(kind),
            **({"gateway-name": gateway} if gateway else {}),
            **({"sync-profile": profile} if profile else {"service-path": "services/site"}),
            **{key.replace("_", "-"): value for key, value in annotations.items()},
        }
        body: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": labels_of(kind, resource) if injected else {},
                "annotations": {f"stoker.io/{key}": value for key, value in said.items()},
            },
            "spec": {
                "serviceAccountName": account,
                "automountServiceAccountToken": False,
                "containers": [{"name": "gateway", "image": "gateway"}],
            },
        }
        if injected:
            agent = {"name": "stoker-agent", "image": "stoker", "restartPolicy": "Always"}
            body["spec"]["initContainers"] = [agent]
        self.post("/api/v1", "pods", body)
        pod = Pod(self, name, resource, kind, gateway or name, body["metadata"]["labels"])
        if injected:
            pod.is_ready(ready, started=ready)
        return pod

    # What there is to see.

    def get(self, kind: str, name: str) -> dict[str, Any]:
        answer = self.cluster.request("GET", self.path_of(kind, name))
        return {} if answer.status == 404 else _require(answer, 200)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(kind, name).get("status", {})
        return found

    def condition(self, kind: str, name: str, type_: str) -> tuple[str, str, str]:
        """Status, reason and message; empty where there is no such condition."""
        for one in self.status(kind, name).get("conditions", []):
            if one["type"] == type_:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def until(self, kind: str, name: str, type_: str, reason: str, patience: float = PATIENCE) -> str:
        """Wait until a condition has this reason; its message."""
        eventually(
            lambda: self.condition(kind, name, type_)[1] == reason,
            patience,
            lambda: f"{type_} of {name} becomes {reason}; it has {self.status(kind, name)}\n{self.tail()}",
            interval=0.05,
        )
        return self.condition(kind, name, type_)[2]

    def metadata(self, resource: str, kind: FrontDoor = FrontDoor.STOKER) -> Metadata | None:
        data = self.get("ConfigMap", metadata_map(kind, resource)).get("data")
        return None if data is None else Metadata.parse(data)

    def until_told(
        self, resource: str, kind: FrontDoor = FrontDoor.STOKER, patience: float = PATIENCE, **wanted: object
    ) -> Metadata:
        """Wait until agents are told this; a function as a value is asked."""

        def told() -> list[Metadata]:
            found = self.metadata(resource, kind)
            fits = found is not None and all(_fits(getattr(found, name), one) for name, one in wanted.items())
            return [found] if fits and found is not None else []

        return eventually(
            told,
            patience,
            lambda: f"agents are told {wanted}; they are told {self.metadata(resource, kind)}\n{self.tail()}",
            interval=0.05,
        )[0]

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of all Events."""
        answer = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/events")
        return [(one["type"], one["reason"], one["message"]) for one in _require(answer, 200)["items"]]

    def until_event(self, reason: str, text: str = "") -> None:
        eventually(
            lambda: any(one[1] == reason and text in one[2] for one in self.events()),
            PATIENCE,
            lambda: f"an event {reason} with {text!r}; there are {self.events()}",
            interval=0.1,
        )

    def versions(self) -> dict[str, str]:
        """The resourceVersion of everything in the namespace that a controller could write."""
        found: dict[str, str] = {}
        kinds = ("Stoker", "IgnitionSync", "SyncProfile", "ConfigMap", "Role", "RoleBinding", "Secret", "Pod")
        for kind in (*kinds, "Event", "PersistentVolumeClaim"):
            for one in _require(self.cluster.request("GET", self.path_of(kind)), 200)["items"]:
                meta = one["metadata"]
                found[f"{kind}/{meta['name']}"] = meta["resourceVersion"]
        return found

    def tail(self) -> str:
        return "\n".join(process.tail() for process in self.running)

    # Plain requests.

    def path_of(self, kind: str, name: str = "") -> str:
        group, plural = _PLACES[kind]
        return f"{group}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def post(self, group: str, plural: str, body: object) -> dict[str, Any]:
        return _require(
            self.cluster.request("POST", f"{group}/namespaces/{self.namespace}/{plural}", body), 201
        )

    def patch(self, path: str, body: object) -> dict[str, Any]:
        kind = "application/merge-patch+json"
        return _require(self.cluster.request("PATCH", path, body, content_type=kind), 200)


@dataclass
class Pod:
    """One gateway's pod."""

    site: Site
    name: str
    resource: str
    kind: FrontDoor
    gateway: str
    labels: dict[str, str]

    def is_ready(self, ready: bool, *, started: bool = True) -> None:
        """What the kubelet says of the agent's container."""
        agent = {
            "name": "stoker-agent",
            "ready": ready,
            "started": started,
            "restartCount": 0,
            "image": "stoker",
            "imageID": "",
        }
        status = {"phase": "Running" if ready else "Pending", "initContainerStatuses": [agent]}
        self.site.patch(f"{self.site.path_of('Pod', self.name)}/status", {"status": status})

    def report(self, commit: str = "", status: SyncStatus = SyncStatus.SYNCED, **more: Any) -> None:
        """What its agent applies: to the map and under the key that it was told to use."""
        told = self.site.metadata(self.resource, self.kind)
        by_pod = told is not None and told.status_key_mode is StatusKeyMode.POD
        facts = PodFacts(
            self.name, self.site.namespace, self.labels, {"stoker.io/gateway-name": self.gateway}
        )
        key = status_key(self.name if by_pod else gateway_name(facts))
        shard = told.status_shards.get(key, 0) if told is not None else 0
        said: dict[str, Any] = {
            "ref": str(told.ref) if told is not None and told.ref else "",
            "commit": commit,
            "synced_commit": commit if status is SyncStatus.SYNCED else "",
            "synced_ref": str(told.ref) if told is not None and told.ref else "",
            "files_changed": 3,
            **more,
        }
        report = GatewayReport(
            gateway=self.gateway,
            pod_name=self.name,
            namespace=self.site.namespace,
            sync_status=status,
            **said,
        )
        self.apply(status_map(self.kind, self.resource, shard), {key: report.json()})

    def apply(self, name: str, data: Mapping[str, str]) -> None:
        labels = labels_of(self.kind, self.resource)
        meta = {"name": name, "namespace": self.site.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}
        manager = f"fieldManager={manager_for(self.name)}&force=true"
        _require(
            self.site.cluster.request(
                "PATCH",
                f"{self.site.path_of('ConfigMap', name)}?{manager}",
                body,
                content_type="application/apply-patch+yaml",
            ),
            200,
            201,
        )

    def delete(self) -> None:
        path = f"{self.site.path_of('Pod', self.name)}?gracePeriodSeconds=0"
        _require(self.site.cluster.request("DELETE", path), 200)


_PLACES = {
    "Stoker": ("/apis/stoker.io/v1alpha1", "stokers"),
    "SyncProfile": ("/apis/stoker.io/v1alpha1", "syncprofiles"),
    "IgnitionSync": ("/apis/sync.ignition.io/v1alpha1", "ignitionsyncs"),
    "IgnitionSyncBase": ("/apis/sync.ignition.io/v1alpha1", "ignitionsyncbases"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Pod": ("/api/v1", "pods"),
    "Event": ("/api/v1", "events"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
}


def _fits(found: object, wanted: object) -> bool:
    return bool(wanted(found)) if callable(wanted) else found == wanted


def _require(answer: Any, *allowed: int) -> dict[str, Any]:
    if answer.status not in allowed:
        raise StokerError(
            f"the API server answered {answer.status}: {answer.body.decode(errors='replace')[:500]}"
        )
    found: dict[str, Any] = answer.json()
    return found
