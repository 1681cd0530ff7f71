"""Stages for single pages: a canary that asks a service, a shared volume, two shards, a private registry.

They are states of the same cluster as those of `stages`, but leave a release behind that other
pages would not find as they expect it. So they have a cluster of their own.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker_testkit.chart.process_release import HOME
from stoker_testkit.docs_runner import deployment_variants_manifests
from stoker_testkit.docs_runner.cluster_environment import PATIENCE, Cluster
from stoker_testkit.docs_runner.cluster_manifests import GATEWAYS, NAMESPACE, RESOURCE
from stoker_testkit.docs_runner.deployment_variants_manifests import BOTTLING, CELLAR
from stoker_testkit.docs_runner.health_check_service import HealthCheckService
from stoker_testkit.docs_runner.reader_environment import REPOSITORY
from stoker_testkit.environments.sharding_environment import ShardProcess
from stoker_testkit.kubelet.image_pull import PulledImage
from stoker_testkit.kubelet.process_containers import Program
from stoker_testkit.repositories.sample_ignition_repository import plant
from stoker_testkit.services import oci_artifacts
from stoker_testkit.services.oci_registry import Registry
from stoker_testkit.wait_until import eventually

MORE = ("canary", "shared-storage", "two-sites", "private-registry")
"""In this order each stage finds most of what it needs."""
HOST = "registry.plant.example"
PINNED = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""The digest of the documentation."""
ASKED = "https://filler.plant.svc:8043/StatusPing"
IMAGE = "stoker"
BREAK = """#!/bin/sh
set -e
clone=$(mktemp -d)
git clone --quiet '{repository}' "$clone"
echo '[]' > "$clone/services/filler/projects/filler/project.json"
git -C "$clone" commit --quiet --all --message 'A project that no gateway can load'
git -C "$clone" push --quiet
rm -rf "$clone"
"""


class DeploymentVariants(Cluster):
    """A cluster in which these pages are played."""

    def __init__(self, folder: Path) -> None:
        self.registry: Registry | None = None
        self._pulled: PulledImage | None = None
        super().__init__(folder)
        refuses = folder / "the-service-refuses"
        self.service = self._stack.enter_context(HealthCheckService(self._pilot, refuses))
        self.names[ASKED] = f"{self.service.url}/StatusPing"
        self.reader.script(
            "another-user-pushes-a-broken-project", BREAK.format(repository=self.names[REPOSITORY])
        )
        refuse = f"#!/bin/sh\n: > {shlex.quote(str(refuses))} && another-user-pushes\n"
        self.reader.script("another-user-pushes-and-the-service-refuses", refuse)
        self.reader.script("the-service-accepts", f"#!/bin/sh\nrm {shlex.quote(str(refuses))}\n")
        self._gateways_file = folder / "gateways.json"
        self.reader.script("the-gateways-start", f"#!/bin/sh\nkubectl apply -f '{self._gateways_file}'\n")

    def set_up(self, stage: str) -> None:
        prepare: dict[str, Callable[[], None]] = {
            "canary": self._fill,
            "shared-storage": self._bottle,
            "two-sites": self._dig_a_cellar,
            "private-registry": self._stock_the_registry,
        }
        prepare[stage]()

    def shard(self, index: int) -> ShardProcess:
        """The controller of one shard."""
        verb = f"controller-{index}" if index else "controller"
        return ShardProcess(self._release.running[verb], self._release.ports[verb])

    def delivered(self, gateway: str, path: str) -> str | None:
        """A file of a gateway that is a StatefulSet."""
        found = self.gateways.started.get((NAMESPACE, f"{gateway}-0"))
        file = None if found is None else found.data_dir / path
        return file.read_text() if file is not None and file.is_file() else None

    def push(self) -> str:
        """Push as another user; return the commit."""
        subprocess.run(["another-user-pushes"], env=self.environment, check=True, timeout=PATIENCE)
        return str(self.reader.repository.tip())

    def share_a_volume(self) -> None:
        """Make a resource with a shared volume, of a repository that anybody may read."""
        git = {"repo": self.names[REPOSITORY], "ref": "main"}
        self._apply(deployment_variants_manifests.bottling(git, storage={"size": "1Gi"}))

    # The states in which plays begin.

    def _bottle(self) -> None:
        self._have_release()
        self._clear()
        self._make_namespace()
        self._make_secrets(NAMESPACE)
        self._apply(deployment_variants_manifests.shared_storage(self.names[REPOSITORY]))
        eventually(self._bottling_is_synced, 2 * PATIENCE, self.describe, interval=0.2)

    def _bottling_is_synced(self) -> bool:
        found: Any = json.loads(
            self.cluster.kubectl("-n", NAMESPACE, "get", "ignitionsync", BOTTLING, "-o", "json").stdout
        )
        conditions = found.get("status", {}).get("conditions", ())
        synced = [one["message"] for one in conditions if one["type"] == "AllGatewaysSynced"]
        return synced == [f"{len(GATEWAYS)} of {len(GATEWAYS)} gateways synced"]

    def _dig_a_cellar(self) -> None:
        self._fill()
        self.cluster.create_namespace(CELLAR)
        self._make_secrets(CELLAR)
        self._apply(deployment_variants_manifests.second_site(self.names[REPOSITORY]))

    def _stock_the_registry(self) -> None:
        """Nothing of ours but a registry with the image and the plant's files, which wants a login."""
        self._empty()
        self._release.pods.clear()
        self.cluster.kubectl("delete", "namespace", HOME, CELLAR, "--ignore-not-found", "--timeout=60s")
        registry = Registry.start(self._folder / "registry", auth="basic")
        self.registry = self._stack.enter_context(registry)
        image = registry.push(IMAGE, "1.0.0", oci_artifacts.made_of(oci_artifacts.Layer(b"the product")))
        files = registry.push(RESOURCE, "v12", oci_artifacts.flux(plant()))
        self._pulled = PulledImage(Program(), self.cluster)
        self.images[f"{registry.host}/{IMAGE}@sha256:{image}"] = self._pulled
        self.environment["DIGEST"] = f"sha256:{image}"
        self.reader.secret("registry-password", registry.password)
        self.names |= {
            HOST: registry.host,
            f"oci://{HOST}/{RESOURCE}": registry.url(RESOURCE),
            PINNED: f"sha256:{files}",
            "username=robot": f"username={registry.username}",
        }
        self._gateways_file.write_text(json.dumps(deployment_variants_manifests.registry_gateways()))

    # What its cluster does besides.

    def _run_programs(self) -> None:
        """As Deployments do it: what is new comes first, and what has changed is replaced after that."""
        before = dict(self._release.pods)
        super()._run_programs()
        for verb, pod in self._release.pods.items():
            if verb in before and verb != "webhook" and pod != before[verb]:
                self._release.stop_program(verb)
                self._release.start(verb)

    def _call_ready(self) -> None:
        if self._pulled is not None:
            found: Any = self.cluster.request("GET", f"/api/v1/namespaces/{HOME}/pods").json()
            for pod in found["items"]:
                spec = pod["spec"]
                secrets = [one["name"] for one in spec.get("imagePullSecrets", ())]
                for container in spec["containers"]:
                    self._pulled.pull(container["image"], HOME, secrets)
        super()._call_ready()

    def _pilot(self) -> str:
        return self.gateways.started[NAMESPACE, GATEWAYS[0]].url

    def _apply(self, objects: dict[str, Any]) -> None:
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
