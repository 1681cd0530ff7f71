"""Certificates without manual work: a rotation under load, conversion, and the service account."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker.http_server.tls.ca_bundle import MUTATING, CaBundleTarget
from stoker.http_server.tls.certificate_authority import TlsMaterial
from stoker.http_server.tls.rotation import CertificateLifetimes
from stoker.http_server.tls.setup import SelfSignedCertificates
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import CRDS, SECRETS
from stoker.kube.config.config import load_config
from stoker.webhooks.admission.process import WebhookOptions, WebhookProcess
from stoker_testkit.admission.webhook_manifests import SECRET, mutating, roles
from stoker_testkit.admission.webhook_process import IMAGE, Admission
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually, eventually_async

PODS = Path(__file__).parents[2] / "data" / "pods"
TERMS = CertificateLifetimes(
    authority=timedelta(seconds=15),
    serving=timedelta(seconds=12),
    overlap=timedelta(seconds=3),
    farewell=timedelta(seconds=1),
)
LAG = 0.7


@pytest.fixture
def admission(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Admission]:
    with Admission(kinds, namespace, tmp_path) as made:
        made.prepare()
        yield made


def pod() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PODS / "gateway.json").read_text())
    found["metadata"].pop("ownerReferences")
    found["spec"]["serviceAccountName"] = "default"
    return found


class Callers:
    """Ask without a pause while certificates come and go, and remember what went wrong."""

    def __init__(self, client: KubeClient, admission: Admission, ports: list[int]) -> None:
        self._client = client
        self._admission = admission
        self._ports = ports
        self.reviews = 0
        self.handshakes = 0
        self.failures: list[str] = []

    async def review(self) -> None:
        """Pods through the API server; with the policy Fail a review that fails denies the pod."""
        path = f"/api/v1/namespaces/{self._admission.namespace}/pods"
        headers = {"Content-Type": "application/json"}
        body = json.dumps(pod()).encode()
        while True:
            try:
                answer = await self._client.raw(
                    "POST", path, query={"dryRun": "All"}, body=body, headers=headers
                )
                if b"stoker-agent" not in answer.body:
                    self.failures.append("a pod without an agent")
            except Exception as error:
                self.failures.append(str(error))
            self.reviews += 1

    async def connect(self) -> None:
        """Fresh connections that trust the configuration of a moment ago: changes take time."""
        clock = asyncio.get_running_loop().time
        lines: deque[tuple[float, str]] = deque()
        while True:
            found = await self._client.get(MUTATING, self._admission.configuration, into=dict[str, Any])
            lines.append((clock(), found["webhooks"][0]["clientConfig"]["caBundle"]))
            while len(lines) > 1 and lines[1][0] < clock() - LAG:
                lines.popleft()
            context = ssl.create_default_context(cadata=base64.b64decode(lines[0][1]).decode())
            for port in self._ports:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                    writer.close()
                    with contextlib.suppress(OSError, ssl.SSLError):
                        await writer.wait_closed()
                except (OSError, ssl.SSLError) as error:
                    self.failures.append(f"port {port}: {error}")
                self.handshakes += 1


async def material(client: KubeClient, namespace: str) -> TlsMaterial:
    return TlsMaterial.parse((await client.get(SECRETS, SECRET, namespace, into=dict[str, Any]))["data"])


async def test_two_replicas_rotate_authority_and_certificate_without_one_refused_review(
    admission: Admission, kinds: ClusterAccess, namespace: str
) -> None:
    account = kinds.service_account_kubeconfig(namespace, "stoker-webhook")
    settings = WebhookOptions(
        config=load_config(account),
        namespace=namespace,
        certificate=SelfSignedCertificates(
            SECRET, ("127.0.0.1",), (CaBundleTarget(MUTATING, admission.configuration),), TERMS
        ),
        address="127.0.0.1:0",
        health_address="0",
        metrics_address="0",
        agent_image=IMAGE,
    )
    replicas = [WebhookProcess(settings), WebhookProcess(settings)]
    running = [asyncio.create_task(one.run()) for one in replicas]
    async with KubeClient(load_config(kinds.kubeconfig())) as client:
        try:
            await eventually_async(lambda: all(one.port for one in replicas), 30, "both replicas listen")
            first = await material(client, namespace)
            ports = [one.port or 0 for one in replicas]
            admission.apply(mutating(admission.configuration, namespace, ports, "Fail"))
            await eventually_async(lambda: all(admission.bundles("mutating")), 30, "both are trusted")
            stoker = {
                "metadata": {"name": "plant"},
                "spec": {"git": {"repo": "https://h.test/x.git", "ref": "main"}},
            }
            await client.raw(
                "POST",
                f"/apis/stoker.io/v1alpha1/namespaces/{namespace}/stokers",
                body=json.dumps({"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", **stoker}).encode(),
                headers={"Content-Type": "application/json"},
            )
            callers = Callers(client, admission, ports)
            calling = [asyncio.create_task(callers.review()), asyncio.create_task(callers.connect())]

            async def replaced() -> bool:
                now = await material(client, namespace)
                return first.authorities[0] not in now.authorities and now.chain != first.chain

            await eventually_async(
                replaced, 40, lambda: f"the authority is replaced; {callers.failures[:3]}", interval=0.3
            )
            for task in calling:
                task.cancel()
            await asyncio.wait(calling)
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)
    assert callers.failures == []
    assert callers.reviews > 20
    assert callers.handshakes > 20


def test_a_conversion_is_asked_for_by_the_server_and_refused_with_a_reason(
    admission: Admission, kinds: ClusterAccess, namespace: str
) -> None:
    """A kind that is not ours: caBundle is written into its CRD by name, and the refusal reaches the user."""
    group = f"{namespace}.example.test"
    name = f"widgets.{group}"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    admission.apply(*roles(namespace, admission.configuration, [name]))
    admission.start(f"--conversion-crd={name}")
    webhook = {"clientConfig": {"url": f"https://127.0.0.1:{admission.ports[0]}/convert"}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema},
                {"name": "v2", "served": True, "storage": False, "schema": schema},
            ],
            "conversion": {"strategy": "Webhook", "webhook": {**webhook, "conversionReviewVersions": ["v1"]}},
        },
    }
    admission.apply(crd)
    try:
        path = f"{CRDS.path()}/{name}"

        def bundle() -> str:
            found: Any = kinds.request("GET", path).json()
            return str(found["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", ""))

        eventually(bundle, 60, admission.tail)
        kinds.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{name}")
        body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "one"}}
        objects = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
        eventually(
            lambda: kinds.request("POST", objects, body).status == 201, 20, "the kind is served", interval=0.2
        )
        wanted = f"cannot become {group}/v2: it is not a kind of Stoker"

        def answer() -> str:
            return kinds.request("GET", f"{objects.replace('/v1/', '/v2/')}/one").body.decode()

        eventually(lambda: wanted in answer(), 20, answer, interval=0.2)
    finally:
        kinds.request("DELETE", f"{CRDS.path()}/{name}")


def test_the_clusters_own_token_is_not_mounted_beside_ours(
    control_plane_with_controllers: ClusterAccess, tmp_path: Path
) -> None:
    """With the ServiceAccount plug-in, which runs again after us: one mount at its place, and it is ours."""
    cluster = control_plane_with_controllers
    crds = Path(__file__).parents[3] / "config" / "crd"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crds))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(crds))
    namespace = f"tokens-{tmp_path.name.rpartition('-')[2]}"[:40].replace("_", "-").lower()
    cluster.create_namespace(namespace)
    eventually(
        lambda: (
            cluster.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default").status == 200
        ),
        30,
        "the namespace has its account",
    )
    with Admission(cluster, namespace, tmp_path) as admission:
        admission.prepare()
        admission.start()
        admission.configure()
        admission.until_trusted()
        spec = {"git": {"repo": "https://git.example.net/plant.git", "ref": "main"}}
        stoker = {
            "apiVersion": "stoker.io/v1alpha1",
            "kind": "Stoker",
            "metadata": {"name": "plant"},
            "spec": spec,
        }
        assert admission.create("apis/stoker.io/v1alpha1/stokers", stoker)[0] == 201
        for automount in (True, False):
            wanted = pod()
            wanted["metadata"]["name"] = f"pod-{automount}".lower()
            wanted["spec"]["automountServiceAccountToken"] = automount
            status, found = admission.create("api/v1/pods", wanted)
            assert status == 201, found
            agent = found["spec"]["initContainers"][-1]
            place = "/var/run/secrets/kubernetes.io/serviceaccount"
            assert [one["name"] for one in agent["volumeMounts"] if one["mountPath"] == place] == [
                "stoker-token"
            ]
            theirs = [one for one in found["spec"]["volumes"] if one["name"].startswith("kube-api-access")]
            assert len(theirs) == (1 if automount else 0)
