"""The dashboard of a real `stoker sync --watch`: what it shows, and what it lets people do."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stoker_testkit.dashboard.api_client import DashboardClient
from stoker_testkit.environments.sample_manifests import line_manifests
from stoker_testkit.environments.sync_watch_environment import PATIENCE, WatchedFolder, WatchProcess
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import known, planted
from stoker_testkit.wait_until import eventually, eventually_async

ON = "--dashboard-address=127.0.0.1:0"
ME = {"namespace": "local", "kind": "Folder", "name": "filler"}
PATH = "/api/gateways/local/Folder/filler/filler"


@pytest.fixture
def site(tmp_path: Path, git_http: GitHttpServer) -> WatchedFolder:
    return WatchedFolder(tmp_path, git_http)


def token_of(site: WatchedFolder) -> str:
    return known("dashboard-token", (site.data / ".sync-state/dashboard-token").read_text().strip())


class Page:
    """A dashboard with a signed-in user."""

    def __init__(self, watching: WatchProcess) -> None:
        self.watching = watching
        self.site = watching.site
        port = watching.until_logged("dashboard.listening")["port"]
        watching.until_logged("dashboard.open")  # the token lies there
        self.visit = DashboardClient(f"http://127.0.0.1:{port}")

    async def __aenter__(self) -> Page:
        await self.visit.__aenter__()
        assert (await self.visit.sign_in(token_of(self.site))).status == 200
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.visit.__aexit__()

    async def resource(self) -> dict[str, Any]:
        (found,) = (await self.visit.get("/api/picture")).json["resources"]
        assert isinstance(found, dict)
        return found

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        async def holds() -> object:
            self.watching.alive()
            seen.update(await self.resource())
            return condition(seen)

        await eventually_async(holds, PATIENCE, lambda: json.dumps(seen, indent=1))
        return seen

    async def done(self, action: str, of: dict[str, str] = ME, **more: str) -> str:
        response = await self.visit.order(action=action, **of, **more)
        assert response.status == 200, response.body
        return str(response.json["message"])


@pytest.fixture
def watching(site: WatchedFolder) -> Iterator[WatchProcess]:
    with site.watching(ON, "--gateway-name=filler") as watching:
        watching.until_logged("sync.done")
        yield watching


@pytest_asyncio.fixture
async def page(watching: WatchProcess) -> AsyncIterator[Page]:
    async with Page(watching) as page:
        yield page


def synced(resource: dict[str, Any]) -> bool:
    return bool(resource["ready"] == "True")


async def test_it_shows_the_folder_and_follows_what_happens(page: Page) -> None:
    resource = await page.until(synced)
    head = page.site.repository.tip()
    assert resource["id"] == "local/Folder/filler"
    assert resource["ref"] == "main"
    assert resource["commit"] == head
    assert resource["lastSync"]
    (gateway,) = resource["gateways"]
    assert gateway["state"] == "Synced"
    assert gateway["commit"] == head
    async with page.visit.events() as events:
        assert (await anext(events)).data["mode"] == "standalone"
        newer = page.site.repository.commit({"s/a": "2", "s/<b>": "html"})
        assert "looked at" in await page.done("sync")
        async for event in events:
            if event.data["resources"] and event.data["resources"][0]["commit"] == newer:
                break
    past = (await page.visit.get(PATH)).json
    newest = past["history"][0]
    assert newest["commit"] == newer
    assert newest["result"] == "success"
    assert newest["filesChanged"] == 2
    assert newest["diff"]["fromCommit"] == head
    assert {(one["action"], one["path"]) for one in newest["diff"]["changes"]} == {
        ("modified", "projects/P/a"),
        ("added", "projects/P/<b>"),
    }
    async with page.visit.events() as events:
        await anext(events)
        assert page.watching.stop() == 0, "an open page holds nothing up"
    assert "Traceback" not in page.site.log.read_text()


async def test_paused_it_follows_nothing_until_it_is_resumed(page: Page) -> None:
    await page.until(synced)
    assert "Paused" in await page.done("pause")
    paused = await page.until(lambda one: one["paused"])
    assert paused["reason"] == "Paused"
    assert "over a restart" in paused["message"]
    page.site.repository.commit({"s/a": "2"})
    refused = await page.visit.order(action="sync", **ME)
    assert (refused.status, refused.json["reason"]) == (409, "Paused")
    assert page.site.content() == "1"
    assert await page.done("resume") == "Resumed."
    page.watching.until("a", "2")
    await page.until(lambda one: not one["paused"] and synced(one))


async def test_stopped_nothing_begins_until_it_goes_on(page: Page) -> None:
    first = page.site.repository.tip()
    page.site.repository.commit({"s/a": "2"})
    await page.done("sync")
    page.watching.until("a", "2")
    await page.done("stop", {})
    page.watching.until_logged("sync.paused")
    assert (await page.visit.get("/api/picture")).json["stop"]["active"]
    for order in ({"action": "sync"}, {"action": "rollback", "toCommit": first}):
        refused = await page.visit.order(**order, **ME)
        assert refused.status == 409
        assert "stopped" in refused.error
    page.site.repository.commit({"s/a": "3"})
    page.watching.signal(signal.SIGUSR1)
    assert page.site.content() == "2"
    await page.done("goOn", {})
    page.watching.until("a", "3")
    assert not (await page.visit.get("/api/picture")).json["stop"]["active"]


async def test_it_rolls_back_to_a_commit_and_stays_there_until_it_is_released(page: Page) -> None:
    await page.until(synced)
    first = page.site.repository.tip()
    second = page.site.repository.commit({"s/a": "2"})
    await page.done("sync")
    page.watching.until("a", "2")
    assert "stay there" in await page.done("rollback", toCommit=first)
    assert page.site.content() == "1"
    held = await page.until(lambda one: one["rollback"])
    assert held["rollback"]["toCommit"] == first
    assert held["rollback"]["state"] == "Succeeded"
    assert held["commit"] == first
    assert "release" in held["may"]
    await page.done("sync")
    assert page.watching.until_logged("sync.failed")["reason"] == "RolledBack"
    assert page.site.content() == "1"
    assert (await page.until(synced))["reason"] == "RolledBack"
    assert "Ended the rollback" in await page.done("release")
    page.watching.until("a", "2")
    await page.until(lambda one: one["rollback"] is None and one["commit"] == second)


async def test_it_rolls_back_while_it_is_paused_and_follows_nothing_for_that(page: Page) -> None:
    await page.until(synced)
    first = page.site.repository.tip()
    page.site.repository.commit({"s/a": "2"})
    await page.done("sync")
    page.watching.until("a", "2")
    await page.done("pause")
    page.site.repository.commit({"s/a": "3"})
    await page.done("rollback", toCommit=first)
    assert page.site.content() == "1"
    assert (await page.resource())["paused"]
    await page.done("release")
    assert page.site.content() == "1"


async def test_a_rollback_to_nowhere_is_refused_in_a_sentence(page: Page) -> None:
    await page.until(synced)
    for order, status in (
        ({"toCommit": "0" * 40}, 409),
        ({"toSnapshot": "filler-20260101-000000"}, 409),
        ({"toCommit": "main"}, 400),
        ({"toSnapshot": "../../etc"}, 400),
        ({}, 400),
        ({"toCommit": "0" * 40, "toSnapshot": "x"}, 400),
    ):
        response = await page.visit.order(action="rollback", **order, **ME)
        assert response.status in (status, 502), (order, response.body)
        assert response.error
    assert page.site.content() == "1"
    await page.done("sync")
    await page.until(synced)


async def test_orders_about_something_else_are_refused(page: Page) -> None:
    await page.until(synced)
    for other in ({**ME, "name": "packer"}, {**ME, "namespace": "plant"}, {**ME, "gateway": "packer"}):
        assert (await page.visit.order(action="pause", **other)).status == 404
    assert (await page.visit.get("/api/gateways/local/Folder/filler/packer")).status == 404
    assert not (await page.resource())["paused"]


async def test_drift_is_shown_and_a_plan_that_a_guard_holds_back_can_be_approved(
    site: WatchedFolder,
) -> None:
    site.repository.commit({f"s/{number}": "x" for number in range(120)})
    more = ("--gateway-name=filler", "--drift=report", "--drift-interval=1s", "--deletion-budget=50,50")
    with site.watching(ON, *more) as watching:
        watching.until_logged("sync.done")
        async with Page(watching) as page:
            (site.data / "projects/P/a").write_text("mine")
            drifted = await page.until(lambda one: one["gateways"][0]["drift"])
            assert drifted["gateways"][0]["driftPaths"] == ["projects/P/a"]
            site.repository.commit({f"s/{number}": None for number in range(120)})
            await page.done("sync")
            waiting = await page.until(lambda one: one["approval"])
            plan = waiting["approval"]
            assert waiting["reason"] == "DeletionBudgetExceeded"
            assert "approve" in waiting["may"]
            assert plan["deleted"] == 120
            wrong = await page.visit.order(action="approve", digest="0" * 64, **ME)
            assert wrong.status == 409
            assert (site.data / "projects/P/7").exists()
            await page.done("approve", digest=plan["digest"])
            eventually(lambda: not (site.data / "projects/P/7").exists(), PATIENCE, "the plan is carried out")
            await page.until(lambda one: one["approval"] is None and synced(one))


async def test_a_resource_with_snapshots_offers_them_and_its_past_outlives_the_process(
    site: WatchedFolder,
) -> None:
    file = site.place / "line.yaml"
    lines = "polling: {interval: 1h}", "snapshots: {enabled: true}"
    file.write_text(
        line_manifests(site.url, *lines, name="line-1", profile="filler", destination="projects/P")
    )
    me = {"namespace": "default", "kind": "Stoker", "name": "line-1"}
    path = "/api/gateways/default/Stoker/line-1/filler"
    flags = (f"-f{file}", ON, "--gateway-name=filler", "--files-only")
    with site.watching(*flags, flags=False) as watching:
        watching.until("a", "1")
        async with Page(watching) as page:
            second = site.repository.commit({"s/a": "2"})
            await page.done("sync", me)
            watching.until("a", "2")

            async def snapshots() -> Any:
                return (await page.visit.get(path)).json["snapshots"]

            newest = (await eventually_async(snapshots, PATIENCE, "a snapshot is listed"))[0]
            assert newest["size"] == 1
            await page.done("rollback", me, toSnapshot=newest["id"])
            assert site.content() == "1"
            assert (await page.until(lambda one: one["rollback"]))["rollback"]["toSnapshot"] == newest["id"]
            await page.done("release", me)
            await page.until(lambda one: one["commit"] == second)
            before = (await page.visit.get(path)).json["history"]
        assert watching.stop() == 0
    site.log = site.place / "second-log"
    with site.watching(*flags, flags=False) as watching:
        watching.until_logged("sync.done")
        async with Page(watching) as page:
            resource = await page.until(synced)
            assert resource["commit"] == second
            history = (await page.visit.get(path)).json["history"]
            assert [one["commit"] for one in history[:2]] == [one["commit"] for one in before[:2]]
            assert [one["number"] for one in history] == list(range(1, len(history) + 1))


def test_the_token_is_private_and_goes_with_the_process(site: WatchedFolder, watching: WatchProcess) -> None:
    file = site.data / ".sync-state/dashboard-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(token_of(site)) >= 40
    assert token_of(site) not in site.log.read_text()
    opened = watching.until_logged("dashboard.open")
    assert opened["token_file"] == str(file)
    assert watching.stop() == 0
    assert not file.exists()


async def test_a_token_of_ones_own_is_read_again_when_it_is_replaced(site: WatchedFolder) -> None:
    file = site.place / "token"
    file.write_text(planted("dashboard-1") + "\n")
    with site.watching(ON, f"--dashboard-token-file={file}") as watching:
        port = watching.until_logged("dashboard.listening")["port"]
        async with DashboardClient(f"http://127.0.0.1:{port}") as visit:
            assert (await visit.sign_in(planted("dashboard-1"))).status == 200
            file.write_text(planted("dashboard-2") + "\n")
            assert (await visit.sign_in(planted("dashboard-1"))).status == 401
            assert (await visit.sign_in(planted("dashboard-2"))).status == 200
        assert not (site.data / ".sync-state/dashboard-token").exists()
        assert "of-mine" not in site.log.read_text()


async def test_a_name_that_leads_here_is_ours_only_if_it_was_given(site: WatchedFolder) -> None:
    with site.watching(ON, "--dashboard-host=plant.example.net") as watching:
        port = watching.until_logged("dashboard.listening")["port"]
        async with DashboardClient(f"http://127.0.0.1:{port}") as visit:
            assert (await visit.get("/", Host=f"plant.example.net:{port}")).status == 200
            assert (await visit.get("/", Host=f"localhost:{port}")).status == 200
            response = await visit.get("/", Host="rebound.example")
            assert response.status == 421
            assert "--dashboard-host" in response.error


@contextmanager
def taken(site: WatchedFolder, *more: str) -> Iterator[WatchProcess]:
    with site.watching(ON) as first:
        port = first.until_logged("dashboard.listening")["port"]
        site.log = site.place / "second-log"
        other = site.place / "other-data"
        other.mkdir()
        here = f"--dashboard-address=127.0.0.1:{port}"
        with site.watching(here, f"--data-dir={other}", *more) as second:
            yield second


def test_an_address_that_is_taken_ends_no_sync(site: WatchedFolder) -> None:
    with taken(site) as second:
        off = second.until_logged("dashboard.off")
        assert "for the dashboard" in str(off["why"])
        assert off["again_in"] == 30
        second.until_logged("sync.done")
        assert token_of(site), "the one who has the page keeps its token"
        assert second.stop() == 0


@pytest.mark.parametrize("address", [ON, "--dashboard-address=0"])
async def test_a_stop_outlives_the_process_with_and_without_a_page(
    site: WatchedFolder, page: Page, address: str
) -> None:
    await page.until(synced)
    assert "over a restart" in await page.done("stop", {})
    assert page.watching.stop() == 0
    site.repository.commit({"s/a": "2"})
    site.log = site.place / "second-log"
    with site.watching(address, "--gateway-name=filler") as watching:
        held = watching.until_logged("dashboard.holds_still")
        assert held["note"] == str(site.data / ".sync-state/dashboard-stopped")
        watching.until_logged("sync.paused")
        assert site.content() == "1"
        if address == ON:
            async with Page(watching) as again:
                assert (await again.visit.get("/api/picture")).json["stop"]["active"]
                await again.done("goOn", {})
                watching.until("a", "2")
        assert watching.stop() == 0
    assert (site.data / ".sync-state/dashboard-stopped").exists() == (address != ON)


def test_a_token_that_could_be_guessed_is_wrong_input(site: WatchedFolder) -> None:
    (site.place / "short").write_text("1234\n")
    with site.watching(ON, f"--dashboard-token-file={site.place / 'short'}") as watching:
        assert watching.process.wait(PATIENCE)
        assert watching.process.returncode == 2
        assert "fewer than 16 characters" in site.log.read_text()
    assert list(site.data.iterdir()) == []
