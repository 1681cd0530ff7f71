"""The doctor's findings about a cluster from outside, with another clock and network."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stoker.api.kinds.stoker import Stoker
from stoker.api.meta import Condition
from stoker.api.spec.status import SyncStatus as Status
from stoker.api.to_intent import NO_DEFAULTS, intent_for, merge_spec
from stoker.cli.commands import cli
from stoker.cli.common.in_cluster import ClusterResourceOptions
from stoker.cli.doctor.api_server import API_SERVER_CHECKS
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    ExaminedResource,
    OperatorInstallation,
    run_chain,
)
from stoker.cli.doctor.gateways import GATEWAYS
from stoker.cli.doctor.operator import FINDING, OPERATOR
from stoker.cli.doctor.resources import RESOURCE
from stoker.cli.doctor.source import SOURCE
from stoker.cli.doctor.tls_handshake import CertificateUntrusted, read_certificate
from stoker.cli.exit_codes import ExitCode
from stoker.controller.cache.gateways import fleet_of
from stoker.controller.cache.objects import SYNCED_KINDS, ResourceKey, decode_object, decode_resource
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.domain.clock import rfc3339
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.protocol import CR_NAME_LABEL, GatewayReport, SyncState
from stoker.domain.reasons import Reason
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.certificates import Authority, Certificate, KeyPair, private_pem
from stoker_testkit.cluster.stub_api_server import kubeconfig_for, stub_api
from stoker_testkit.manual_clock import ManualClock

VERSION = {"major": "1", "minor": "31+", "gitVersion": "v1.31.2"}
PLACE = "/apis/stoker.io/v1alpha1/namespaces/plant/stokers"
SELECTOR = "line=filling,tier in (prod)"


# A repository that is not reached from here.


@pytest.mark.parametrize(
    ("status", "reason", "mark", "text"),
    [
        ("True", "Cloned", FindingStatus.NOTE, ", from here; the controller says: of the controller"),
        ("False", "RefNotFound", FindingStatus.WRONG, "of the controller"),
        (
            "Unknown",
            "Reconciling",
            FindingStatus.UNTRIED,
            ", from here; the controller says: of the controller",
        ),
        ("", "", FindingStatus.UNTRIED, ", from here; the controller has not reported on it"),
    ],
)
async def test_of_a_repository_that_is_not_reached_from_here_the_controllers_word_counts(
    tmp_path: Path, status: Any, reason: str, mark: FindingStatus, text: str
) -> None:
    condition = Condition(
        type="RepoCloned",
        status=status,
        reason=reason,
        message="of the controller",
        last_transition_time="2026-01-01T00:00:00Z",
    )
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{reserved.getsockname()[1]}/plant.git"
        case = case_of(kubeconfig_for("http://127.0.0.1:1", tmp_path))
        case.subject = subject_of(line(nowhere), *([condition] if status else []))
        (found,) = await looked(SOURCE[-1:], case)
    assert (found.check, found.mark) == ("git", mark)
    assert found.said.endswith(text)
    assert found.reason is (Reason.REF_NOT_FOUND if mark is FindingStatus.WRONG else None)
    assert bool(found.fix) is (mark is not FindingStatus.NOTE)


# A bundle that ends below the root.


async def test_a_bundle_with_an_intermediate_verifies_what_it_signed(tmp_path: Path) -> None:
    pair = below_a_root(tmp_path)
    authority = Authority.load(pair)
    with serving(authority.server(["127.0.0.1"]).save(tmp_path, "server")) as port:
        bundle = base64.b64encode(pair.certificate.read_bytes()).decode()
        assert (await read_certificate("127.0.0.1", port, "127.0.0.1", bundle)).ends > datetime.now(UTC)
        with pytest.raises(CertificateUntrusted):
            await read_certificate("127.0.0.1", port, "127.0.0.1", base64.b64encode(Authority().pem).decode())


# Resources that the controller leaves out.


@pytest.mark.parametrize(("labelled", "mark"), [(True, FindingStatus.WELL), (False, FindingStatus.WRONG)])
async def test_a_resource_that_the_controllers_selector_leaves_out(
    tmp_path: Path, labelled: bool, mark: FindingStatus
) -> None:
    whole = line("https://git.example.net/plant.git")
    asked: list[dict[str, str]] = []

    def answer(path: str, query: dict[str, str]) -> object:
        if path.endswith("/deployments"):
            return {"metadata": {}, "items": [deployment(f"--watch-label-selector={SELECTOR}")]}
        if path == PLACE:
            asked.append(query)
            return {"metadata": {}, "items": [whole] if labelled else []}
        return whole if path == f"{PLACE}/line-1" else {"metadata": {}, "items": []}

    with stub_api(answer) as address:
        found = await looked((*FINDING, *RESOURCE), case_of(kubeconfig_for(address, tmp_path)))
    assert [one.mark for one in found] == [FindingStatus.WELL, mark]
    assert [(one["labelSelector"], one["fieldSelector"]) for one in asked] == [
        (SELECTOR, "metadata.name=line-1")
    ]
    if not labelled:
        assert found[-1].said == f"the controller watches only resources with the labels {SELECTOR}"
        assert "controller.watchLabelSelector" in found[-1].fix


async def test_without_the_right_to_list_resources_none_is_reported_as_left_out(tmp_path: Path) -> None:
    whole = line("https://git.example.net/plant.git")
    with stub_api(lambda path, _: whole if path == f"{PLACE}/line-1" else None) as address:
        case = case_of(kubeconfig_for(address, tmp_path))
        case.operator = OperatorInstallation("home", labels=SELECTOR)
        (found,) = await looked(RESOURCE, case)
    assert found.mark is FindingStatus.WELL


async def test_a_namespace_without_an_operator_is_not_reported_to_have_one(tmp_path: Path) -> None:
    with stub_api(lambda *_: {"metadata": {}, "items": []}) as address:
        case = case_of(kubeconfig_for(address, tmp_path), home="typo")
        (found,) = await looked(FINDING, case)
    assert (found.mark, found.reason) == (FindingStatus.WRONG, Reason.CONTROLLER_SILENT)
    assert found.said == "neither a Deployment nor a Lease of the controller is in namespace typo"
    assert "--operator-namespace" in found.fix
    assert case.operator is None


# Components that do not work, or lack permissions.


@pytest.mark.parametrize(
    ("holder", "message"),
    [
        ("", "is held by no replica"),
        ("ghost", "was last renewed by ghost at 2020-01-01T00:00:00Z, and not renewed since"),
        ("slow clock", "leads"),
    ],
)
async def test_a_lease_is_watched_before_its_holder_is_called_dead(
    tmp_path: Path, holder: str, message: str
) -> None:
    beats = itertools.count()

    def answer(path: str, _: dict[str, str]) -> object:
        version = str(next(beats)) if holder == "slow clock" else "1"
        renewed = {"renewTime": "2020-01-01T00:00:00Z", "leaseDurationSeconds": 1}
        metadata = {"name": "stoker-controller-0", "namespace": "home", "resourceVersion": version}
        one = {"metadata": metadata, "spec": {"holderIdentity": holder, **renewed}}
        return {"metadata": {}, "items": [one]} if path.endswith("/leases") else one

    with stub_api(answer) as address:
        case = case_of(kubeconfig_for(address, tmp_path))
        case.operator = OperatorInstallation("home")
        (found,) = await looked(OPERATOR[:1], case)
    assert found.said.endswith(message)
    assert found.reason is (None if message == "leads" else Reason.CONTROLLER_SILENT)


async def test_an_account_of_agents_without_rights_is_named(tmp_path: Path) -> None:
    with stub_api(lambda *_: {"status": {"allowed": False}}) as address:
        case = case_of(kubeconfig_for(address, tmp_path))
        case.subject = subject_of(line("https://git.example.net/plant.git"))
        case.subject.fleet = fleet_of([POD], {})
        (found,) = await looked([one for one in GATEWAYS if one[0] == "agent role"], case)
    assert (found.mark, found.reason) == (FindingStatus.WRONG, Reason.RBAC_DENIED)
    assert found.said.startswith("service account default, which agents run under, may not ")
    assert "get configmaps stoker-metadata-line-1" in found.said
    assert "stoker-agent-line-1" in found.fix


# What could not be seen.


def test_json_output_counts_what_was_not_tried(tmp_path: Path) -> None:
    with stub_api(lambda path, _: VERSION if path == "/version" else None) as address:
        command = ["doctor", f"--kubeconfig={kubeconfig_for(address, tmp_path)}", "--output=json"]
        done = CliRunner().invoke(cli, command)
    document = json.loads(done.stdout)
    assert (done.exit_code, document["well"]) == (ExitCode.DONE, True)
    unseen = [one for one in document["findings"] if one["mark"] == "untried"]
    assert document["untried"] == len(unseen) > 0


# A clock that is wrong.


@pytest.mark.parametrize("off", [timedelta(hours=3), timedelta(hours=-3)])
async def test_the_age_of_a_report_is_measured_by_the_clock_of_the_cluster(
    tmp_path: Path, off: timedelta
) -> None:
    now = datetime.now(UTC)
    marks = []
    with stub_api(lambda *_: VERSION) as address:
        for age in (timedelta(), timedelta(minutes=30)):
            case = case_of(kubeconfig_for(address, tmp_path))
            case.clock = ManualClock(now + off)
            case.subject = subject_of(line("https://git.example.net/plant.git"))
            case.subject.fleet = fleet_of([POD], {"filler": report(now - age)})
            found = await looked(
                (*API_SERVER_CHECKS[:1], *(one for one in GATEWAYS if one[0] == "reports")), case
            )
            marks.append(found[-1].mark)
    assert marks == [FindingStatus.WELL, FindingStatus.WRONG]


POD = CachedPod(
    name="filler-0",
    namespace="plant",
    labels={CR_NAME_LABEL: "line-1"},
    annotations={"stoker.io/gateway-name": "filler"},
    account="default",
    agent=AgentState.READY,
)


def report(at: datetime) -> GatewayReport:
    return GatewayReport("filler", sync_status=SyncState.SYNCED, heartbeat_at=rfc3339(at))


async def looked(chain: DoctorChain, case: Examination) -> list[Finding]:
    async with case.client:
        return [one async for one in run_chain(chain, case)]


def case_of(config: Path, home: str = "") -> Examination:
    place = ClusterResourceOptions("plant", "line-1", "Stoker", kubeconfig=config)
    return Examination(place.client(), place, home)


def subject_of(whole: dict[str, Any], *conditions: Condition) -> ExaminedResource:
    kept = decode_object(json.dumps(whole).encode())
    model = decode_resource(kept, SYNCED_KINDS["Stoker"].model)
    assert isinstance(model, Stoker)
    intent = intent_for(merge_spec(model, base=None, defaults=NO_DEFAULTS))
    return ExaminedResource(
        ResourceKey("Stoker", ObjectKey("plant", "line-1")), Status(conditions=conditions), 1, intent
    )


def line(repo: str) -> dict[str, Any]:
    metadata = {"name": "line-1", "namespace": "plant", "generation": 1, "resourceVersion": "1", "uid": "u"}
    spec = {"git": {"repo": repo, "ref": "main"}}
    return {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": metadata, "spec": spec}


def deployment(*flags: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "stoker", "app.kubernetes.io/component": "controller"}
    pod = {"serviceAccountName": "stoker", "containers": [{"args": ["controller", *flags]}]}
    metadata = {"name": "manager", "namespace": "home", "labels": labels}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}}}


@contextmanager
def serving(pair: KeyPair) -> Iterator[int]:
    """A port that shows this certificate, and nothing that vouches for it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def below_a_root(folder: Path) -> KeyPair:
    """An authority that an unknown one signed."""
    key, root = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    now = datetime.now(UTC)
    named = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in ("below", "root")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named[0])
        .issuer_name(named[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Certificate(pem, private_pem(key)).save(folder, "below")
