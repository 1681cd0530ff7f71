"""The fault proxies, as clients see them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.faults.stream_faults import Direction, Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.wait_until import eventually, eventually_async


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that sends back what it gets."""

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def proxy(echo: str) -> Iterator[FaultProxy]:
    with FaultProxy.start(echo) as running:
        yield running


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    with connect(proxy) as connection:
        # The kernel answers for the proxy before the proxy has heard of the connection.
        eventually(lambda: proxy.open_connections == 1, message="the proxy has accepted")
        yield connection


def connect(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return receive(connection, len(text))


def receive(connection: socket.socket, size: int) -> bytes:
    """What comes, until `size` bytes are there or the stream ends."""
    got = b""
    while len(got) < size and (chunk := connection.recv(size - len(got))):
        got += chunk
    return got


def test_forwards_everything_and_counts(proxy: FaultProxy, client: socket.socket) -> None:
    text = b"x" * 300_000
    sender = threading.Thread(target=client.sendall, args=(text,))
    sender.start()
    assert receive(client, len(text)) == text
    sender.join()
    assert proxy.connections == 1
    assert proxy.open_connections == 1
    assert proxy.bytes == {Direction.TO_SERVER: len(text), Direction.TO_CLIENT: len(text)}
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    eventually(lambda: proxy.open_connections == 0, message="the connection is closed")


def test_resets_open_connections_without_waiting_for_traffic(
    proxy: FaultProxy, client: socket.socket
) -> None:
    assert ask(client, b"before") == b"before"
    proxy.inject(Fault(FaultKind.RESET))
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert proxy.struck[FaultKind.RESET] == 1


def test_a_fault_for_the_next_connections_spares_the_ones_after(proxy: FaultProxy) -> None:
    proxy.arm(Fault(FaultKind.RESET, after=4), connections=2)
    for _ in range(2):
        with connect(proxy) as suffering:
            suffering.sendall(b"12345678")
            with pytest.raises(ConnectionResetError):
                receive(suffering, 8)
    with connect(proxy) as spared:
        assert ask(spared, b"12345678") == b"12345678"
    assert proxy.struck[FaultKind.RESET] == 2


def test_truncates_an_answer_in_the_middle(proxy: FaultProxy) -> None:
    proxy.arm(Fault(FaultKind.TRUNCATE, after=5))
    with connect(proxy) as connection:
        connection.sendall(b"hello world\n")
        assert receive(connection, 12) == b"hello"  # and then an orderly end


def test_stalls_without_closing_and_flows_on_when_lifted(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.inject(Fault(FaultKind.STALL, after=3))
    client.sendall(b"abcdef")
    assert receive(client, 3) == b"abc"
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(10)
    assert proxy.open_connections == 1
    proxy.lift()
    assert receive(client, 3) == b"def"


def test_stalls_requests_so_that_the_server_gets_nothing(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.inject(Fault(FaultKind.STALL, Direction.TO_SERVER))
    client.sendall(b"unheard")
    eventually(lambda: proxy.struck[FaultKind.STALL] == 1, message="the request is held")
    assert proxy.bytes[Direction.TO_CLIENT] == 0
    proxy.lift()
    assert receive(client, 7) == b"unheard"


def test_delays_each_piece(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.inject(Fault(FaultKind.DELAY, seconds=0.2))
    begun = time.monotonic()
    assert ask(client, b"slow") == b"slow"
    assert time.monotonic() - begun >= 0.2


def test_corrupts_one_byte(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.inject(Fault(FaultKind.CORRUPT, after=2))
    assert ask(client, b"abcdef") == b"ab\x9cdef"
    assert ask(client, b"abcdef") == b"abcdef"


def test_refuses_new_connections_and_keeps_open_ones(proxy: FaultProxy, client: socket.socket) -> None:
    assert ask(client, b"1") == b"1"
    with proxy.refusing():
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert ask(client, b"2") == b"2"
    with connect(proxy) as again:
        assert ask(again, b"3") == b"3"


def test_a_dead_server_looks_like_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with (
        FaultProxy.start(f"http://127.0.0.1:{port}") as proxy,
        pytest.raises(ConnectionResetError),  # already from connecting, if the proxy is quick
        connect(proxy) as connection,
    ):
        connection.recv(1)


def test_a_target_without_a_port_is_refused() -> None:
    with pytest.raises(ValueError, match="names no host and port"):
        FaultProxy.start("example.test")


@pytest.fixture
def plain_proxy(control_plane: ClusterAccess) -> Iterator[HttpFaultProxy]:
    """A proxy that speaks plain HTTP to the client and TLS to the API server."""
    with HttpFaultProxy.start(control_plane.url, ca_file=control_plane.ca_file) as running:
        yield running


@pytest.fixture
async def api(
    control_plane: ClusterAccess, plain_proxy: HttpFaultProxy
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the API server that goes through that proxy."""
    headers = {"Authorization": f"Bearer {control_plane.token('admin')}"}
    async with aiohttp.ClientSession(plain_proxy.url, headers=headers) as session:
        yield session


def watch_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps?watch=1"


async def create(session: aiohttp.ClientSession, namespace: str, name: str) -> None:
    body = {"metadata": {"name": name}}
    async with session.post(f"/api/v1/namespaces/{namespace}/configmaps", json=body) as answer:
        assert answer.status == 201


async def test_a_watch_through_the_http_proxy_is_live(
    api: aiohttp.ClientSession, plain_proxy: HttpFaultProxy, namespace: str
) -> None:
    async with api.get(watch_of(namespace)) as watch:
        assert watch.status == 200
        for name in ("first", "second"):
            await create(api, namespace, name)
            while b'"name":"kube-root-ca.crt"' in (line := await watch.content.readline()):
                pass
            assert f'"name":"{name}"'.encode() in line
    assert [one.status for one in plain_proxy.seen("watch=1")] == [200]
    assert len(plain_proxy.seen(f"/{namespace}/configmaps$", method="POST")) == 2


def test_the_real_kubectl_works_through_the_http_proxy(
    control_plane: ClusterAccess, http_fault_proxy: HttpFaultProxy, namespace: str
) -> None:
    config = control_plane.kubeconfig("admin", namespace=namespace, server=http_fault_proxy.url)
    made = control_plane.kubectl(f"--kubeconfig={config}", "create", "configmap", "one", "--from-literal=a=b")
    assert made.stdout == "configmap/one created\n"
    assert len(http_fault_proxy.seen("/configmaps", method="POST")) == 1


async def test_answers_in_place_of_the_server_as_often_as_configured(
    api: aiohttp.ClientSession, plain_proxy: HttpFaultProxy, namespace: str
) -> None:
    plain_proxy.arm(AnsweredFault(410, b"too old"), "watch=1")
    plain_proxy.arm(AnsweredFault(429, headers={"Retry-After": "7"}), f"/{namespace}$", method="GET", times=2)
    async with api.get(watch_of(namespace)) as gone:
        assert (gone.status, await gone.read()) == (410, b"too old")
    seen = []
    for _ in range(3):
        async with api.get(f"/api/v1/namespaces/{namespace}") as answer:
            seen.append((answer.status, answer.headers.get("Retry-After")))
    assert seen == [(429, "7"), (429, "7"), (200, None)]


async def test_cuts_a_watch_in_the_middle_of_a_line(
    api: aiohttp.ClientSession, plain_proxy: HttpFaultProxy, namespace: str
) -> None:
    await create(api, namespace, "one")
    plain_proxy.arm(Fault(FaultKind.TRUNCATE, after=20), "watch=1")
    async with api.get(watch_of(namespace)) as watch:
        assert await watch.content.readexactly(20) == b'{"type":"ADDED","obj'
        with pytest.raises(aiohttp.ClientPayloadError):
            await watch.content.read()
    assert plain_proxy.struck == {FaultKind.TRUNCATE: 1}


async def test_resets_an_idle_watch(
    api: aiohttp.ClientSession, plain_proxy: HttpFaultProxy, namespace: str
) -> None:
    async with api.get(watch_of(namespace) + "&resourceVersion=0") as watch:
        plain_proxy.inject(Fault(FaultKind.RESET))
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()


async def test_stalls_a_watch_until_it_is_lifted(
    api: aiohttp.ClientSession, plain_proxy: HttpFaultProxy, namespace: str
) -> None:
    await create(api, namespace, "one")
    plain_proxy.arm(Fault(FaultKind.STALL, after=10), "watch=1")
    async with api.get(watch_of(namespace)) as watch:
        assert await watch.content.readexactly(10) == b'{"type":"A'
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch.content.readany(), 0.3)
        plain_proxy.lift()
        assert (await watch.content.readline()).startswith(b'DDED"')


async def test_corrupts_a_byte_of_the_body_and_not_of_the_encryption(
    api: aiohttp.ClientSession, plain_proxy: HttpFaultProxy, namespace: str
) -> None:
    plain_proxy.arm(Fault(FaultKind.CORRUPT, after=0), namespace)
    async with api.get(f"/api/v1/namespaces/{namespace}") as answer:
        assert (await answer.read()).startswith(b'\x84"kind"')


async def test_a_client_that_leaves_an_idle_watch_takes_the_one_behind_the_proxy_with_it(
    control_plane: ClusterAccess, namespace: str
) -> None:
    headers = {"Authorization": f"Bearer {control_plane.token('admin')}"}
    with (
        FaultProxy.start(control_plane.url) as behind,
        HttpFaultProxy.start(f"https://{behind.address}", ca_file=control_plane.ca_file) as proxy,
    ):
        async with (
            aiohttp.ClientSession(proxy.url, headers=headers) as session,
            session.get(watch_of(namespace)) as watch,
        ):
            assert watch.status == 200
            assert behind.open_connections == 1
        await eventually_async(lambda: behind.open_connections == 0, message="the watch behind is closed")


async def test_the_proxy_can_be_stopped_under_an_open_watch(
    control_plane: ClusterAccess, namespace: str
) -> None:
    headers = {"Authorization": f"Bearer {control_plane.token('admin')}"}
    proxy = HttpFaultProxy.start(control_plane.url, ca_file=control_plane.ca_file)
    async with (
        aiohttp.ClientSession(proxy.url, headers=headers) as session,
        session.get(watch_of(namespace)) as watch,
    ):
        await asyncio.to_thread(proxy.stop)
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()


async def test_an_api_server_that_is_not_there_looks_like_a_broken_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with HttpFaultProxy.start(f"http://127.0.0.1:{port}") as proxy:
        async with aiohttp.ClientSession(proxy.url) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get("/")


def test_faults_of_requests_are_refused_inside_http(http_fault_proxy: HttpFaultProxy) -> None:
    with pytest.raises(ValueError, match="strikes at the answer"):
        http_fault_proxy.arm(Fault(FaultKind.STALL, Direction.TO_SERVER))


def test_the_api_server_behind_a_resetting_network_is_reached_again(
    control_plane: ClusterAccess, fault_proxy: FaultProxy
) -> None:
    config = control_plane.kubeconfig(server=f"https://{fault_proxy.address}")
    fault_proxy.arm(Fault(FaultKind.RESET), connections=None)
    broken = control_plane.kubectl(f"--kubeconfig={config}", "get", "--raw=/readyz", check=False)
    assert "connection reset" in broken.stderr
    fault_proxy.lift()
    assert control_plane.kubectl(f"--kubeconfig={config}", "get", "--raw=/readyz").stdout == "ok"
