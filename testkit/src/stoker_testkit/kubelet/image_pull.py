"""An image that only a registry with a login has: who cannot pull it does not run it.

A kubelet pulls with the Secrets that the pod names. Here the image's program is on this machine
already, but it is started only when the registry, asked with these Secrets, gives out the manifest.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.kubelet.pod_spec import Container, Pod
from stoker_testkit.kubelet.process_containers import ContainerPlace, Image, ImagePullFailed, RunningContainer
from stoker_testkit.services.oci_artifacts import OCI_MANIFEST

PULL_SECRET = ".dockerconfigjson"  # noqa: S105 - the key in which a Secret of this type has its logins


@dataclass(frozen=True)
class PulledImage:
    """A program whose image is pulled before each start."""

    image: Image
    cluster: ClusterAccess

    async def start(self, pod: Pod, container: Container, place: ContainerPlace) -> RunningContainer:
        names = [one.name for one in pod.spec.image_pull_secrets]
        await asyncio.to_thread(self.pull, container.image, pod.metadata.namespace, names)
        return await self.image.start(pod, container, place)

    def pull(self, address: str, namespace: str, secrets: Sequence[str]) -> None:
        """Ask the registry for an image pinned by a digest; raises ImagePullFailed with its answer."""
        host, _, rest = address.partition("/")
        name, _, digest = rest.partition("@")
        request = urllib.request.Request(
            f"http://{host}/v2/{name}/manifests/{digest}", headers={"Accept": OCI_MANIFEST}
        )
        for one in secrets:
            if (login := self._login(namespace, one, host)) is not None:
                request.add_header("Authorization", f"Basic {login}")
        try:
            urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
        except urllib.error.HTTPError as error:
            with error:
                problem = f"{address}, asked for with {list(secrets)} of {namespace}: {error.code}"
            raise ImagePullFailed(problem) from None

    def _login(self, namespace: str, name: str, host: str) -> str | None:
        found = self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if found.status != 200:
            return None
        secret: Any = found.json()
        logins: Any = json.loads(base64.b64decode(secret["data"][PULL_SECRET]))["auths"]
        return str(logins[host]["auth"]) if host in logins else None
