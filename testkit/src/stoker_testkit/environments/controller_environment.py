"""A namespace in which a real controller works, with pods that are objects and nothing more.

There is no node: a pod's status is written as a kubelet would write it, and what its
agent says as the real agent says it (`stub_gateway_pods`). The controller runs as a process, or
two, and as an account that may do exactly what the chart lets it do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import AgentMetadata, metadata_map_name
from stoker_testkit.chart.controller_rbac import CONTROLLER, LEASE, controller_rules
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import PlainObjects, condition_in
from stoker_testkit.environments.stub_gateway_pods import StubGatewayPod, gateway_pod
from stoker_testkit.processes import Process
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 45.0


@dataclass
class Site(PlainObjects, Stoppable):
    """One namespace and the controllers that work in it."""

    folder: Path
    running: list[Process] = field(default_factory=list)

    @classmethod
    def prepare(
        cls, cluster: ClusterAccess, namespace: str, folder: Path, *, shared_volumes: bool = False
    ) -> Site:
        """Make the account that controllers run as, with its roles, and their lease."""
        site = cls(cluster, namespace, folder)
        meta = {"name": CONTROLLER, "namespace": namespace}
        site.post("/api/v1", "serviceaccounts", {"metadata": meta})
        rules = controller_rules(shared_volumes=shared_volumes)
        site.grant(CONTROLLER, CONTROLLER, (*rules.watched, *rules.home))
        site.post("/apis/coordination.k8s.io/v1", "leases", {"metadata": {**meta, "name": LEASE}})
        return site

    def grant(self, name: str, account: str, rules: Sequence[Mapping[str, Any]], *, home: str = "") -> None:
        """Bind a Role with these rules to an account, of this namespace unless another is named."""
        meta = {"name": name, "namespace": self.namespace}
        group = "/apis/rbac.authorization.k8s.io/v1"
        self.post(group, "roles", {"metadata": meta, "rules": list(rules)})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": home or self.namespace}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.post(group, "rolebindings", {"metadata": meta, "roleRef": ref, "subjects": [subject]})

    def start(self, *flags: str, kubeconfig: Path | None = None) -> Process:
        """One more controller."""
        if kubeconfig is None:
            kubeconfig = self.cluster.service_account_kubeconfig(self.namespace, CONTROLLER)
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
        prefixed = {f"{group}/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.patch(self.path_of(kind, name), {"metadata": {"annotations": prefixed}})

    # What kubelets and agents do.

    def pod(
        self,
        name: str,
        resource: str,
        *,
        kind: SyncResourceKind = SyncResourceKind.STOKER,
        gateway: str = "",
        account: str = "default",
        injected: bool = True,
        ready: bool = True,
        profile: str = "",
        **annotations: str,
    ) -> StubGatewayPod:
        """A gateway's pod as the injector leaves it, or as it comes without one."""
        body = gateway_pod(
            name,
            self.namespace,
            resource,
            kind=kind,
            gateway=gateway,
            account=account,
            injected=injected,
            profile=profile,
            annotations={key.replace("_", "-"): value for key, value in annotations.items()},
        )
        self.post("/api/v1", "pods", body)
        pod = StubGatewayPod(self, name, resource, kind, gateway or name, body["metadata"]["labels"])
        if injected:
            pod.is_ready(ready, started=ready)
        return pod

    # What there is to see.

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(kind, name).get("status", {})
        return found

    def condition(self, kind: str, name: str, type_: str) -> tuple[str, str, str]:
        """Status, reason and message; empty where there is no such condition."""
        return condition_in(self.status(kind, name), type_)

    def until(self, kind: str, name: str, type_: str, reason: str, patience: float = PATIENCE) -> str:
        """Wait until a condition has this reason; its message."""
        eventually(
            lambda: self.condition(kind, name, type_)[1] == reason,
            patience,
            lambda: f"{type_} of {name} becomes {reason}; it has {self.status(kind, name)}\n{self.tail()}",
            interval=0.05,
        )
        return self.condition(kind, name, type_)[2]

    def metadata(
        self, resource: str, kind: SyncResourceKind = SyncResourceKind.STOKER
    ) -> AgentMetadata | None:
        data = self.get("ConfigMap", metadata_map_name(kind, resource)).get("data")
        return None if data is None else AgentMetadata.parse(data)

    def until_metadata(
        self,
        resource: str,
        kind: SyncResourceKind = SyncResourceKind.STOKER,
        patience: float = PATIENCE,
        **wanted: object,
    ) -> AgentMetadata:
        """Wait until the metadata for agents has these values; a function as a value is a check."""

        def published() -> list[AgentMetadata]:
            found = self.metadata(resource, kind)
            fits = found is not None and all(_fits(getattr(found, name), one) for name, one in wanted.items())
            return [found] if fits and found is not None else []

        return eventually(
            published,
            patience,
            lambda: f"the metadata has {wanted}; it has {self.metadata(resource, kind)}\n{self.tail()}",
            interval=0.05,
        )[0]

    def until_event(self, reason: str, text: str = "") -> None:
        eventually(
            lambda: any(one[1] == reason and text in one[2] for one in self.events()),
            PATIENCE,
            lambda: f"an event {reason} with {text!r}; there are {self.events()}",
            interval=0.1,
        )

    def tail(self) -> str:
        return "\n".join(process.tail() for process in self.running)


def _fits(found: object, wanted: object) -> bool:
    return bool(wanted(found)) if callable(wanted) else found == wanted
