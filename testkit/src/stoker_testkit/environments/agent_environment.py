"""A plant whose gateways are kept by agents: a repository, a resource, its pods and their gateways.

What stories about agents have in common, and how each of them has to end: the files are
those of the commit and no others, the report says so, the gateway has read all of them,
and no scan of it ever read one half.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.agent.sidecar.startup import MARKER
from stoker.api.agent_spec import AgentSpec, encode
from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import merge_spec
from stoker.domain.protocol import AgentMetadata, GatewayReport, SyncState
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.layout.protected_paths import STAGING
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_pod import AgentPod, ResourceMaps
from stoker_testkit.gateway.scan_loader import ScanLoader
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.gateway.torn_reads.scan_recorder import ScanRecorder
from stoker_testkit.processes import free_port
from stoker_testkit.repositories.bare_repository import Files, Repository
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, view
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

SERVICE = "services/filler"
MANAGED = ("projects", "config/resources/core")
FILES_ONLY = {"filesOnly": True}
PATIENCE = 80.0
"""Seconds; who was away is asked again after pauses of up to 30, and left alone for 10 when it is up."""


def project(name: str, version: int, views: int = 3) -> dict[str, str]:
    """A project of so many views, as a gateway reads it, by paths of the data folder."""
    folder = f"projects/{name}"
    files = {f"{folder}/project.json": json.dumps({"title": f"{name} {version}", "enabled": True})}
    for number in range(views):
        for file, text in view(f"{name} {number}, version {version}").items():
            files[f"{folder}/{VIEWS}/v{number}/{file}"] = text
    return files


@dataclass
class AgentEnvironment(Stoppable):
    """Everything of one resource."""

    cluster: ClusterAccess
    namespace: str
    folder: Path
    repository: Repository
    metadata: AgentMetadata
    kubeconfig: Path
    pods: list[AgentPod] = field(default_factory=list)
    gateways: dict[str, SimulatedGateway] = field(default_factory=dict)
    """By the name of their pod."""

    @classmethod
    def create(
        cls, cluster: ClusterAccess, namespace: str, folder: Path, repository: Repository, url: str
    ) -> AgentEnvironment:
        metadata = AgentMetadata(ref=GitRef("main"), trigger="spec", git_url=RepoUrl(url))
        kubeconfig = cluster.kubeconfig("admin", namespace=namespace)
        return cls(cluster, namespace, folder, repository, metadata, kubeconfig)

    @property
    def maps(self) -> ResourceMaps:
        return ResourceMaps(self.cluster, self.namespace)

    def commit(self, files: Files, **options: Any) -> CommitId:
        """A commit of the service's files, named by paths of the data folder."""
        return self.repository.commit({f"{SERVICE}/{path}": it for path, it in files.items()}, **options)

    def publish(self, commit: CommitId | None = None, **changes: Any) -> None:
        """Write the metadata ConfigMap, as the controller does; what is not given stays as it was."""
        if commit is not None:
            changes["commit"] = commit
        self.metadata = replace(self.metadata, **changes)
        self.maps.publish(self.metadata)

    def spec(self, git: Mapping[str, object] | None = None, **blocks: object) -> str:
        """The resource as the controller hands it on; where its gateway is, each pod says itself."""
        wire = {
            "metadata": {"name": "plant", "namespace": self.namespace, "generation": 1},
            "spec": {
                "git": {"repo": str(self.metadata.git_url), "ref": "main", **(git or {})},
                "gateway": {"port": 8088, "tls": False, "apiKeySecretRef": {"name": "gw", "key": "key"}},
                **blocks,
            },
        }
        return encode(AgentSpec(merge_spec(from_wire(wire, Stoker)).resource))

    def pod(
        self, name: str = "gateway-0", gateway: str = "filler", *, talks: bool = True, **annotations: str
    ) -> AgentPod:
        """A pod; one that `talks` has a gateway on a port of its own once `start_gateway` starts it.

        The resource of a pod that does not is without a gateway: metadata without a spec, or
        `spec(gateway=FILES_ONLY)`.
        """
        port = {"gateway-port": str(free_port())} if talks else {}
        own = {key.replace("_", "-"): value for key, value in annotations.items()}
        chosen = {"service-path": SERVICE, **port, **own}
        pod = AgentPod.create(
            self.folder / name, self.namespace, name=name, gateway=gateway, annotations=chosen
        )
        pod.mount("api-key", {"key": KEY})
        self.pods.append(pod)
        return pod

    def start_gateway(self, pod: AgentPod, **how: Any) -> SimulatedGateway:
        """The gateway of a pod; `how` is what `SimulatedGateway.start` takes."""
        port = int(pod.annotations["stoker.io/gateway-port"])
        how = {"scan_seconds": 0.0, **how}
        self.gateways[pod.name] = gateway = SimulatedGateway.start(pod.data_dir, port=port, **how)
        return gateway

    def join_gateway(self, pod: AgentPod, **how: Any) -> SimulatedGateway:
        """The agent's container starts again beside a gateway that runs: no first boot is waited for."""
        gateway = self.start_gateway(pod, **how)
        self.mark_started(pod)
        pod.start(self.kubeconfig)
        return gateway

    def mark_started(self, pod: AgentPod) -> None:
        """As if the pod's first sync had been long ago."""
        (pod.root / "tmp" / MARKER).touch()

    def until_synced(self, pod: AgentPod, commit: CommitId, key: str = "filler") -> GatewayReport:
        """Wait until the pod is reported at the commit, and its gateway, if it has one, to show it."""
        talks = "stoker.io/gateway-port" in pod.annotations
        wanted = {"verified": True, "applied": True} if talks else {}
        return self.maps.until_report(
            key,
            patience=PATIENCE,
            pod=pod,
            sync_status=SyncState.SYNCED,
            reason="",
            synced_commit=commit,
            held_projects=(),
            **wanted,
        )

    def until_converged(self, pod: AgentPod, commit: CommitId, key: str = "filler") -> GatewayReport:
        """Check the end state of a story; raises with the differences."""
        report = self.until_synced(pod, commit, key)
        check(pod, files_of(self.repository, commit), self.gateways.get(pod.name))
        return report

    def stop(self) -> None:
        for pod in self.pods:
            pod.stop()
        for gateway in self.gateways.values():
            gateway.stop()


def files_of(repository: Repository, commit: CommitId) -> dict[str, bytes]:
    """The expected files of the data folder at a commit."""
    with tarfile.open(fileobj=io.BytesIO(repository.git("archive", str(commit)))) as archive:
        found = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        return {
            name.removeprefix(f"{SERVICE}/"): file.read()
            for name, file in found.items()
            if file is not None and name.startswith(f"{SERVICE}/")
        }


def check(pod: AgentPod, wanted: Mapping[str, bytes], gateway: SimulatedGateway | None) -> None:
    """Raise unless the folder holds these files and no others, and its gateway has read them, none half."""
    found = {
        str(path.relative_to(pod.data_dir)): path.read_bytes()
        for place in MANAGED
        for path in (pod.data_dir / place).rglob("*")
        if path.is_file()
    }
    differing = sorted(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))
    trouble = {"is not as the commit says": differing}
    trouble["was left behind"] = [str(path) for path in (pod.data_dir / STAGING).rglob("*") if path.is_file()]
    if gateway is not None:
        # A scan is under way for a moment after it was accepted.
        eventually(lambda: not unread(gateway), message=lambda: f"{unread(gateway)[:20]} to be read")
        trouble["was read half"] = gateway.stale()
    problems = [f"{path} {what}" for what, paths in trouble.items() for path in paths]
    if problems:
        raise AssertionError("\n".join(problems[:20]))


def unread(gateway: SimulatedGateway) -> list[str]:
    """The differences between a gateway's loaded content and its disk: a scan was forgotten."""
    disk = ScanLoader(gateway.data_dir, ScanRecorder())
    there = {name: it.resources for name, it in disk.projects(rewrites=False).items()}
    on_disk = {f"{name}/{path}": it.digest for name, those in there.items() for path, it in those.items()}
    held = {f"{name}/{path}": it for name, those in gateway.projects.items() for path, it in those.items()}
    on_disk |= {path: it.digest for path, it in disk.config(rewrites=False).items()}
    held |= gateway.config
    return sorted(path for path in {*on_disk, *held} if on_disk.get(path) != held.get(path))
