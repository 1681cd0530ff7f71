"""Lock, write, scan, verify: the gateway around a pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.domain.errors import Retry
from stoker.domain.intent.policies import ScanOrder
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.addressing import GatewayAddress
from stoker.ignition.answers import LockRefused
from stoker.ignition.gateway import Gateway, ScanKind
from stoker.ignition.scanning import GatewayScan
from stoker.testing.gateway import KEY, SimulatedGateway
from stoker.testing.gateway_api import ApiKey
from stoker.testing.gateway_mind import Kind, State
from stoker.testing.http_fault_proxy import Answered, HttpFaultProxy

HASTE = 25.0


class HastyClock:
    """Real time, only faster: what waits ten seconds waits for less than half of one."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * HASTE

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / HASTE)


@dataclass(frozen=True, slots=True)
class Plan:
    actions: tuple[str, ...] = ("add",)


@dataclass(frozen=True, slots=True)
class Applied:
    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


CHANGED = Applied(modified=("projects/filler/project.json",))
NOTHING = Applied()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    add_project(folder, "filler")
    (folder / ".sync-state").mkdir(mode=0o700)
    return folder


def add_project(data: Path, name: str, manifest: str = "{}") -> None:
    folder = data / "projects" / name
    folder.mkdir(parents=True)
    (folder / "project.json").write_text(manifest)


@pytest.fixture
def gateway(data: Path) -> Iterator[SimulatedGateway]:
    with SimulatedGateway.start(data) as running:
        yield running


@pytest.fixture
async def scan(gateway: SimulatedGateway, data: Path) -> AsyncIterator[GatewayScan]:
    scan = scan_at(gateway.url, data)
    yield scan
    await scan.aclose()


def scan_at(url: str, data: Path, order: ScanOrder = ScanOrder.PROJECTS_FIRST) -> GatewayScan:
    client = Gateway(GatewayAddress.parse(url), lambda: Secret(KEY))
    return GatewayScan(client, data, order=order, clock=HastyClock())


def posts(gateway: SimulatedGateway) -> list[str]:
    return [one.path.removeprefix("/data/api/v1/") for one in gateway.requests if one.method == "POST"]


@pytest.mark.parametrize(
    ("order", "kinds"),
    [(ScanOrder.PROJECTS_FIRST, ("projects", "config")), (ScanOrder.CONFIG_FIRST, ("config", "projects"))],
)
async def test_locks_writes_scans_and_verifies_in_the_order_asked_for(
    gateway: SimulatedGateway, data: Path, order: ScanOrder, kinds: tuple[str, str]
) -> None:
    scan = scan_at(gateway.url, data, order)
    async with scan.around(Plan()):
        assert gateway.locked(Kind.PROJECTS)
        assert gateway.locked(Kind.CONFIG)
        add_project(data, "packer")
    assert await scan.after(Applied(added=("projects/packer/project.json",)), initial=False) == ()
    await scan.aclose()
    assert posts(gateway) == [*(f"scan-lock/{one}" for one in kinds), *(f"scan/{one}" for one in kinds)]
    assert gateway.projects.keys() == {"filler", "packer"}
    assert scan.outcome.lock == "held"
    assert scan.outcome.result == f"{kinds[0]}=200 {kinds[1]}=200"
    assert scan.outcome.trust == "plain HTTP"
    assert scan.outcome.verified


async def test_nothing_is_asked_when_nothing_changed(gateway: SimulatedGateway, scan: GatewayScan) -> None:
    async with scan.around(Plan(())):
        pass
    assert await scan.after(NOTHING, initial=False) == ()
    assert gateway.requests == []


async def test_a_gateway_that_was_not_started_yet_is_not_scanned(
    gateway: SimulatedGateway, scan: GatewayScan
) -> None:
    gateway.state = State.STARTING
    async with scan.around(Plan()):
        pass
    assert await scan.after(CHANGED, initial=True) == ()
    assert await scan.after(NOTHING, initial=False) == (), "and nothing is owed to it"
    assert posts(gateway) == []


async def test_an_older_gateway_is_synced_without_the_lock_and_it_is_said(
    gateway: SimulatedGateway, scan: GatewayScan
) -> None:
    gateway.settings.scan_lock = False
    async with scan.around(Plan()):
        pass
    assert await scan.after(CHANGED, initial=False) == ()
    assert scan.outcome.lock == "not offered by this gateway"


async def test_a_lock_in_other_hands_stops_the_pass_before_anything_is_written(
    gateway: SimulatedGateway, scan: GatewayScan, data: Path
) -> None:
    other = Gateway(GatewayAddress.parse(gateway.url), lambda: Secret(KEY))
    await other.lock(ScanKind.CONFIG, acquire=0, hold=60)
    await other.aclose()
    with pytest.raises(LockRefused) as refused:
        async with scan.around(Plan()):
            pytest.fail("the pass went on")
    assert isinstance(refused.value, Retry)
    assert refused.value.reason is Reason.SCAN_LOCK_HELD
    assert gateway.locked(Kind.CONFIG), "theirs is not ended"
    assert posts(gateway)[-1] == "scan/projects", "ours is given back"
    assert not (data / ".sync-state" / "scan-owed").exists()


async def test_a_lock_that_a_broken_pass_of_ours_left_is_still_ours(
    gateway: SimulatedGateway, scan: GatewayScan
) -> None:
    with pytest.raises(OSError, match="disk"):
        async with scan.around(Plan()):
            raise OSError("disk")
    async with scan.around(Plan()):
        pass
    assert await scan.after(CHANGED, initial=False) == ()
    assert scan.outcome.lock == "held"


async def test_files_are_written_while_the_gateway_is_down_and_the_scan_stays_owed(
    gateway: SimulatedGateway, scan: GatewayScan, data: Path
) -> None:
    gateway.state = State.FAULTED
    async with scan.around(Plan()):
        add_project(data, "packer")
    (note,) = await scan.after(CHANGED, initial=False)
    assert note.path == gateway.url
    assert note.why.startswith("GatewayFaulted: ")
    assert scan.outcome.lock.startswith("not taken: GatewayFaulted")
    assert not scan.outcome.verified

    gateway.state = State.RUNNING
    later = scan_at(gateway.url, data)  # another process, which has nothing to write
    assert await later.after(NOTHING, initial=False) == ()
    assert "packer" in gateway.projects
    before = len(gateway.requests)
    assert await later.after(NOTHING, initial=False) == ()
    assert len(gateway.requests) == before, "nothing is owed any more"
    await later.aclose()


async def test_a_scan_is_tried_three_times(gateway: SimulatedGateway, data: Path) -> None:
    with HttpFaultProxy.start(gateway.url) as proxy:
        scan = scan_at(proxy.url, data)
        proxy.arm(Answered(500), "/scan/projects", times=2)
        assert await scan.after(CHANGED, initial=False) == ()
        proxy.arm(Answered(500), "/scan/projects", times=3)
        (note,) = await scan.after(CHANGED, initial=False)
        assert "answered 500" in note.why
        await scan.aclose()
        assert len(proxy.seen("/scan/projects", method="POST")) == 6


async def test_a_polite_no_is_a_no(gateway: SimulatedGateway, scan: GatewayScan) -> None:
    gateway.settings.scan_refusal = "a restore is under way"
    (note,) = await scan.after(CHANGED, initial=False)
    assert note.why.endswith("a restore is under way")


async def test_a_missing_permission_is_told_at_once(gateway: SimulatedGateway, scan: GatewayScan) -> None:
    gateway.settings.keys["stoker"] = ApiKey("testing-secret", write=False)
    (note,) = await scan.after(CHANGED, initial=False)
    assert note.why.startswith("LevelNotGranted: ")
    assert posts(gateway) == ["scan/projects"]


async def test_a_project_that_the_gateway_does_not_show_is_named(
    gateway: SimulatedGateway, scan: GatewayScan, data: Path
) -> None:
    add_project(data, "broken", "{")
    add_project(data, ".hidden")
    (data / "projects" / "linked").symlink_to(data / "projects" / "filler")
    (data / "projects" / "no-project").mkdir()
    (note,) = await scan.after(CHANGED, initial=False)
    assert (note.path, "does not show it" in note.why) == ("projects/broken", True)
    assert scan.outcome.result == "projects=200 config=200"
    assert not scan.outcome.verified


async def test_a_removed_project_that_the_gateway_still_shows_is_named(
    gateway: SimulatedGateway, data: Path
) -> None:
    (data / "projects" / "filler" / "project.json").unlink()
    with HttpFaultProxy.start(gateway.url) as proxy:
        old = Answered(200, b'["filler"]', {"Content-Type": "application/json"})
        proxy.arm(old, "projects/list", times=None)
        scan = scan_at(proxy.url, data)
        (note,) = await scan.after(Applied(deleted=("projects/filler/project.json",)), initial=False)
        assert "still shows it" in note.why
        await scan.aclose()
