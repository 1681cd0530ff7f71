"""`stoker doctor` in a cluster: each thing that can be wrong is made so for real, and found by its name."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker.cli.common.in_cluster import ClusterResourceOptions
from stoker.cli.doctor.admission import ADMISSION
from stoker.cli.doctor.checks import (
    Examination,
    RegisteredWebhook,
    WebhookClientConfig,
    WebhookService,
    run_chain,
)
from stoker.cli.doctor.rbac import CONTROLLER, SHARED_VOLUMES, home_needs
from stoker.cli.exit_codes import ExitCode
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker_testkit.certificates import Authority
from stoker_testkit.chart.controller_rbac import controller_rules
from stoker_testkit.chart.process_release import CONFIGURATION, HOME
from stoker_testkit.cluster.namespace_objects import require
from stoker_testkit.wait_until import eventually

from .installed_operator import HOOKS, InstalledOperator, answering, serving

pytestmark = pytest.mark.xdist_group("doctor")

CHECKS = ["api server", "version", "kinds", "schemas", "conversion", "operator"]
CHECKS += ["webhooks", "certificate", "admission", "controller", "rights", "pause"]
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stoker-controller"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PAUSE = f"/api/v1/namespaces/{HOME}/configmaps"


def test_a_cluster_in_which_all_works_is_well(installed: InstalledOperator) -> None:
    code, found = installed.look()
    assert code == ExitCode.DONE
    assert list(found) == CHECKS
    assert {one["mark"] for one in found.values()} == {"ok"}, found
    assert "days are left" in found["certificate"]["message"]

    done = CliRunner().invoke(cli, ["doctor", f"--kubeconfig={installed.cluster.kubeconfig()}"])
    assert done.exit_code == ExitCode.DONE
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok      api server  https://127.0.0.1:")
    assert lines[-1] == "all well"


# The ground.


def test_an_api_server_that_is_not_there(installed: InstalledOperator) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        nowhere = f"https://127.0.0.1:{reserved.getsockname()[1]}"
        place = installed.cluster.kubeconfig(server=nowhere)
        check, reason, _, fix = installed.complaint(kubeconfig=place, code=ExitCode.UNREACHABLE)
    assert (check, reason) == ("api server", Reason.UNREACHABLE)
    assert "kubectl version" in fix


def test_a_login_that_is_not_known(installed: InstalledOperator, tmp_path: Path) -> None:
    stranger = tmp_path / "kubeconfig"
    text = installed.cluster.kubeconfig().read_text()
    stranger.write_text(text.replace(installed.cluster.token("admin"), "nobody"))
    check, reason, _, fix = installed.complaint(kubeconfig=stranger, code=ExitCode.UNREACHABLE)
    assert (check, reason) == ("api server", Reason.UNAUTHORIZED)
    assert "kubectl auth whoami" in fix


def test_a_kubeconfig_that_is_not_there(installed: InstalledOperator, tmp_path: Path) -> None:
    check, reason, _, _ = installed.complaint(kubeconfig=tmp_path / "none", code=ExitCode.WRONG_INPUT)
    assert (check, reason) == ("api server", Reason.MISCONFIGURED)


def test_a_kind_that_is_not_installed(installed: InstalledOperator) -> None:
    with installed.without(f"{CRD}/watchrules.configbutler.ai"):
        eventually(lambda: not serves(installed, "watchrules"), 30.0, "the kind is gone from discovery")
        check, reason, message, fix = installed.complaint()
    eventually(lambda: serves(installed, "watchrules"), 30.0, "the kind is served again")
    assert (check, reason) == ("kinds", Reason.NOT_FOUND)
    assert "watchrules.configbutler.ai" in message
    assert fix.startswith("Install the kinds of this version: helm upgrade")


def test_kinds_of_an_older_version(installed: InstalledOperator) -> None:
    path = f"{CRD}/clusterwatchrules.configbutler.ai"
    whole = installed.get(path)["spec"]["versions"]
    older = json.loads(json.dumps(whole))
    properties = older[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    gone = sorted(properties)[0]
    del properties[gone]
    required = older[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    required["required"] = [one for one in required.get("required", []) if one != gone] or [
        sorted(properties)[0]
    ]
    required.pop("x-kubernetes-validations", None)
    installed.patch(path, {"spec": {"versions": older}})
    try:
        check, reason, message, _ = installed.complaint()
    finally:
        installed.patch(path, {"spec": {"versions": whole}})
    assert (check, reason) == ("schemas", Reason.VERSION_NOT_SUPPORTED)
    assert f"it lacks spec.{gone}" in message


def test_an_api_server_that_is_too_old(installed: InstalledOperator, tmp_path: Path) -> None:
    with answering('{"major": "1", "minor": "29+", "gitVersion": "v1.29.4"}') as address:
        config = tmp_path / "old"
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "a", "cluster": {"server": address}}],
                    "users": [{"name": "a", "user": {"token": "x"}}],
                    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                    "current-context": "a",
                }
            )
        )
        check, reason, message, _ = installed.complaint(kubeconfig=config)
    assert (check, reason) == ("version", Reason.VERSION_NOT_SUPPORTED)
    assert "v1.29.4" in message
    assert "1.30" in message


# Admission.


def test_a_configuration_that_was_deleted(installed: InstalledOperator) -> None:
    with installed.without(f"{HOOKS.format('mutating')}/{CONFIGURATION}"):
        check, reason, message, _ = installed.complaint()
    assert (check, reason) == ("webhooks", Reason.NOT_FOUND)
    assert "MutatingWebhookConfiguration" in message


def test_a_webhook_without_a_bundle(installed: InstalledOperator) -> None:
    port = installed.release.ports["webhook"]["webhook-port"]
    with installed.extra_webhook({"url": f"https://127.0.0.1:{port}/validate"}) as name:
        check, reason, message, fix = installed.complaint()
    assert (check, reason) == ("webhooks", Reason.MISCONFIGURED)
    assert message.startswith(f"{name} has no caBundle")
    assert "cert-manager" in fix


def test_a_bundle_that_does_not_verify_what_is_served(installed: InstalledOperator) -> None:
    port = installed.release.ports["webhook"]["webhook-port"]
    with installed.extra_webhook(config_of(f"https://127.0.0.1:{port}/validate", Authority())) as name:
        check, reason, message, _ = installed.complaint()
    assert (check, reason) == ("certificate", Reason.CERTIFICATE_NOT_TRUSTED)
    assert f"127.0.0.1:{port} serves what the caBundle of {name} does not verify" in message


def test_a_certificate_for_another_name(installed: InstalledOperator, tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.server(["elsewhere.svc"]).save(tmp_path, "server")
    with (
        serving(pair.certificate, pair.key) as port,
        installed.extra_webhook(config_of(f"https://127.0.0.1:{port}/validate", authority)),
    ):
        check, reason, message, _ = installed.complaint()
    assert (check, reason) == ("certificate", Reason.CERTIFICATE_NOT_TRUSTED)
    assert "not valid for '127.0.0.1'" in message


def test_a_certificate_that_is_not_renewed(installed: InstalledOperator, tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.server(["127.0.0.1"], valid_for=timedelta(minutes=5)).save(tmp_path, "server")
    with (
        serving(pair.certificate, pair.key) as port,
        installed.extra_webhook(config_of(f"https://127.0.0.1:{port}/validate", authority)),
    ):
        code, found = installed.look()
    assert code == ExitCode.DONE
    assert found["certificate"]["mark"] == "note"
    assert "ends in 0 days and was not renewed" in found["certificate"]["message"]


def test_a_kind_that_converts_by_an_untrusted_webhook(installed: InstalledOperator) -> None:
    path = f"{CRD}/clusterwatchrules.configbutler.ai"
    address = f"https://127.0.0.1:{installed.release.ports['webhook']['webhook-port']}/convert"
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config_of(address, Authority())}
    installed.patch(path, {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    try:
        code, found = installed.look()
    finally:
        installed.patch(path, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    assert code == ExitCode.UNVERIFIED
    assert found["conversion"]["mark"] == "note", "the others do not convert"
    assert found["certificate"]["reason"] == Reason.CERTIFICATE_NOT_TRUSTED
    assert "CustomResourceDefinition clusterwatchrules.configbutler.ai" in found["certificate"]["message"]


def test_a_service_without_a_ready_endpoint(installed: InstalledOperator) -> None:
    config = {"service": {"namespace": HOME, "name": "nobody-there", "port": 443, "path": "/validate"}}
    bundle = base64.b64encode(Authority().pem).decode()
    slice_of = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "nobody-there", "labels": {"kubernetes.io/service-name": "nobody-there"}},
        "addressType": "IPv4",
        "ports": [{"port": 9443}],
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}],
    }
    path = f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices"
    require(installed.cluster.request("POST", path, slice_of), 201)
    with installed.extra_webhook({**config, "caBundle": bundle}):
        check, reason, message, fix = installed.complaint()
    ready = {"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]}
    installed.patch(f"{path}/nobody-there", ready)
    named = RegisteredWebhook("extra", WebhookClientConfig(service=WebhookService(HOME, "nobody-there")))
    assert asyncio.run(_looked_at(installed, named, "endpoints")).said == f"1 behind {HOME}/nobody-there"
    assert (check, reason) == ("endpoints", Reason.SERVICE_UNREACHABLE)
    assert f"Service {HOME}/nobody-there has no ready endpoint" in message
    assert f"kubectl -n {HOME} get pods" in fix


def test_a_webhook_that_does_not_run(installed: InstalledOperator) -> None:
    namespace = f"deaf-{uuid.uuid4().hex[:8]}"
    installed.cluster.create_namespace(namespace)
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        config = config_of(f"https://127.0.0.1:{reserved.getsockname()[1]}/inject", Authority())
        with installed.extra_webhook(config, about=namespace):
            found = eventually(
                lambda: [one for code, one in [installed.look(f"--namespace={namespace}")] if code],
                30.0,
                "the API server has heard of it",
            )[0]
        deaf = RegisteredWebhook(
            "extra", WebhookClientConfig(url=config["url"], ca_bundle=config["caBundle"])
        )
        alone = asyncio.run(_looked_at(installed, deaf, "certificate"))
    assert alone.mark is FindingStatus.UNTRIED, "what cannot be reached from here is not wrong"
    assert (found["admission"]["mark"], found["admission"]["reason"]) == ("wrong", Reason.SERVICE_UNREACHABLE)
    assert 'failed calling webhook "extra.stoker.io"' in found["admission"]["message"]
    assert found["controller"]["mark"] == "ok", "the controller is a chain of its own"


def test_a_namespace_that_is_not_there_is_not_asked_about(installed: InstalledOperator) -> None:
    code, found = installed.look("--namespace=nowhere")
    assert (code, found["admission"]["mark"]) == (ExitCode.DONE, "untried")
    assert 'namespaces "nowhere" not found' in found["admission"]["message"]


# The operator.


def test_nothing_is_installed(installed: InstalledOperator) -> None:
    check, reason, _, fix = installed.complaint("--operator-namespace=default")
    assert (check, reason) == ("operator", Reason.CONTROLLER_SILENT)
    assert "helm upgrade --install" in fix


def test_two_operators_have_to_be_distinguished(installed: InstalledOperator) -> None:
    deployments = "/apis/apps/v1/namespaces/{}/deployments"
    second = installed.get(f"{deployments.format(HOME)}/stoker-controller-manager")
    second["metadata"] = {"name": "second", "labels": second["metadata"]["labels"]}
    require(installed.cluster.request("POST", deployments.format("default"), second), 201)
    try:
        check, reason, message, fix = installed.complaint(code=ExitCode.WRONG_INPUT)
        assert installed.look(f"--operator-namespace={HOME}")[0] == ExitCode.DONE
    finally:
        installed.cluster.request("DELETE", f"{deployments.format('default')}/second")
    assert (check, reason) == ("operator", Reason.INVALID_VALUE)
    assert message == f"several operators were found, in the namespaces default, {HOME}"
    assert "--operator-namespace" in fix


def test_a_lease_whose_holder_died(installed: InstalledOperator) -> None:
    """In a home of its own: nothing but the Lease of a controller is there."""
    home = f"home-{uuid.uuid4().hex[:8]}"
    installed.cluster.create_namespace(home)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{home}/leases"
    require(installed.cluster.request("POST", leases, {"metadata": {"name": "stoker-controller-0"}}), 201)
    lease, there = f"{leases}/stoker-controller-0", f"--operator-namespace={home}"
    unheld = installed.complaint(there)
    assert unheld[:3:2] == ("controller", f"Lease {home}/stoker-controller-0 is held by no replica")
    installed.patch(lease, {"spec": held("2020-01-01T00:00:00.000000Z")})
    check, reason, message, _ = installed.complaint(there)
    assert (check, reason) == ("controller", Reason.CONTROLLER_SILENT)
    assert "was last renewed by ghost at 2020-01-01T00:00:00.000000Z, and not renewed since" in message
    with renewing(lambda beat: installed.patch(lease, {"spec": held(f"2020-01-01T00:{beat:02}:00.000000Z")})):
        assert installed.look(there)[1]["controller"]["mark"] == "ok", "a clock that is wrong is no death"


def test_a_shard_without_a_leader(installed: InstalledOperator) -> None:
    deployments = f"/apis/apps/v1/namespaces/{HOME}/deployments"
    second = installed.get(f"{deployments}/stoker-controller-manager")
    second["metadata"] = {"name": "second", "labels": second["metadata"]["labels"]}
    require(installed.cluster.request("POST", deployments, second), 201)
    try:
        check, reason, message, _ = installed.complaint()
    finally:
        installed.cluster.request("DELETE", f"{deployments}/second")
    assert (check, reason) == ("controller", Reason.CONTROLLER_SILENT)
    assert message == f"Lease {HOME}/stoker-controller-1 is missing, so no replica leads"


def test_a_right_that_the_controller_lacks(installed: InstalledOperator) -> None:
    rules = installed.get(ROLE)["rules"]
    installed.patch(ROLE, {"rules": [one for one in rules if "secrets" not in one["resources"]]})
    try:
        found = eventually(
            lambda: [one for one in [installed.look()[1]["rights"]] if one["mark"] == "wrong"],
            30.0,
            "RBAC has noticed",
        )[0]
    finally:
        installed.patch(ROLE, {"rules": rules})
        eventually(lambda: installed.look()[0] == ExitCode.DONE, 30.0, "RBAC has noticed")
    assert found["reason"] == Reason.RBAC_DENIED
    assert f"{HOME}/stoker-controller may not get secrets, list secrets, watch secrets" in found["message"]
    assert "all namespaces" in found["message"]


def test_the_rights_that_are_looked_for_are_those_of_the_chart() -> None:
    rules = controller_rules(shared_volumes=True, shards=2)
    wanted = {(one.verb, one.group, one.resource) for one in (*CONTROLLER, *SHARED_VOLUMES)}
    assert wanted == set(granted(rules.watched))
    home = {(one.verb, one.group, one.resource) for one in home_needs(2) if one.resource == "leases"}
    assert home <= set(granted(rules.home))


def test_the_emergency_stop_is_noted(installed: InstalledOperator) -> None:
    body = {"metadata": {"name": "ignition-sync-global-pause"}, "data": {"paused": "true"}}
    require(installed.cluster.request("POST", PAUSE, body), 201)
    try:
        code, found = installed.look()
    finally:
        installed.cluster.request("DELETE", f"{PAUSE}/ignition-sync-global-pause")
    assert code == ExitCode.DONE
    assert (found["pause"]["mark"], found["pause"]["reason"]) == ("note", Reason.PAUSED)
    assert found["pause"]["fix"] == f"stoker resume --namespace {HOME} --everything"


async def _looked_at(installed: InstalledOperator, webhook: RegisteredWebhook, check: str) -> Finding:
    """What one check alone says of one webhook."""
    place = ClusterResourceOptions("default", "", kubeconfig=installed.cluster.kubeconfig())
    async with place.client() as client:
        case = Examination(client, place, webhooks=[webhook])
        (found,) = [one async for one in run_chain([it for it in ADMISSION if it[0] == check], case)]
    return found


def serves(installed: InstalledOperator, plural: str) -> bool:
    answer = installed.cluster.request("GET", "/apis/configbutler.ai/v1alpha1")
    return answer.status == 200 and f'"{plural}"'.encode() in answer.body


def granted(rules: Any) -> Iterator[tuple[str, str, str]]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from ((verb, group, resource) for verb in rule["verbs"])


def config_of(url: str, authority: Authority) -> dict[str, Any]:
    return {"url": url, "caBundle": base64.b64encode(authority.pem).decode()}


def held(at: str) -> dict[str, Any]:
    return {"holderIdentity": "ghost", "renewTime": at, "acquireTime": at, "leaseDurationSeconds": 2}


@contextmanager
def renewing(renew: Callable[[int], object]) -> Iterator[None]:
    """A holder whose clock does not move renews all the time."""
    over = threading.Event()

    def again() -> None:
        beat = 0
        while not over.wait(0.2):
            beat += 1
            renew(beat % 60)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
