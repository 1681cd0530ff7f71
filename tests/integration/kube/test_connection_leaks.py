"""A connection that is lost, or was never made, leaves nothing behind in memory.

Python looks for cycles only after so many new objects, in a process that stays after fifty
thousand. Whatever an error keeps until then is counted here, with that search turned off.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stoker.domain.errors import Retry
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import ApiServerUnreachable
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config import config
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.processes import free_port

TIMES = 50
A_FEW = 25
"""As many objects as one connection consists of that is still there, or is just closing."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def of_connections() -> int:
    """Responses, requests, streams, errors and whatever else belongs to a connection."""
    return sum(str(type(one).__module__).startswith("aiohttp.") for one in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", [FaultKind.RESET, FaultKind.TRUNCATE])
async def test_a_watch_that_is_cut_leaves_nothing_behind(
    control_plane: ClusterAccess, fault_proxy: FaultProxy, namespace: str, kind: FaultKind
) -> None:
    path = control_plane.kubeconfig(server=f"https://{fault_proxy.address}")
    async with KubeClient(config.load_config(path)) as client:
        start = [page async for page in client.pages(CONFIG_MAPS, namespace)][-1].resource_version

        async def lose() -> None:
            async with client.watch(
                CONFIG_MAPS, namespace, resource_version=start, timeout_seconds=300
            ) as lines:
                fault_proxy.inject(Fault(kind))
                with pytest.raises(ApiServerUnreachable, match="in the middle of its answer"):
                    await anext(lines)

        await lose()
        before = of_connections()
        for _ in range(TIMES):
            await lose()
        assert of_connections() <= before + A_FEW


@pytest.mark.usefixtures("uncollected")
async def test_an_api_server_that_is_not_there_is_asked_again_and_again_at_no_cost(
    control_plane: ClusterAccess, fault_proxy: FaultProxy
) -> None:
    path = control_plane.kubeconfig(server=f"https://{fault_proxy.address}")
    async with KubeClient(config.load_config(path)) as client:

        async def ask() -> None:
            with pytest.raises(ApiServerUnreachable, match="Connection refused"):
                await client.raw("GET", "/version")

        with fault_proxy.refusing():
            await ask()
            before = of_connections()
            for _ in range(TIMES):
                await ask()
            assert of_connections() <= before + A_FEW


@pytest.mark.usefixtures("uncollected")
async def test_a_gateway_that_is_not_there_is_asked_again_and_again_at_no_cost() -> None:
    gateway = GatewayClient(
        GatewayAddress.parse(f"http://127.0.0.1:{free_port()}"), lambda: Secret("key:secret")
    )

    async def ask() -> None:
        with pytest.raises(Retry, match="Connection refused"):
            await gateway.check()

    await ask()
    before = of_connections()
    for _ in range(TIMES):
        await ask()
    assert of_connections() <= before + A_FEW
    await gateway.aclose()
