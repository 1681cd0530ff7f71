"""The gateway client on a gateway with the API paths of 8.3 and with those of v2."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.designer_sessions import DesignerSession
from stoker.ignition.client.gateway import GatewayClient, ScanKind
from stoker.ignition.client.inventory import ModuleHealth
from stoker.ignition.client.requests import ABSENT_SECONDS
from stoker.ignition.client.responses import PathNotOffered
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.gateway.rest_api.request_checks import ApiKey, Paths, Role
from stoker_testkit.gateway.runtime import State
from stoker_testkit.gateway.sessions import Designer, PerspectiveBrowser
from stoker_testkit.gateway.simulated_gateway import KEY, SECRET, SimulatedGateway
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

CORE = "config/resources/core/ignition"
RESOURCE = {"scope": "A", "version": 1, "files": ["config.json"], "attributes": {}}


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedGateway]:
    data = tmp_path / "data"
    for name in ("Line 1", "Line 2"):
        (data / "projects" / name).mkdir(parents=True)
        (data / "projects" / name / "project.json").write_text("{}")
    add(data / CORE / "tag-provider" / "default", "config.json", {})
    add(
        data / CORE / "tag-type-definition" / "default",
        "udts.json",
        [{"name": "Motor", "tagType": "UdtType"}],
    )
    with SimulatedGateway.start(data) as running:
        yield running


def add(folder: Path, name: str, content: object) -> None:
    folder.mkdir(parents=True)
    (folder / name).write_text(json.dumps(content))
    (folder / "resource.json").write_text(json.dumps({**RESOURCE, "files": [name]}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def gateway(simulated: SimulatedGateway, clock: ManualClock) -> AsyncIterator[GatewayClient]:
    client = GatewayClient(GatewayAddress.parse(simulated.url), lambda: Secret(KEY), clock=clock)
    yield client
    await client.aclose()


@pytest.fixture(params=[Paths.V83, Paths.V2])
def paths(request: pytest.FixtureRequest, simulated: SimulatedGateway) -> Paths:
    generation: Paths = request.param
    simulated.settings.paths = generation
    return generation


@pytest.mark.usefixtures("paths")
async def test_designers_are_listed_by_project(simulated: SimulatedGateway, gateway: GatewayClient) -> None:
    assert await gateway.designers() == ()
    simulated.open_designer(Designer("d1", "anna", "Line 1"))
    simulated.open_session(PerspectiveBrowser("p1", "ben", "Line 2"))
    assert await gateway.designers() == (DesignerSession("d1", "anna", "Line 1", "10.0.0.7"),)


@pytest.mark.usefixtures("paths")
async def test_perspective_sessions_are_distinguished_from_designers(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.open_designer(Designer("d1", "anna", "Line 1"))
    simulated.open_session(PerspectiveBrowser("p1", "ben", "Line 2"))
    found = await gateway.perspective_sessions()
    assert found is not None
    assert [(one.id, one.user, one.project) for one in found] == [("p1", "ben", "Line 2")]
    assert found[0].uptime >= 0.0


@pytest.mark.usefixtures("paths")
async def test_modules_are_healthy_or_quarantined(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.settings.modules, simulated.settings.quarantined = ("a", "b"), ("c",)
    why = "its certificate was not accepted"
    assert await gateway.modules() == ModuleHealth(frozenset({"a", "b"}), {"c": why})


@pytest.mark.usefixtures("paths")
async def test_tag_providers_are_listed_and_a_modules_own_are_known(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.settings.managed_providers = ("MQTT Engine",)
    assert await gateway.tag_providers() == frozenset({"default", "MQTT Engine"})
    assert await gateway.managed_providers() == frozenset({"MQTT Engine"})


async def test_tag_types_are_read_where_they_can_be_exported(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    assert await gateway.types_of("default") == frozenset({"Motor"})
    assert await gateway.types_of("nobody's") is None
    simulated.settings.paths = Paths.V2
    assert await gateway.types_of("default") is None


async def test_a_session_is_closed_and_a_session_that_is_gone_is_named(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.open_session(PerspectiveBrowser("p 1/x", "ben", "Line 2"))
    await gateway.close_session("p 1/x", "a new version comes")
    assert await gateway.perspective_sessions() == ()
    with pytest.raises(PathNotOffered):
        await gateway.close_session("p 1/x", "a new version comes")


async def test_words_are_shown_where_there_is_a_way_and_with_the_end_where_not(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.open_session(PerspectiveBrowser("p1", "ben", "Line 2", leaves_after=None))
    with pytest.raises(PathNotOffered):
        await gateway.message_session("p1", "a new version comes")
    simulated.settings.paths = Paths.BOTH
    await gateway.message_session("p1", "a new version comes")
    await gateway.close_session("p1", "now")
    assert [one.text for one in simulated.messages] == ["a new version comes", "now"]


@pytest.mark.usefixtures("paths")
async def test_a_restart_is_asked_for_and_seen(simulated: SimulatedGateway, gateway: GatewayClient) -> None:
    await gateway.restart()

    async def state() -> bool:
        return (await gateway.presence()).state.value == "STARTING"

    await eventually_async(state)
    with pytest.raises(Retry) as starting:
        await gateway.check()
    assert starting.value.reason is Reason.GATEWAY_STARTING
    await eventually_async(lambda: simulated.state is State.RUNNING)
    assert await gateway.check()


async def test_what_waits_for_a_restart_is_named(simulated: SimulatedGateway, gateway: GatewayClient) -> None:
    assert await gateway.pending_restarts() == ()
    simulated.settings.paths = Paths.V2
    assert await gateway.pending_restarts() is None


async def test_all_pages_of_a_list_are_asked_for(simulated: SimulatedGateway, gateway: GatewayClient) -> None:
    simulated.settings.page_limit = 1
    assert await gateway.project_names() == frozenset({"Line 1", "Line 2"})


async def test_a_role_and_a_mode_are_reported(simulated: SimulatedGateway, gateway: GatewayClient) -> None:
    simulated.settings.role, simulated.settings.deployment_mode = Role.BACKUP, "prod"
    found = await gateway.check()
    assert (found.role, found.deployment_mode) == ("Backup", "prod")


async def test_a_gateway_that_lists_designers_by_project_only_is_asked_so(
    simulated: SimulatedGateway, clock: ManualClock
) -> None:
    """The oldest v2 API has no list at all."""
    simulated.settings.paths = Paths.V2
    simulated.open_designer(Designer("d1", "anna", "Line 2"))
    with HttpFaultProxy.start(simulated.url) as proxy:
        proxy.arm(AnsweredFault(404), "/data/api/v2/(design/)?sessions$", times=None)
        client = GatewayClient(GatewayAddress.parse(proxy.url), lambda: Secret(KEY), clock=clock)
        anna = DesignerSession("d1", "anna", "Line 2", "10.0.0.7")
        assert await client.designers() == (anna,)
        proxy.arm(AnsweredFault(404), "/data/api/v2/projects/Line%201")
        assert await client.designers() == (anna,), "a project that went meanwhile hides no other Designer"
        proxy.arm(AnsweredFault(404), "/data/api/v2/projects/", times=None)
        assert await client.designers() is None
        asked = len(proxy.requests)
        assert await client.designers() is None
        assert len(proxy.requests) == asked, "nothing is asked for again"
        await client.aclose()


async def test_a_path_that_is_not_there_is_not_asked_for_again_for_a_while(
    simulated: SimulatedGateway, gateway: GatewayClient, clock: ManualClock
) -> None:
    simulated.settings.paths = Paths.V2
    await gateway.check()
    for _ in range(3):
        assert await gateway.designers() == ()
    assert len(simulated.asked("GET", "/v1/designers")) == 1
    assert len(simulated.asked("GET", "/v2/design/sessions")) == 3
    await clock.advance(ABSENT_SECONDS + 1)
    await gateway.designers()
    assert len(simulated.asked("GET", "/v1/designers")) == 2


async def test_a_scan_lock_that_is_not_there_is_not_asked_for_again_for_a_while(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.settings.scan_lock = False
    for _ in range(3):
        with pytest.raises(PathNotOffered):
            await gateway.lock(ScanKind.PROJECTS, acquire=0, hold=1)
    assert len(simulated.asked("POST", "scan-lock/projects")) == 1
    simulated.settings.scan_lock = True
    assert await gateway.lock_info(ScanKind.CONFIG) is False
    await gateway.lock(ScanKind.CONFIG, acquire=0, hold=30)
    assert await gateway.lock_info(ScanKind.CONFIG) is True


@pytest.mark.parametrize("how", ["restarted", "upgraded", "unreachable"])
async def test_a_gateway_that_was_away_is_asked_again(
    simulated: SimulatedGateway, gateway: GatewayClient, how: str
) -> None:
    """It may have been upgraded meanwhile."""
    simulated.settings.paths = Paths.V2
    await gateway.check()
    await gateway.designers()
    simulated.settings.paths = Paths.V83
    if how == "restarted":
        simulated.state = State.STARTING
        with pytest.raises(Retry):
            await gateway.project_names()
        simulated.state = State.RUNNING
    elif how == "upgraded":
        simulated.settings.version = "8.3.8"
        await gateway.check()
    else:
        simulated.go_down()
        with pytest.raises(Retry):
            await gateway.project_names()
        simulated.come_up()
    assert await gateway.designers() == ()
    assert len(simulated.asked("GET", "/v1/designers")) == 2


async def test_a_key_that_was_replaced_meanwhile_is_tried_before_an_error_is_reported(
    simulated: SimulatedGateway,
) -> None:
    keys = iter(["stoker:old", KEY, KEY])
    client = GatewayClient(GatewayAddress.parse(simulated.url), lambda: Secret(next(keys)))
    assert await client.project_names()
    await client.aclose()
    assert [one.status for one in simulated.asked("GET", "projects/list")] == [401, 200]


async def test_a_key_that_stays_wrong_is_tried_once(simulated: SimulatedGateway) -> None:
    client = GatewayClient(GatewayAddress.parse(simulated.url), lambda: Secret("stoker:old"))
    with pytest.raises(Stalled) as refused:
        await client.project_names()
    await client.aclose()
    assert refused.value.reason is Reason.TOKEN_REJECTED
    assert len(simulated.asked("GET", "projects/list")) == 1


@pytest.mark.parametrize("text", ["", "secret-alone", "Bearer a:b", "a:b\nX-Other: c", "a:ä"])
async def test_no_malformed_key_is_sent_wherever_it_came_from(simulated: SimulatedGateway, text: str) -> None:
    client = GatewayClient(GatewayAddress.parse(simulated.url), lambda: Secret(text))
    with pytest.raises(Stalled) as refused:
        await client.project_names()
    await client.aclose()
    assert refused.value.reason is Reason.TOKEN_MALFORMED
    assert not simulated.requests


async def test_whether_a_key_may_write_is_found_out_without_writing(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    await gateway.may_write()
    assert await gateway.lock_info(ScanKind.PROJECTS) is False
    simulated.settings.keys["stoker"] = ApiKey(SECRET, write=False)
    with pytest.raises(Stalled, match="Gateway Write") as refused:
        await gateway.may_write()
    assert refused.value.reason is Reason.LEVEL_NOT_GRANTED
    simulated.settings.scan_lock = False
    with pytest.raises(PathNotOffered):
        await gateway.may_write()


async def test_a_gateway_that_was_not_commissioned_is_named(
    simulated: SimulatedGateway, gateway: GatewayClient
) -> None:
    simulated.settings.commissioned = False
    with pytest.raises(Retry) as new:
        await gateway.check()
    assert new.value.reason is Reason.NOT_COMMISSIONED
