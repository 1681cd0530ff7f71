"""The dashboard as processes serve it: a controller's replicas, a reverser, through the port, over TLS."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from stoker.domain.secrets import Secret
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.dashboard.rbac_environment import RbacEnvironment, SignedInBrowser
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.wait_until import eventually

PATIENCE = 45.0


@pytest.fixture
def house(kinds: ClusterAccess, namespace: str) -> RbacEnvironment:
    return RbacEnvironment(kinds, namespace, "")


def test_a_controller_serves_it_on_every_replica_over_tls(
    house: RbacEnvironment, tmp_path: Path, repositories: Path, git_http: GitHttpServer
) -> None:
    plant = Repository.create(repositories / "plant.git")
    plant.commit({"services/site/projects/site/project.json": "{}"})
    house.cluster.authority.server().save(tmp_path, "tls")
    trust = ssl.create_default_context(cafile=str(house.cluster.ca_file))
    ports = free_ports(2)
    with Site.prepare(house.cluster, house.namespace, tmp_path) as site:
        house.let_ask("stoker-controller")
        for port in ports:
            site.start(f"--dashboard-bind-address=127.0.0.1:{port}", f"--dashboard-cert-dir={tmp_path}")
        site.apply("Stoker", "line-1", git={"repo": git_http.url("plant.git"), "ref": "main"})
        editor = house.person("editor", "stoker-editor")
        browsers = [SignedInBrowser(port, trust) for port in ports]
        for browser in browsers:
            eventually(browser.answers, PATIENCE, site.tail)
            assert browser.ask("GET", "/api/picture")[0] == 401
            assert browser.sign_in(Secret("wrong")) == 401
            assert browser.sign_in(editor) == 200
            (cookie,) = browser.jar
            assert (cookie.secure, cookie.has_nonstandard_attr("HttpOnly")) == (True, True)
        seen = [eventually(browser.names, PATIENCE, site.tail) for browser in browsers]
        assert seen == [["line-1"], ["line-1"]], "also on the replica that does not lead"

        # What the account may not read is not shown, and logged once; everything else is there.
        logs = [one.read_text() for one in tmp_path.glob("controller-*.log")]
        failed = [[line for line in log.splitlines() if '"watch.failed"' in line] for log in logs]
        warned = [[line for line in each if '"level":"warning"' in line] for each in failed]
        assert [len([line for line in each if "gitdestinations" in line]) for each in warned] == [1, 1]

        fields = {"namespace": house.namespace, "kind": "Stoker", "name": "line-1"}
        assert browsers[1].ask("POST", "/api/actions", {"action": "pause", **fields})[0] == 200
        site.until("Stoker", "line-1", "Ready", "Paused")
        eventually(
            lambda: browsers[0].ask("GET", "/api/picture")[1]["resources"][0]["reason"] == "Paused",
            PATIENCE,
            site.tail,
        )
        status, result = browsers[0].ask("POST", "/api/actions", {"action": "stop"})
        assert (status, "ignition-sync-global-pause" in result["error"]) == (403, True)
        assert editor.reveal() not in "".join(one.read_text() for one in tmp_path.glob("*.log"))


@pytest.mark.smoke
def test_a_reverser_serves_it_too(house: RbacEnvironment, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    viewer = house.person("viewer", "stoker-viewer")
    house.apply("Stoker", "line-1", {"git": {"repo": "https://git.invalid/x.git", "ref": "main"}})
    with ReverserSite(house.cluster, house.namespace, tmp_path) as site:
        site.start(f"--dashboard-bind-address=127.0.0.1:{port}")
        browser = SignedInBrowser(port)
        eventually(browser.answers, PATIENCE, site.tail)
        assert browser.sign_in(viewer) == 200
        assert eventually(browser.names, PATIENCE, site.tail) == ["line-1"]


def test_a_dashboard_error_is_reported_and_the_process_goes_on(
    house: RbacEnvironment, tmp_path: Path, repositories: Path, git_http: GitHttpServer
) -> None:
    Repository.create(repositories / "plant.git").commit({"services/site/projects/site/project.json": "{}"})
    with Site.prepare(house.cluster, house.namespace, tmp_path) as site, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = site.start(f"--dashboard-bind-address=127.0.0.1:{taken.getsockname()[1]}")
        eventually(lambda: "for the dashboard" in process.tail(), PATIENCE, site.tail)
        site.apply("Stoker", "line-1", git={"repo": git_http.url("plant.git"), "ref": "main"}, paused=True)
        site.until("Stoker", "line-1", "Ready", "Paused")
        assert process.running


def test_a_network_that_is_none_ends_the_process_with_a_sentence(
    house: RbacEnvironment, tmp_path: Path
) -> None:
    with Site.prepare(house.cluster, house.namespace, tmp_path) as site:
        process = site.start("--dashboard-bind-address=127.0.0.1:0", "--dashboard-trusted-proxy=10.0.0.1/8")
        process.wait(PATIENCE)
        assert process.returncode == 2
        assert "trusted proxy" in process.tail()
