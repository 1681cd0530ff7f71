"""The gateway client against the test gateway, and against what is none."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.api_key import api_key_file, check_api_key
from stoker.ignition.client.gateway import GatewayClient, ScanKind
from stoker.ignition.client.http import MAX_ANSWER_BYTES
from stoker.ignition.client.responses import PathNotOffered, ScanLockRefused
from stoker_testkit.certificates import Authority
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.gateway.rest_api.request_checks import ApiKey, PlainHttpPolicy
from stoker_testkit.gateway.runtime import State
from stoker_testkit.gateway.simulated_gateway import KEY, SECRET, SimulatedGateway
from stoker_testkit.repositories.sample_ignition_repository import view

INFO = "/data/api/v1/gateway-info"


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedGateway]:
    project = tmp_path / "data" / "projects" / "filler"
    project.mkdir(parents=True)
    (project / "project.json").write_text("{}")
    for name, text in view("Filler").items():
        (project / name).write_text(text)
    with SimulatedGateway.start(tmp_path / "data") as running:
        yield running


@pytest.fixture
def proxy(simulated: SimulatedGateway) -> Iterator[HttpFaultProxy]:
    with HttpFaultProxy.start(simulated.url) as running:
        yield running


@pytest.fixture
async def gateway(proxy: HttpFaultProxy) -> AsyncIterator[GatewayClient]:
    """A client that reaches the test gateway through a proxy, which can answer in its place."""
    client = to(proxy.url)
    yield client
    await client.aclose()


def to(
    url: str, key: str = KEY, *, ca: bytes | None = None, insecure_skip_verify: bool = False
) -> GatewayClient:
    address = GatewayAddress.parse(url)
    return GatewayClient(address, lambda: Secret(key), ca=ca, insecure_skip_verify=insecure_skip_verify)


async def trouble(client: GatewayClient) -> StokerError:
    """What `check` finds wrong first."""
    try:
        with pytest.raises(StokerError) as found:
            await client.check()
    finally:
        await client.aclose()
    assert SECRET not in found.value.message
    assert found.value.__cause__ is None, "a foreign exception holds the request's headers"
    return found.value


async def test_the_header_of_the_key_can_be_another_one(simulated: SimulatedGateway) -> None:
    simulated.settings.key_header = "X-Plant-Token"
    assert (await trouble(to(simulated.url))).reason is Reason.TOKEN_REJECTED
    address = GatewayAddress.parse(simulated.url)
    client = GatewayClient(address, lambda: Secret(KEY), header="X-Plant-Token")
    assert (await client.check()).version
    await client.aclose()


async def test_asks_scans_and_reads_back(gateway: GatewayClient, simulated: SimulatedGateway) -> None:
    assert (await gateway.check()).version.startswith("8.3.7")
    assert await gateway.project_names() == {"filler"}
    await gateway.lock(ScanKind.PROJECTS, acquire=1, hold=60)
    assert await gateway.scan(ScanKind.PROJECTS) == 200
    assert {one.key for one in simulated.requests if "/data/" in one.path} == {"stoker"}
    assert not any(one.authorization for one in simulated.requests)


async def test_a_key_that_was_replaced_is_used_for_the_next_request(
    simulated: SimulatedGateway, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("stoker:old")
    client = GatewayClient(GatewayAddress.parse(simulated.url), api_key_file(tmp_path / "key"))
    with pytest.raises(Stalled) as rejected:
        await client.check()
    assert rejected.value.reason is Reason.TOKEN_REJECTED
    (tmp_path / "key").write_text(KEY)
    await client.check()
    await client.aclose()


async def test_a_key_without_its_name_never_leaves_the_house(simulated: SimulatedGateway) -> None:
    def read() -> Secret:
        return check_api_key(Secret(SECRET), "the key")

    error = await trouble(GatewayClient(GatewayAddress.parse(simulated.url), read))
    assert error.reason is Reason.TOKEN_MALFORMED
    assert not simulated.asked("GET", "gateway-info")


@pytest.mark.parametrize(
    ("state", "reason"),
    [(State.STARTING, Reason.GATEWAY_STARTING), (State.FAULTED, Reason.GATEWAY_FAULTED)],
)
async def test_starting_and_faulted_are_distinguished(
    simulated: SimulatedGateway, state: State, reason: Reason
) -> None:
    simulated.state = state
    error = await trouble(to(simulated.url))
    assert isinstance(error, Retry)
    assert error.reason is reason


async def test_a_level_that_may_only_read_is_named_when_it_matters(
    gateway: GatewayClient, simulated: SimulatedGateway
) -> None:
    simulated.settings.keys["stoker"] = ApiKey(SECRET, write=False)
    await gateway.check()
    with pytest.raises(Stalled, match="must be granted Gateway Write") as refused:
        await gateway.scan(ScanKind.CONFIG)
    assert refused.value.reason is Reason.LEVEL_NOT_GRANTED


@pytest.mark.parametrize("way", [PlainHttpPolicy.REFUSED, PlainHttpPolicy.REDIRECTED])
async def test_plain_http_where_tls_is_required_is_named(
    simulated: SimulatedGateway, way: PlainHttpPolicy
) -> None:
    simulated.settings.insecure = way
    assert (await trouble(to(simulated.url))).reason is Reason.SECURE_REQUIRED


async def test_an_8_1_gateway_is_named_with_its_version(simulated: SimulatedGateway) -> None:
    simulated.settings.version = "8.1.44"
    error = await trouble(to(simulated.url))
    assert error.reason is Reason.NOT_IGNITION_83
    assert "runs Ignition 8.1.44" in error.message


async def test_a_gateway_that_knows_the_older_path_only_is_asked_there(
    gateway: GatewayClient, proxy: HttpFaultProxy
) -> None:
    proxy.arm(AnsweredFault(404, b"<html>", {"Content-Type": "text/html"}), INFO)
    body = json.dumps({"ignitionVersion": "8.3.0", "name": "old"}).encode()
    proxy.arm(AnsweredFault(200, body, {"Content-Type": "application/json"}), "/data/api/v1/status")
    assert (await gateway.check()).version == "8.3.0"


@pytest.mark.parametrize(
    "answer",
    [
        AnsweredFault(200, b"<html>login</html>", {"Content-Type": "text/html"}),
        AnsweredFault(200, b'{"ignitionVersion":', {"Content-Type": "application/json"}),
        AnsweredFault(200, b"[]", {"Content-Type": "application/json"}),
        AnsweredFault(200, b'{"ignitionVersion":83}', {"Content-Type": "application/json"}),
        AnsweredFault(200, b"[" * 100_000, {"Content-Type": "application/json"}),
        AnsweredFault(200),
    ],
)
async def test_an_invalid_response_is_reported_and_tried_again(
    gateway: GatewayClient, proxy: HttpFaultProxy, answer: AnsweredFault
) -> None:
    proxy.arm(answer, INFO)
    error = await trouble(gateway)
    assert isinstance(error, Retry)
    assert error.reason is Reason.GATEWAY_ERROR


async def test_an_endless_answer_is_cut_off(gateway: GatewayClient, proxy: HttpFaultProxy) -> None:
    proxy.arm(AnsweredFault(200, b" " * (MAX_ANSWER_BYTES + 1)), INFO)
    error = await trouble(gateway)
    assert error.reason is Reason.GATEWAY_ERROR
    assert "more than 8 MiB" in error.message


async def test_a_redirect_takes_the_key_nowhere(
    gateway: GatewayClient, proxy: HttpFaultProxy, simulated: SimulatedGateway
) -> None:
    proxy.arm(AnsweredFault(307, headers={"Location": f"{simulated.url}{INFO}"}), INFO)
    assert (await trouble(gateway)).reason is Reason.GATEWAY_ERROR
    assert not simulated.asked("GET", "gateway-info")


async def test_an_unreachable_gateway_is_reported_with_the_address() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        error = await trouble(to(f"127.0.0.1:{port}"))
    assert error.reason is Reason.GATEWAY_UNREACHABLE
    assert f"http://127.0.0.1:{port} cannot be reached: Connection refused" in error.message


async def test_the_lock_is_refused_in_words(gateway: GatewayClient, simulated: SimulatedGateway) -> None:
    await gateway.lock(ScanKind.PROJECTS, acquire=0, hold=60)
    with pytest.raises(ScanLockRefused, match="held by another client"):
        await gateway.lock(ScanKind.PROJECTS, acquire=0, hold=60)
    simulated.settings.scan_lock = False
    with pytest.raises(PathNotOffered):
        await gateway.lock(ScanKind.CONFIG, acquire=0, hold=60)


async def test_on_loopback_a_certificate_is_checked_only_with_an_authority(tmp_path: Path) -> None:
    own, other = Authority(), Authority()
    # As gateways have them: a name that no client uses here.
    pair = own.server(["gw.plant.example"]).save(tmp_path, "gateway")
    with SimulatedGateway.start(tmp_path / "data", tls=pair) as gateway:
        unchecked, trusted = to(gateway.url), to(gateway.url, ca=own.pem)
        assert (unchecked.trust, trusted.trust) == ("unverified loopback", "verified")
        for client in (unchecked, trusted):
            await client.check()
            await client.aclose()
        error = await trouble(to(gateway.url, ca=other.pem))
        assert error.reason is Reason.CERTIFICATE_NOT_TRUSTED
        assert "certificate that is not trusted" in error.message


async def test_another_host_is_always_checked_unless_configured_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of another host leads to the test gateway, because only names decide here."""
    own = Authority()
    pair = own.server(["gw.plant.example"]).save(tmp_path, "gateway")
    real = socket.getaddrinfo

    def known(host: str | None, *rest: object, **named: object) -> object:
        local = "127.0.0.1" if host in {"gw.plant.example", "other.plant.example"} else host
        return real(local, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    with SimulatedGateway.start(tmp_path / "data", tls=pair) as gateway:
        port = gateway.url.rpartition(":")[2]
        host, wrong = f"https://gw.plant.example:{port}", f"https://other.plant.example:{port}"
        assert "not trusted" in (await trouble(to(host))).message
        assert "not trusted" in (await trouble(to(wrong, ca=own.pem))).message
        for client in (to(host, ca=own.pem), to(host, insecure_skip_verify=True)):
            await client.check()
            await client.aclose()
        assert to(host).trust == "verified"
        assert to(host, insecure_skip_verify=True).trust == "unverified"


async def test_an_authority_that_is_none_is_wrong_input() -> None:
    with pytest.raises(InvalidValue, match="no certificate in PEM form"):
        await to("https://gw.plant.example", ca=b"nonsense").check()
    with pytest.raises(Misconfigured, match="both an authority and no verification"):
        to("https://gw.plant.example", ca=b"x", insecure_skip_verify=True)
