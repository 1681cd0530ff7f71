"""`stoker webhook` as real processes under the real API server: pods are patched, resources are judged."""

from __future__ import annotations

import base64
import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.admission.webhook_manifests import SECRET, roles
from stoker_testkit.admission.webhook_process import Admission
from stoker_testkit.certificates import Authority
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.processes import Process, free_port
from stoker_testkit.wait_until import eventually

PODS = Path(__file__).parents[2] / "data" / "pods"
GIT = {"repo": "https://git.example.net/plant.git", "ref": "main"}


@pytest.fixture
def admission(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Admission]:
    with Admission(kinds, namespace, tmp_path) as made:
        made.prepare()
        yield made


@pytest.fixture
def serving(admission: Admission) -> Admission:
    """One replica that the API server trusts."""
    admission.start()
    admission.configure()
    admission.until_trusted()
    return admission


def stoker(name: str = "plant", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": name},
        "spec": {"git": GIT, **spec},
    }


def pod(name: str = "gateway", **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PODS / f"{name}.json").read_text())
    found["metadata"].pop("ownerReferences")
    found["spec"]["serviceAccountName"] = "default"  # as the plug-in that is off here would
    found["metadata"]["annotations"].update(changes)
    return found


def made(admission: Admission, plural: str, body: object, **options: Any) -> dict[str, Any]:
    status, found = admission.create(plural, body, **options)
    assert status == 201, f"{found}\n{admission.tail()}"
    return found


def agent_of(found: dict[str, Any]) -> dict[str, Any]:
    (agent,) = [one for one in found["spec"]["initContainers"] if one["name"] == "stoker-agent"]
    assert isinstance(agent, dict)
    return agent


def events(admission: Admission) -> list[tuple[str, str, str]]:
    listed = admission.cluster.request("GET", f"/api/v1/namespaces/{admission.namespace}/events")
    found: Any = listed.json()
    return [(one["involvedObject"]["kind"], one["reason"], one["message"]) for one in found["items"]]


def warnings_of(admission: Admission, *args: str, body: object) -> str:
    """What kubectl shows a person."""
    done = admission.cluster.kubectl(
        "-n", admission.namespace, *args, "-f", "-", stdin=json.dumps(body), check=False
    )
    return done.stderr


@pytest.mark.smoke
def test_a_pod_of_the_chart_gets_its_agent_and_the_resource_an_event(serving: Admission) -> None:
    made(serving, "apis/stoker.io/v1alpha1/stokers", stoker())
    found = made(serving, "api/v1/pods", pod())
    agent = agent_of(found)
    assert agent["restartPolicy"] == "Always"
    assert agent["image"] == "registry.test/stoker:1.0"
    assert found["metadata"]["labels"]["stoker.io/cr-name"] == "plant"
    assert found["metadata"]["annotations"]["stoker.io/cr-kind"] == "Stoker"
    assert found["spec"]["initContainers"][0]["name"] == "preconfigure"

    (line,) = serving.logged("injection.done")
    assert (line["pod"], line["namespace"], line["resource"], line["gateway"]) == (
        "filler-gateway-0",
        serving.namespace,
        "plant",
        "filler",
    )
    result = eventually(lambda: events(serving), 20, "an Event is written", interval=0.1)
    assert result == [("Stoker", "SidecarInjected", "an agent was put into pod filler-gateway-0")]


@pytest.mark.smoke
def test_pods_that_do_not_ask_and_dry_runs_leave_no_trace(serving: Admission) -> None:
    made(serving, "apis/stoker.io/v1alpha1/stokers", stoker())
    plain = pod()
    plain["metadata"]["annotations"] = {"stoker.io/inject": "false"}
    found = made(serving, "api/v1/pods", plain)
    assert [one["name"] for one in found["spec"]["initContainers"]] == ["preconfigure"]
    plain["metadata"] = {"name": "silent"}
    made(serving, "api/v1/pods", plain)
    again = pod()
    again["metadata"]["name"] = "tried"
    assert agent_of(made(serving, "api/v1/pods", again, dry_run=True))
    assert [line.get("dry_run") for line in serving.logged("injection.done")] == [True]
    assert events(serving) == []


@pytest.mark.smoke
def test_a_refused_pod_is_admitted_unchanged_and_the_refusal_is_reported_everywhere(
    serving: Admission,
) -> None:
    lonely = pod()
    lonely["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "filler", "uid": "1-2-3", "controller": True}
    ]
    warnings = warnings_of(serving, "create", body=lonely)
    assert "Warning: ResourceNotFound: no agent is put into pod filler-gateway-0" in warnings
    (line,) = serving.logged("injection.refused")
    assert line["reason"] == "ResourceNotFound"
    seen = eventually(lambda: events(serving), 20, "an Event is written", interval=0.1)
    assert [one[:2] for one in seen] == [("StatefulSet", "ResourceNotFound")]

    for name in ("plant", "brewery"):
        made(serving, "apis/stoker.io/v1alpha1/stokers", stoker(name))
    second = pod()
    second["metadata"]["name"] = "filler-gateway-1"
    assert "ResourceAmbiguous" in warnings_of(serving, "create", body=second)
    found: Any = serving.cluster.request(
        "GET", f"/api/v1/namespaces/{serving.namespace}/pods/filler-gateway-1"
    ).json()
    assert [one["name"] for one in found["spec"]["initContainers"]] == ["preconfigure"]


def test_where_it_is_asked_for_a_pod_without_its_agent_is_denied(admission: Admission) -> None:
    admission.start("--refused-pods=deny")
    admission.configure()
    admission.until_trusted()
    status, answer = admission.create("api/v1/pods", pod())
    assert status == 403
    assert "ResourceNotFound" in answer["message"]


@pytest.mark.smoke
def test_pods_that_are_restricted_stay_so(serving: Admission) -> None:
    """Judged by the API server's own PodSecurity admission, which sees the pod after us."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    serving.cluster.kubectl("label", "namespace", serving.namespace, label)
    secret = {"name": "login", "key": "token"}
    git = {**GIT, "auth": {"token": {"secretRef": secret}}, "caSecretRef": secret}
    gateway = {"apiKeySecretRef": secret}
    made(serving, "apis/stoker.io/v1alpha1/stokers", stoker(git=git, gateway=gateway))
    found = made(serving, "api/v1/pods", pod())
    assert len(found["spec"]["volumes"]) == 9

    container = stoker("brewery", agent={"sidecarMode": "container"})
    made(serving, "apis/stoker.io/v1alpha1/stokers", container)
    plain = pod(**{"stoker.io/cr-name": "brewery"})
    plain["metadata"]["name"] = "plain"
    found = made(serving, "api/v1/pods", plain)
    assert [one["name"] for one in found["spec"]["containers"]] == ["gateway", "stoker-agent"]
    assert found["spec"]["initContainers"][-1]["name"] == "stoker-initial-sync"


def test_a_pod_without_a_name_and_with_names_like_ours_is_taken(serving: Admission) -> None:
    sync = {
        "apiVersion": "sync.ignition.io/v1alpha1",
        "kind": "IgnitionSync",
        "metadata": {"name": "public-demo"},
        "spec": {"git": GIT, "gateway": {"filesOnly": True}},
    }
    made(serving, "apis/sync.ignition.io/v1alpha1/ignitionsyncs", sync)
    found = made(serving, "api/v1/pods", pod("frontend"))
    agent = agent_of(found)
    assert found["metadata"]["name"].startswith("frontend-7c9d8b6f5-")
    mounts = {one["mountPath"]: one for one in agent["volumeMounts"]}
    assert mounts["/ignition-data"] == {
        "name": "storage",
        "mountPath": "/ignition-data",
        "subPath": "ignition/data",
    }
    assert mounts["/etc/podinfo"]["name"] == "pod-annotations-2"
    assert agent["securityContext"]["runAsUser"] == 1500
    warnings = warnings_of(serving, "create", body=pod("frontend"))
    assert "LegacyAnnotation" in warnings
    assert "duplicate port name" not in warnings, "a Service would find the agent where it means the gateway"


def test_agents_run_the_image_of_the_webhook_unless_configured_otherwise(admission: Admission) -> None:
    own = {"name": "webhook", "image": "registry.test/operator@sha256:" + "a" * 64}
    other = {"name": "proxy", "image": "registry.test/proxy:1"}
    itself = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stoker-webhook-0"},
        "spec": {"containers": [other, own], "serviceAccountName": "default"},
    }
    made(admission, "api/v1/pods", itself)
    admission.start("--agent-image=", env={**os.environ, "POD_NAME": "stoker-webhook-0"})
    admission.configure()
    admission.until_trusted()
    made(admission, "apis/stoker.io/v1alpha1/stokers", stoker())
    assert agent_of(made(admission, "api/v1/pods", pod()))["image"] == own["image"]
    assert 'result="injected"' in admission.ask("/metrics")[1]
    assert "ignition_sync_webhook_certificate_seconds" in admission.ask("/metrics")[1]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_what_cannot_be_looked_up_is_left_to_the_failure_policy(
    serving: Admission, policy: str, status: int
) -> None:
    serving.configure(policy=policy, validate=False)
    serving.until_trusted()
    blind = [one for one in roles(serving.namespace, serving.configuration) if one["kind"] == "ClusterRole"]
    blind[0]["rules"] = [one for one in blind[0]["rules"] if "stokers" not in one["resources"]]
    serving.apply(*blind)

    def outcome() -> tuple[int, int]:
        """Until the authorizer has noticed, the answer is that of a namespace without a resource."""
        answer = serving.create("api/v1/pods", pod(), dry_run=True)[0]
        return answer, len(serving.logged("injection.failed"))

    eventually(lambda: outcome()[1] > 0, 20, serving.tail, interval=0.1)
    assert outcome()[0] == status
    assert serving.logged("injection.failed")[-1]["reason"] == "RBACDenied"


@pytest.mark.smoke
def test_two_replicas_that_start_together_serve_with_one_authority(admission: Admission) -> None:
    admission.start(replicas=2)
    admission.configure()
    admission.until_trusted()
    assert len(set(admission.bundles("mutating"))) == 1
    made(admission, "apis/stoker.io/v1alpha1/stokers", stoker())
    agent_of(made(admission, "api/v1/pods", pod()))
    assert len(admission.logged("injection.done")) == 1, "the second one found the agent of the first"
    assert len(admission.logged("certificate.loaded")) == 2


def test_a_secret_that_the_chart_renders_empty_is_filled_without_the_right_to_create(
    kinds: ClusterAccess, namespace: str, admission: Admission
) -> None:
    role = next(one for one in roles(namespace, admission.configuration) if one["kind"] == "Role")
    role["rules"] = [one for one in role["rules"] if one["verbs"] != ["create"]]
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace}}
    admission.apply(role, empty)
    admission.start(replicas=2)
    admission.configure()
    admission.until_trusted()
    found: Any = kinds.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{SECRET}").json()
    assert set(found["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert len(set(admission.bundles("mutating"))) == 1


def test_trust_comes_back_when_an_upgrade_or_a_person_takes_it_away(admission: Admission) -> None:
    admission.start()
    admission.configure(policy="Ignore")
    admission.until_trusted()
    before = admission.bundles("mutating")
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{admission.configuration}"
    found: Any = admission.cluster.request("GET", path).json()
    for one in found["webhooks"]:
        one["clientConfig"].pop("caBundle")
    assert admission.cluster.request("PUT", path, found).status == 200
    eventually(lambda: admission.bundles("mutating") == before, 30, admission.tail)

    admission.cluster.request("DELETE", path)
    admission.configure()
    eventually(lambda: admission.bundles("mutating") == before, 30, admission.tail)


def test_a_deleted_secret_comes_back_as_it_was(serving: Admission) -> None:
    path = f"/api/v1/namespaces/{serving.namespace}/secrets/{SECRET}"
    before: Any = serving.cluster.request("GET", path).json()
    assert serving.cluster.request("DELETE", path).status == 200

    def after() -> dict[str, Any]:
        answer = serving.cluster.request("GET", path)
        found: Any = answer.json() if answer.status == 200 else {}
        assert isinstance(found, dict)
        return found

    eventually(lambda: after().get("data") == before["data"], 30, serving.tail)


def test_the_spelling_and_the_certificates_of_the_specification(
    kinds: ClusterAccess, namespace: str, admission: Admission, tmp_path: Path
) -> None:
    """`controller --mode=webhook` with files that cert-manager would mount; renewed while it runs."""
    folder = tmp_path / "certs"
    folder.mkdir()
    authority = Authority()
    port = free_port()

    def renew() -> bytes:
        made = authority.server()
        (folder / "tls.key").write_bytes(made.key_pem)
        (folder / "tls.crt").write_bytes(made.pem)
        return made.pem

    first = renew()
    account = kinds.service_account_kubeconfig(namespace, "stoker-webhook")
    argv = [sys.executable, "-m", "stoker", "controller", "--mode=webhook", f"--webhook-port={port}"]
    more = [
        "--webhook-host=127.0.0.1",
        f"--cert-dir={folder}",
        f"--kubeconfig={account}",
        "--agent-image=x:1",
    ]
    off = ["--health-probe-bind-address=0", "--metrics-bind-address=0", "--drain-seconds=0"]
    process = Process.start("webhook", [*argv, *more, *off], log=tmp_path / "webhook.log")
    admission.replicas.append(process)

    def shown() -> bytes:
        try:
            return ssl.get_server_certificate(("127.0.0.1", port)).encode()
        except OSError:
            return b""

    eventually(lambda: shown() == first, 30, process.tail)
    second = renew()
    eventually(lambda: shown() == second, 30, process.tail)
    admission.ports.append(port)
    admission.configure(validate=False)
    patch = {
        "webhooks": [
            {
                "name": "inject-0.stoker.io",
                "clientConfig": {"caBundle": base64.b64encode(authority.pem).decode()},
            }
        ]
    }
    admission.cluster.kubectl(
        "patch", "mutatingwebhookconfiguration", admission.configuration, "--patch", json.dumps(patch)
    )
    made(admission, "apis/stoker.io/v1alpha1/stokers", stoker())
    eventually(lambda: admission.create("api/v1/pods", pod(), dry_run=True)[0] == 201, 20, process.tail)
    assert agent_of(made(admission, "api/v1/pods", pod()))
    context = ssl.create_default_context(cadata=authority.pem.decode())
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/", context=context)
