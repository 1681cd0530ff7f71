"""The dashboard in a controller's process reads the controller's caches: the audit log counts watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.chart.controller_rbac import CONTROLLER
from stoker_testkit.cluster import audit_log
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.dashboard.rbac_environment import RbacEnvironment, SignedInBrowser
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.processes import free_ports
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
CRDS = Path(__file__).parents[3] / "config" / "crd"
GIT = {"repo": "http://127.0.0.1:9/plant.git", "ref": "main"}
STOP = "ignition-sync-global-pause"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


@pytest.fixture(scope="module")
def plane(folder: Path) -> Iterator[ClusterAccess]:
    with ControlPlane.start(folder / "plane", apiserver_flags=audit_log.flags(folder)) as plane:
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        yield plane


@dataclass
class Fleet:
    """A namespace with two resources, and controllers with a dashboard each."""

    site: Site
    house: RbacEnvironment
    audited: Path

    def dashboard(self, *flags: str) -> SignedInBrowser:
        (port,) = free_ports(1)
        self.site.start(f"--dashboard-bind-address=127.0.0.1:{port}", *flags)
        browser = SignedInBrowser(port)
        eventually(browser.answers, PATIENCE, self.site.tail)
        assert browser.sign_in(self.house.token("editor")) == 200
        return browser

    def shows(self, browser: SignedInBrowser, **wanted: bool) -> None:
        """Wait until the page shows every resource, and which of them are paused."""

        def seen() -> bool:
            resources = browser.ask("GET", "/api/picture")[1]["resources"]
            return {one["name"]: one["paused"] for one in resources} == wanted

        eventually(seen, PATIENCE, self.site.tail)

    def watches(self) -> Counter[tuple[str, str]]:
        """The watch requests for what a page shows, by resource and, where only one is watched, by name."""
        asked = audit_log.asked(self.audited, CONTROLLER)
        mine = [one for one in asked if one.verb == "watch" and one.namespace == self.site.namespace]
        found = Counter((one.resource, one.name) for one in mine)
        shown = ("stokers", "ignitionsyncs", "gitdestinations", "gitrepoconfigs")
        return Counter({key: found[key] for key in found if key[0] in shown or key[1] == STOP})


@pytest.fixture
def fleet(plane: ClusterAccess, folder: Path, tmp_path: Path, request: Any) -> Iterator[Fleet]:
    name = f"plant-{request.node.name.split('[')[-1].rstrip(']')}"[:40].replace("_", "-")
    plane.create_namespace(name)
    house = RbacEnvironment(plane, name, "")
    with Site.prepare(plane, name, tmp_path) as site:
        house.let_ask(CONTROLLER)
        read = {"apiGroups": ["configbutler.ai"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
        house.grant("read", CONTROLLER, [read])
        house.person("editor", "stoker-editor")
        site.apply("Stoker", "line-1", labels={"team": "a"}, git=GIT)
        site.apply("IgnitionSync", "line-2", git=GIT, gateway={"filesOnly": True})
        yield Fleet(site, house, folder)


def pause(fleet: Fleet, kind: str, name: str) -> None:
    fleet.site.patch(fleet.site.path_of(kind, name), {"spec": {"paused": True}})


def changes_arrive(fleet: Fleet, *browsers: SignedInBrowser) -> None:
    """Every watch that a page needs has delivered a change."""
    for browser in browsers:
        fleet.shows(browser, **{"line-1": False, "line-2": False})
    pause(fleet, "Stoker", "line-1")
    pause(fleet, "IgnitionSync", "line-2")
    fleet.site.post("/api/v1", "configmaps", {"metadata": {"name": STOP}, "data": {"paused": "true"}})
    for browser in browsers:
        fleet.shows(browser, **{"line-1": True, "line-2": True})
        eventually(
            lambda browser=browser: browser.ask("GET", "/api/picture")[1]["stop"]["active"],  # type: ignore[misc]
            PATIENCE,
            fleet.site.tail,
        )


@pytest.mark.parametrize("shards", [1, 2], ids=["one-controller", "two-shards"])
def test_each_kind_is_watched_once_by_a_controller_with_a_dashboard(fleet: Fleet, shards: int) -> None:
    """Every shard caches all resources for its webhooks, so its page shows those of other shards too."""
    changes_arrive(fleet, *(fleet.dashboard(f"--shard={index}/{shards}") for index in range(shards)))
    assert fleet.watches() == {
        ("stokers", ""): shards,
        ("ignitionsyncs", ""): shards,
        ("configmaps", STOP): shards,
        ("gitdestinations", ""): shards,
        ("gitrepoconfigs", ""): shards,
    }


def test_a_dashboard_watches_for_itself_what_a_label_selector_hides_from_the_controller(fleet: Fleet) -> None:
    changes_arrive(fleet, fleet.dashboard("--watch-label-selector=team=a"))
    found = fleet.watches()
    assert (found["stokers", ""], found["ignitionsyncs", ""], found["configmaps", STOP]) == (2, 2, 1)
