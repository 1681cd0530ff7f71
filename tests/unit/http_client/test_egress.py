"""A process that enforces a policy connects to the address that it has checked, and to no other."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.domain.egress import EgressPolicy
from stoker.http_client import EgressRefused, ServiceRequest, ServiceUnreachable, egress, send_request

FORGE = "forge.example"
CALLS = web.AppKey("calls", list[str])


class Names:
    """The answers of a DNS server, in turn; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.canonical: dict[str, str] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host: str, port: int, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
        if host not in self.answers:
            return [*self._real(host, port, *args, **options)]
        self.asked.append(host)
        turns = self.answers[host]
        addresses = turns.pop(0) if len(turns) > 1 else turns[0]
        name = self.canonical.get(host, host)
        return [
            (
                socket.AF_INET6 if ":" in one else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                name,
                (one, port),
            )
            for one in addresses
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.fixture(autouse=True)
def nothing_stays_enforced() -> Iterator[None]:
    yield
    egress.set_egress_policy(None)


@pytest.fixture
async def service() -> AsyncIterator[TestServer]:
    async def answer(request: web.Request) -> web.Response:
        calls.append(request.host)
        return web.Response(text="internal")

    calls: list[str] = []
    app = web.Application()
    app[CALLS] = calls
    app.router.add_route("*", "/{path:.*}", answer)
    server = TestServer(app, host="127.0.0.2")
    await server.start_server()
    try:
        yield server
    finally:
        await server.close()


def enforce(*allowed: str, cluster: tuple[str, ...] = ()) -> None:
    egress.set_egress_policy(EgressPolicy.of(allowed, cluster, {"KUBERNETES_SERVICE_HOST": "172.20.0.1"}))


def asked(service: TestServer) -> list[str]:
    return service.app[CALLS]


async def test_a_command_of_a_person_connects_to_everything(service: TestServer) -> None:
    assert (await send_request(ServiceRequest(str(service.make_url("/"))))).status == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.2", "[::ffff:127.0.0.2]", "[::1]", "localhost", "127.2", "0x7f000002", "①②⑦.⓪.⓪.②"]
)
async def test_loopback_is_refused_however_it_is_written(service: TestServer, host: str) -> None:
    enforce()
    with pytest.raises(ServiceUnreachable):
        await send_request(ServiceRequest(f"http://{host}:{service.port}/x?key=hidden"))
    assert asked(service) == []


async def test_the_refusal_says_what_to_do_and_no_address(service: TestServer, names: Names) -> None:
    names.answers[FORGE] = [["127.0.0.2"]]
    enforce()
    with pytest.raises(EgressRefused) as caught:
        await send_request(ServiceRequest(f"http://{FORGE}:{service.port}/x?key=hidden"))
    assert caught.value.message == (
        "forge.example leads to a loopback address and is not connected to; "
        "the installation can allow it with --egress-allow (chart value egress.allow)"
    )
    assert asked(service) == []


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "10.96.0.1", "172.20.0.1", "::ffff:169.254.169.254"]
)
async def test_a_name_that_leads_to_metadata_or_the_cluster_is_refused(names: Names, address: str) -> None:
    names.answers[FORGE] = [[address]]
    enforce(cluster=("10.96.0.0/12",))
    with pytest.raises(EgressRefused):
        await send_request(ServiceRequest(f"http://{FORGE}/"))


async def test_a_short_name_that_is_a_service_is_refused(names: Names) -> None:
    names.answers["gitea"] = [["10.4.4.4"]]
    names.canonical["gitea"] = "gitea.stoker-system.svc.cluster.local"
    enforce()
    with pytest.raises(EgressRefused, match="leads to a Service"):
        await send_request(ServiceRequest("http://gitea/"))


async def test_the_checked_address_is_the_one_that_is_connected_to(service: TestServer, names: Names) -> None:
    names.answers[FORGE] = [["127.0.0.2"], ["127.0.0.1"]]
    enforce("127.0.0.2")
    assert (await send_request(ServiceRequest(f"http://{FORGE}:{service.port}/"))).status == 200
    assert names.asked == [FORGE], "resolved once"
    assert asked(service) == [f"{FORGE}:{service.port}"]
    with pytest.raises(EgressRefused):
        await send_request(ServiceRequest(f"http://{FORGE}:{service.port}/"))


async def test_only_the_allowed_addresses_of_a_name_are_used(service: TestServer, names: Names) -> None:
    names.answers[FORGE] = [["127.0.0.1", "127.0.0.2"]]
    enforce("127.0.0.2")
    assert (await send_request(ServiceRequest(f"http://{FORGE}:{service.port}/"))).status == 200


async def test_an_allowed_host_leads_anywhere(service: TestServer, names: Names) -> None:
    names.answers["gitea.git.svc"] = [["127.0.0.2"]]
    enforce("*.git.svc")
    assert (await send_request(ServiceRequest(f"http://gitea.git.svc:{service.port}/"))).status == 200


async def test_services_of_the_resources_namespace_may_be_called(service: TestServer, names: Names) -> None:
    names.answers["filler.plant.svc"] = [["10.96.4.4"], ["127.0.0.2"]]
    names.canonical["filler.plant.svc"] = "filler.plant.svc.cluster.local"
    enforce(cluster=("10.96.0.0/12",))
    found = await egress.checked_addresses("filler.plant.svc", 80, services_of="plant")
    assert [one.address for one in found] == ["10.96.4.4"]
    with pytest.raises(EgressRefused, match="loopback"):
        await send_request(ServiceRequest(f"http://filler.plant.svc:{service.port}/", services_of="plant"))
    with pytest.raises(EgressRefused, match="Service"):
        await send_request(ServiceRequest(f"http://filler.plant.svc:{service.port}/"))


async def test_an_alias_of_the_own_namespace_leads_to_no_other(names: Names) -> None:
    names.answers["alias.plant.svc"] = [["10.96.0.1"]]
    names.canonical["alias.plant.svc"] = "kubernetes.default.svc.cluster.local"
    enforce()
    with pytest.raises(EgressRefused, match="API server"):
        await send_request(ServiceRequest("http://alias.plant.svc/", services_of="plant"))


async def test_a_proxy_that_a_resource_names_is_checked_as_well(service: TestServer) -> None:
    enforce()
    with pytest.raises(EgressRefused):
        await send_request(ServiceRequest(f"http://{FORGE}/", proxy=f"http://127.0.0.2:{service.port}"))
    assert asked(service) == []


async def test_the_proxy_of_the_environment_is_used_and_the_host_is_judged_by_name(
    service: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.2:{service.port}")
    enforce()
    assert (await send_request(ServiceRequest(f"http://{FORGE}/"))).status == 200
    for host in ("169.254.169.254", "0xa9fea9fe", "2852039166", "kubernetes。default。svc", "gitea.git.svc"):
        with pytest.raises(EgressRefused):
            await send_request(ServiceRequest(f"http://{host}/"))
    assert asked(service) == [FORGE]


async def test_what_a_library_connects_to_is_resolved_and_checked_before(names: Names) -> None:
    names.answers[FORGE] = [["169.254.169.254"]]
    await egress.check_egress(f"http://{FORGE}")
    egress.check_egress_blocking(f"http://{FORGE}")
    enforce()
    with pytest.raises(EgressRefused):
        await egress.check_egress(f"http://{FORGE}")
    with pytest.raises(EgressRefused):
        egress.check_egress_blocking(f"http://{FORGE}")
