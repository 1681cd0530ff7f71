"""Alerts of a real controller on a real API server, over TLS, to services that check what they are sent."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.protocol import SyncState
from stoker_testkit.certificates import Authority
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.alert_receivers import ROUTING_KEY, AlertServices
from stoker_testkit.services.http_proxy import HttpProxy
from stoker_testkit.wait_until import eventually

SECRETS = (*map(planted, ("slack", "teams", "webhook", "sig")), ROUTING_KEY)


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AlertServices]:
    """Behind an authority that only the process's own variable names."""
    authority = Authority()
    (tmp_path / "authorities.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authorities.pem"))
    with AlertServices.start(authority.server().save(tmp_path, "services")) as made:
        yield made
    assert made.complaints == []


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path, services: AlertServices) -> Iterator[Site]:
    made = Site.prepare(kinds, namespace, tmp_path)
    made.secret(
        "alerts", key=ROUTING_KEY, **{name: services.url(name) for name in ("slack", "teams", "webhook")}
    )
    yield made
    made.stop()
    for process in made.running:
        log = process.log.read_text()
        assert not [secret for secret in SECRETS if secret in log]


@pytest.fixture
def plant(repositories: Path, git_http: GitHttpServer) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"services/site/projects/site/project.json": "{}"})
    return repository


def target(kind: str, *on: str) -> dict[str, Any]:
    field, key = ("integrationKeySecretRef", "key") if kind == "pagerduty" else ("urlSecretRef", kind)
    return {"type": kind, field: {"name": "alerts", "key": key}, **({"on": list(on)} if on else {})}


def apply(site: Site, url: str, *targets: dict[str, Any], paused: bool = False) -> None:
    alerting = {"enabled": True, "webhooks": list(targets)}
    git = {"repo": url, "ref": "main"}
    site.apply("Stoker", "line", git=git, polling={"interval": "1s"}, alerting=alerting, paused=paused)


def until_heard(services: AlertServices, service: str, site: Site, **wanted: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        heard = services.heard(service)
        return [one for one in heard if all(one.get(name) == value for name, value in wanted.items())]

    return eventually(
        found, PATIENCE, lambda: f"{service} hears {wanted}: {services.heard(service)}\n{site.tail()}"
    )[0]


def test_a_failed_sync_alerts_all_and_its_end_the_paging_services(
    site: Site, plant: Repository, git_http: GitHttpServer, services: AlertServices
) -> None:
    targets = [target(kind) for kind in ("slack", "teams", "pagerduty", "webhook")]
    apply(site, git_http.url("plant.git"), *targets)
    pod = site.pod("gateway-0", "line", gateway="north")
    (port,) = free_ports(1)
    site.start(
        f"--pagerduty-url={services.pagerduty_url}",
        "--cluster-name=plant-1",
        f"--metrics-bind-address=127.0.0.1:{port}",
    )
    site.until_metadata("line", commit=plant.tip())
    pod.report(status=SyncState.ERROR, reason="ConfigSyntaxError", error_message="view.json is no JSON")
    alert = until_heard(services, "webhook", site, reason="SyncFailed", status="firing")
    assert (alert["gateway"], alert["cause"], alert["cluster"]) == ("north", "ConfigSyntaxError", "plant-1")
    assert "view.json is no JSON" in alert["message"]
    until_heard(services, "pagerduty", site, event_action="trigger", dedup_key=alert["key"])
    eventually(lambda: services.heard("slack") and services.heard("teams"), PATIENCE, site.tail)
    assert "view.json is no JSON" in json.dumps(services.heard("slack"))

    pod.report(plant.tip())
    until_heard(services, "webhook", site, reason="SyncFailed", status="resolved", key=alert["key"])
    until_heard(services, "pagerduty", site, event_action="resolve", dedup_key=alert["key"])
    assert len(services.heard("slack")) == 1

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    sent = [line for line in lines if line.startswith("ignition_sync_alerts_total{")]
    assert any(
        'kind="pagerduty"' in line and 'result="sent"' in line and line.endswith(" 2.0") for line in sent
    )


def test_a_pause_and_a_pod_without_agent_are_alerted(
    site: Site, plant: Repository, git_http: GitHttpServer, services: AlertServices
) -> None:
    url = git_http.url("plant.git")
    apply(site, url, target("slack"), target("webhook", "InjectionFailed", "Paused"))
    site.pod("gateway-0", "line", injected=False)
    site.start()
    assert "gateway-0" in until_heard(services, "webhook", site, reason="SidecarMissing")["message"]
    apply(site, url, target("slack"), target("webhook", "InjectionFailed", "Paused"), paused=True)
    paused = until_heard(services, "webhook", site, reason="Paused")
    assert "spec.paused is true" in paused["message"]
    eventually(lambda: len(services.heard("slack")) == 2, PATIENCE, site.tail)


def test_a_target_that_cannot_be_reached_is_named_on_the_resource_and_nothing_waits_for_it(
    site: Site, plant: Repository, git_http: GitHttpServer, services: AlertServices
) -> None:
    services.fail("slack", 403, times=10)
    services.fail("webhook", 0, times=1)
    apply(site, git_http.url("plant.git"), target("slack"), target("webhook"))
    pod = site.pod("gateway-0", "line", gateway="north")
    site.start()
    site.until_metadata("line", commit=plant.tip())
    pod.report(status=SyncState.ERROR, reason="ConfigSyntaxError", error_message="no JSON")
    site.until_event("AlertFailed", "alert SyncFailed to slack (key 'slack' of Secret 'alerts')")
    assert "not now" not in str(site.events()), "the body of an answer is nothing for those who read Events"
    newer = plant.commit({"README.md": "while one service keeps silent"})
    site.until_metadata("line", commit=newer)
    shown = json.dumps([site.events(), site.get("Stoker", "line")])
    assert not [secret for secret in SECRETS if secret in shown]
    assert len([one for one in site.events() if one[1] == "AlertFailed"]) == 1


def test_alerts_leave_through_the_proxy_of_the_process(
    site: Site,
    plant: Repository,
    git_http: GitHttpServer,
    services: AlertServices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = git_http.url("plant.git")
    with HttpProxy.start() as proxy:
        monkeypatch.setenv("https_proxy", proxy.address)
        monkeypatch.setenv("no_proxy", "")
        apply(site, url, target("webhook"), paused=True)
        site.start()
        until_heard(services, "webhook", site, reason="Paused")
        port = services.base.rpartition(":")[2]
        assert any(passage.target == f"127.0.0.1:{port}" for passage in proxy.passages)


def test_a_service_of_the_machine_is_not_called_unless_the_installation_allows_it(
    site: Site, git_http: GitHttpServer, services: AlertServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_EGRESS_ALLOW", "")
    apply(site, git_http.url("plant.git"), target("webhook", "Paused"), paused=True)
    site.start()
    site.until_event("AlertFailed", "127.0.0.1 leads to a loopback address and is not connected to")
    assert services.heard("webhook") == []


def test_a_repository_of_the_machine_is_not_fetched_unless_the_installation_allows_it(
    site: Site, plant: Repository, git_http: GitHttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_EGRESS_ALLOW", "")
    apply(site, git_http.url("plant.git"))
    site.start()
    site.until("Stoker", "line", "RepoCloned", "EgressRefused")
    assert git_http.requests == []
