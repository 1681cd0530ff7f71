"""The page of a real `stoker sync --watch` in a real browser: every state of its gateway in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.environments.sync_watch_environment import WatchedFolder
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import known

from .screenshots import ScreenshotRun

pytestmark = pytest.mark.xdist_group("browser")

PATIENCE = 60_000
FILES = {f"s/{number}": "x" for number in range(120)}


@pytest.fixture
def site(tmp_path: Path, git_http: GitHttpServer) -> WatchedFolder:
    site = WatchedFolder(tmp_path, git_http)
    (tmp_path / "key").write_text(KEY)
    site.repository.commit({**FILES, "s/project.json": "{}"})
    return site


@contextmanager
def opened(site: WatchedFolder, open_page: OpenPage, *more: str) -> Iterator[Page]:
    """The page of a watch that looks at the ref and at the disk every second."""
    flags = ("--dashboard-address=127.0.0.1:0", "--gateway-name=filler", "--drift=report", *more)
    with site.watching(*flags, "--drift-interval=1s", "--deletion-budget=50,50", interval="1s") as watching:
        port = watching.until_logged("dashboard.listening")["port"]
        watching.until_logged("dashboard.open")  # the token lies there
        token = known("dashboard-token", (site.data / ".sync-state/dashboard-token").read_text().strip())
        yield open_page(f"http://127.0.0.1:{port}", token=token)


def headline(page: Page, words: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(words, timeout=PATIENCE)


def test_every_state_of_the_gateway_is_shown_without_a_table(
    site: WatchedFolder, open_page: OpenPage
) -> None:
    away = site.repository.path.with_name("away")
    site.repository.path.rename(away)
    with SimulatedGateway.start(site.data, scan_seconds=0.0) as gateway:
        key = f"--api-key-file={site.place / 'key'}"
        with opened(site, open_page, f"--gateway={gateway.url}", key) as page:
            look, more, lone = (
                ScreenshotRun(page, whole=True),
                page.locator("#verdict-more"),
                page.locator("#lone"),
            )
            headline(page, "Syncing filler failed")
            expect(more).to_have_text("Never synced. Stoker retries automatically.")
            expect(lone.locator(".trouble")).to_contain_text("plant.git/' not found")  # to its end
            expect(page.locator("#gateways, #tally, #tools").filter(visible=True)).to_have_count(0)
            look("watch-first-sync-failed")

            away.rename(site.repository.path)
            headline(page, "filler is in sync")
            expect(more).to_contain_text(f"At main {site.repository.tip()[:8]}")
            look("watch-in-step")
            lone.get_by_role("link", name="History and snapshots").press("Enter")
            side = page.get_by_role("complementary")
            expect(side.get_by_role("heading", level=2)).to_be_focused()
            expect(side).to_contain_text("122 files")
            page.keyboard.press("Escape")
            expect(lone.get_by_role("link", name="History and snapshots")).to_be_focused()

            (site.data / "projects/P/a").write_text("mine")
            headline(page, "filler drifted from git")
            expect(lone).to_contain_text("projects/P/a")
            look("watch-drift")
            (site.data / "projects/P/a").write_text("1")
            headline(page, "filler is in sync")

            site.repository.commit(dict.fromkeys(FILES))
            headline(page, "filler is waiting for approval")
            approval = page.locator("#approvals")
            expect(approval).to_contain_text("120 files (first: projects/P/0) would be deleted")
            expect(page.locator("[data-standing=failed]").filter(visible=True)).to_have_count(0)
            look("watch-deletion-guard")
            approval.get_by_role("button", name="Approve…").click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text("The approval is valid for this plan only")
            dialog.get_by_role("button", name="Approve").click()
            headline(page, "filler is in sync")

            site.repository.path.rename(away)
            headline(page, "Syncing filler failed")
            expect(more).to_contain_text(f"Last delivered: main {str(Repository(away).tip())[:8]}")
            look("watch-source-unreachable")
            away.rename(site.repository.path)
            headline(page, "filler is in sync")

            gateway.settings.scan_refusal = "another scan is at work"
            site.repository.commit({"s/project.json": '{"title": "new"}'})
            headline(page, "Syncing filler failed")
            expect(lone.locator(".trouble")).to_contain_text("another scan is at work")
            look("watch-not-verified")
            gateway.settings.scan_refusal = ""
            headline(page, "filler is in sync")

            lone.get_by_role("button", name="Pause").press("Enter")
            headline(page, "Syncing filler is paused")
            expect(lone.get_by_role("button", name="Resume")).to_be_focused()
            expect(lone.get_by_role("button", name="Sync now")).to_have_count(0)
            expect(page.locator("#notices [role=status]")).to_have_count(1)
            look("watch-paused")
            lone.get_by_role("button", name="Resume").click()
            headline(page, "filler is in sync")
            page.get_by_role("button", name="Emergency stop").click()
            expect(page.get_by_role("dialog")).to_contain_text(
                "The gateway keeps running on its current files"
            )
            page.get_by_role("button", name="Stop everything now").click()
            expect(page.locator("#stopped")).to_contain_text("Nothing is delivered to the gateway")
            headline(page, "Syncing filler is stopped")
            look("watch-stopped")
    assert look.wrong == {}
