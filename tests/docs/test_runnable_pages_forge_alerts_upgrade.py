"""Pages that are played with more than a plant: a forge, services that alert people, a release that goes.

What such a page promises to others than its reader is looked at when the play is over.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker_testkit.docs_checks.markdown_page import all_pages
from stoker_testkit.docs_runner.forge_and_alerts_environment import STAGES, ForgeAndAlerts
from stoker_testkit.docs_runner.section_runner import DocsSection, play_and_check, plays
from stoker_testkit.docs_runner.upgrade_environment import STAGE, UpgradedMachine
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("documents")

PLAYS = plays(all_pages())
SECONDS, PATIENCE = 150.0, 30.0
HERE = {
    "docs/how-to/alert-people.md#alert-to-slack-pagerduty-teams",
    "docs/how-to/take-an-edit-back-to-git.md#take-a-designers-edit-back-to-git",
    "docs/how-to/upgrade-and-uninstall.md#upgrade",
    "docs/how-to/upgrade-and-uninstall.md#upgrade-on-a-machine",
    "docs/how-to/upgrade-and-uninstall.md#uninstall",
}
LONG = {"docs/how-to/upgrade-and-uninstall.md#upgrade"}
FOLDER = "nowhere"
"""What the page about alerts names and git does not have."""
PROJECT = "projects/filler/project.json"


def by_name(play: DocsSection) -> str:
    return play.name


def test_these_pages_are_played_here() -> None:
    assert {one.name for one in PLAYS if one.stage in (*STAGES, STAGE)} == HERE


def all_chats_are_notified(stage: ForgeAndAlerts) -> None:
    """Once while it lasts, and PagerDuty also of its end."""
    services = stage.services

    def keys(action: str) -> list[str]:
        return [one["dedup_key"] for one in services.heard("pagerduty") if one["event_action"] == action]

    begun = eventually(lambda: sorted(keys("trigger")), PATIENCE, stage.describe)
    eventually(lambda: sorted(keys("resolve")) == begun, PATIENCE, lambda: f"{begun} end: {stage.describe()}")
    assert len(set(begun)) == len(begun)
    for chat in ("slack", "teams"):  # the others of its Warnings are not what the page tries
        alert = [one for one in services.heard(chat) if FOLDER in json.dumps(one)]
        assert len(alert) == len(begun), f"{chat}: {services.heard(chat)}"
    assert services.complaints == []


def the_edit_is_in_git(stage: ForgeAndAlerts) -> None:
    assert stage.forge is not None
    found = stage.forge.request("GET", f"/contents/services/filler/{PROJECT}?ref=main")
    assert "Edited by hand" in base64.b64decode(found["content"]).decode()
    assert "Edited by hand" in (stage.data("filler") / PROJECT).read_text()
    newest = {one["name"]: one["syncHistory"][0] for one in stage.status()["discoveredGateways"]}
    assert {name: one["filesChanged"] for name, one in newest.items()} == {"filler": 0, "packer": 0}


def gateways_run_on(stage: ForgeAndAlerts) -> None:
    """With their files, and with nothing of ours but what the page names."""
    eventually(lambda: not stage.left_behind(), PATIENCE, lambda: f"all to go: {stage.left_behind()}")
    assert not stage.programs
    assert stage.ready_pods() == ["filler", "packer"]
    assert (stage.data("filler") / PROJECT).exists()
    hidden = {path.name for path in stage.data("filler").iterdir() if path.name.startswith(".sync")}
    assert hidden == {".sync-state"}


PROMISES: dict[str, Callable[[ForgeAndAlerts], None]] = {
    "docs/how-to/alert-people.md#alert-to-slack-pagerduty-teams": all_chats_are_notified,
    "docs/how-to/take-an-edit-back-to-git.md#take-a-designers-edit-back-to-git": the_edit_is_in_git,
    "docs/how-to/upgrade-and-uninstall.md#uninstall": gateways_run_on,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForgeAndAlerts]:
    with ForgeAndAlerts(tmp_path_factory.mktemp("cluster")) as stage:
        yield stage


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, marks=[pytest.mark.long] if one.name in LONG else [])
        for stage in STAGES
        for one in PLAYS
        if one.stage == stage
    ],
    ids=by_name,
)
def test_a_page_is_played_beside_others(one: DocsSection, cluster: ForgeAndAlerts) -> None:
    cluster.set_up(one.stage)
    play_and_check(one, cluster, SECONDS)
    promise = PROMISES.get(one.name)
    if promise is not None:
        promise(cluster)


@pytest.mark.long  # it builds the wheel
@pytest.mark.parametrize("one", [one for one in PLAYS if one.stage == STAGE], ids=by_name)
def test_a_page_is_played_on_a_machine_with_an_older_release(one: DocsSection, tmp_path: Path) -> None:
    with UpgradedMachine(tmp_path) as stage:
        play_and_check(one, stage, SECONDS)
