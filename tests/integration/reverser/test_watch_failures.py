"""Watches that break: what is noticed, what is reported, and that nothing is deleted by mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import ReverserSite, files_of, metric_of
from stoker_testkit.wait_until import eventually

RBAC = "rbac.authorization.k8s.io/v1"


def refusal(code: int, reason: str) -> AnsweredFault:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    words = {403: 'services is forbidden: User "reverser" cannot list resource "services"'}
    body = json.dumps({**status, "message": words.get(code, f"no: {reason}")}).encode()
    return AnsweredFault(code, body, {"Content-Type": "application/json"})


@pytest.fixture
def proxied(kinds: ClusterAccess, http_fault_proxy: HttpFaultProxy) -> Path:
    return kinds.kubeconfig(server=http_fault_proxy.url)


def test_an_expired_watch_is_listed_anew_and_what_went_meanwhile_is_swept(
    site: ReverserSite, prod: Repository, http_fault_proxy: HttpFaultProxy, proxied: Path
) -> None:
    site.follow_maps()
    for name in ("stays", "goes"):
        site.config_map(name)
    site.start(kubeconfig=proxied)
    site.until_files(prod, {site.map_path(name): "value" for name in ("stays", "goes")})
    watch = rf"/namespaces/{site.namespace}/configmaps\?.*watch=true"
    http_fault_proxy.arm(refusal(410, "Expired"), watch, times=None)
    http_fault_proxy.arm(
        refusal(503, "ServiceUnavailable"), rf"{site.namespace}/configmaps\?limit", times=None
    )
    http_fault_proxy.inject(Fault(FaultKind.RESET))
    site.delete("ConfigMap", "goes")
    site.config_map("comes")
    site.config_map("stays", {"key": "changed"})
    site.until("WatchRule", "maps", "APIServerError", "WatchErrored")
    assert set(files_of(prod)) >= {site.map_path("goes")}, "a list that fails says nothing"
    http_fault_proxy.lift()
    wanted = {site.map_path("goes"): None, site.map_path("comes"): "value", site.map_path("stays"): "changed"}
    site.until_files(prod, wanted)
    site.until("WatchRule", "maps", "NoneFound", "WatchErrored")


def test_a_watch_that_expires_again_and_again_is_reported_and_its_objects_are_written_all_the_same(
    site: ReverserSite, prod: Repository, http_fault_proxy: HttpFaultProxy, proxied: Path
) -> None:
    watch = rf"/namespaces/{site.namespace}/configmaps\?.*watch=true"
    http_fault_proxy.arm(refusal(410, "Expired"), watch, times=None)
    site.follow_maps()
    site.config_map("prices")
    site.start(kubeconfig=proxied)
    message = site.until("WatchRule", "maps", "ResourceVersionExpired", "WatchErrored")
    assert "1 of 1 watch fails" in message
    site.until("WatchRule", "maps", "ResourceVersionExpired")
    site.until_event("WatchRule", "ResourceVersionExpired")
    site.config_map("prices", {"key": "later"})
    site.until_files(prod, {site.map_path("prices"): "later"})  # by the lists
    http_fault_proxy.lift()
    site.until("WatchRule", "maps", "NoneFound", "WatchErrored")
    site.until("WatchRule", "maps", "Initialized")


def test_a_kind_that_may_not_be_listed_is_reported_and_the_others_go_on(
    site: ReverserSite, prod: Repository, http_fault_proxy: HttpFaultProxy, proxied: Path
) -> None:
    service = f"clusters/prod/core/v1/services/{site.namespace}/kept.yaml"
    head = f"metadata:\n  name: kept\n  namespace: {site.namespace}\n"
    prod.commit({service: f"apiVersion: v1\nkind: Service\n{head}"})
    listing = rf"/namespaces/{site.namespace}/services\?limit"
    http_fault_proxy.arm(refusal(403, "Forbidden"), listing, times=None)
    site.repo_config()
    site.destination()
    site.rule("both", ["configmaps", "services"])
    site.config_map("prices")
    (port,) = free_ports(1)
    site.start(f"--metrics-port={port}", kubeconfig=proxied)
    files = site.until_files(prod, {site.map_path("prices"): "value"})
    message = site.until("WatchRule", "both", "RBACDenied", "WatchErrored")
    assert metric_of(port, "watch_failures_total") >= 1
    assert "1 of 2 watches" in message
    site.until_event("WatchRule", "RBACDenied")
    assert service in files, "what could not be listed is no orphan"
    http_fault_proxy.lift()
    site.until_files(prod, {service: None})
    site.until("WatchRule", "both", "Initialized")


def test_a_dead_connection_loses_no_change(
    site: ReverserSite, prod: Repository, http_fault_proxy: HttpFaultProxy, proxied: Path
) -> None:
    site.follow_maps()
    site.start(kubeconfig=proxied)
    site.until("WatchRule", "maps", "Initialized")
    for n in range(6):
        site.config_map("prices", {"key": f"state {n}"})
        http_fault_proxy.inject(Fault(FaultKind.RESET if n % 2 else FaultKind.TRUNCATE))
    site.until_files(prod, {site.map_path("prices"): "state 5"})
    watches = http_fault_proxy.seen(rf"/namespaces/{site.namespace}/configmaps\?.*watch=true")
    assert len(watches) > 1, "the connection was dead for once"


def test_a_second_rule_for_a_watched_kind_is_served_from_the_same_watch(
    site: ReverserSite, prod: Repository, http_fault_proxy: HttpFaultProxy, proxied: Path
) -> None:
    site.follow_maps()
    site.config_map("prices")
    site.start(kubeconfig=proxied)
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.destination("second", baseFolder="second")
    site.rule("again", to="second")
    site.until_files(prod, {site.map_path("prices", "second"): "value"})
    site.config_map("prices", {"key": "both"})
    site.until_files(prod, {site.map_path("prices", base): "both" for base in ("clusters/prod", "second")})
    watches = http_fault_proxy.seen(rf"/namespaces/{site.namespace}/configmaps\?.*watch=true")
    assert len(watches) == 1


def _allow(site: ReverserSite, name: str, *groups: str) -> None:
    """Let the account `reverser` of the namespace do everything in these groups."""
    rule = {"apiGroups": list(groups), "resources": ["*"], "verbs": ["*"]}
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    account = {"kind": "ServiceAccount", "name": "reverser", "namespace": site.namespace}
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [account],
    }
    bundle = {"apiVersion": "v1", "kind": "List", "items": [role, binding]}
    site.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(bundle))


def test_a_reverser_that_may_not_touch_leases_writes_nothing_and_says_so(
    site: ReverserSite, prod: Repository
) -> None:
    site.cluster.kubectl("-n", site.namespace, "create", "serviceaccount", "reverser")
    try:
        _allow(site, f"{site.namespace}-all", "", "configbutler.ai", "apiextensions.k8s.io", "events.k8s.io")
        site.follow_maps()
        site.config_map("prices")
        site.start(kubeconfig=site.cluster.service_account_kubeconfig(site.namespace, "reverser"))
        message = site.until("GitDestination", "production", "LeaseAPIError", "LeaseNotAcquired")
        assert "leases" in message
        assert site.condition("GitDestination", "production", "Ready")[0] != "True"
        site.until_event("GitDestination", "LeaseAPIError")
        assert not prod.has_branch("main")
        _allow(site, f"{site.namespace}-leases", "coordination.k8s.io")
        site.until_files(prod, {site.map_path("prices"): "value"}, patience=60.0)
        site.until("GitDestination", "production", "LeaseAcquired", "LeaseNotAcquired")
        site.until("GitDestination", "production", "Initialized")
    finally:
        for what in ("clusterrole", "clusterrolebinding"):
            names = (f"{site.namespace}-all", f"{site.namespace}-leases")
            site.cluster.kubectl("delete", "--ignore-not-found", what, *names)


def test_a_lease_whose_holder_does_not_show_up_is_reported(site: ReverserSite, prod: Repository) -> None:
    site.follow_maps()
    site.config_map("prices")
    first = site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    (lease,) = (
        one["metadata"]["name"]
        for one in site.get("Lease")["items"]
        if "-member-" not in one["metadata"]["name"]
    )
    first.stop()
    site.patch("Lease", lease, {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}})
    site.start()
    message = site.until("GitDestination", "production", "LeaseHeldElsewhere", "LeaseNotAcquired")
    assert "somebody" in message
    site.until_event("GitDestination", "LeaseHeldElsewhere")
    site.config_map("prices", {"key": "later"})
    site.patch("Lease", lease, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
    site.until_files(prod, {site.map_path("prices"): "later"})
    eventually(
        lambda: site.condition("GitDestination", "production", "LeaseNotAcquired")[0] == "False",
        20.0,
        site.tail,
    )
