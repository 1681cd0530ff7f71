"""The dashboard of a real reverser on a real API server, in a real browser: states of destinations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from stoker.domain.secrets import Secret
from stoker.reverser.authors.admission import PATH
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.dashboard.rbac_environment import RbacEnvironment, SignedInBrowser
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.author_webhook_manifest import without_rules
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.wait_until import eventually

from .screenshots import ScreenshotRun

pytestmark = pytest.mark.xdist_group("browser")

PATIENCE = 60.0
PAUSE_MAP = "ignition-sync-global-pause"
MAY_STOP = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch", "create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
]


@pytest.fixture
def site(
    kinds: ClusterAccess, namespace: str, tmp_path: Path, repositories: Path, git_http: GitHttpServer
) -> Iterator[ReverserSite]:
    Repository.create(repositories / "prod.git")
    with ReverserSite(kinds, namespace, tmp_path, git_http.url("prod.git")) as site:
        yield site


@pytest.fixture
def boss(kinds: ClusterAccess, namespace: str) -> Secret:
    """The token of a user who sees everything here, and may press the emergency stop."""
    house = RbacEnvironment(kinds, namespace, "")
    token = house.person("shift-lead", "stoker-viewer")
    house.grant("stopper", "shift-lead", MAY_STOP)
    return token


@contextmanager
def asked_about_authors(site: ReverserSite) -> Iterator[list[str]]:
    """What an installation makes so that changes have authors; the flags that go with it."""
    outer, inner = free_ports(2)
    name = f"authors-{site.namespace}"
    body = without_rules(name, f"https://127.0.0.1:{outer}{PATH}")
    site.cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))
    people = ("--clusterrole=cluster-admin", "--user=alice", "--user=bob")
    site.cluster.kubectl("create", "rolebinding", "people", *people, f"--namespace={site.namespace}")
    try:
        yield [
            "--enable-author-webhook=true",
            "--webhook-host=127.0.0.1",
            f"--webhook-port={outer}",
            f"--peers-port={inner}",
            f"--peers-service=127.0.0.1:{inner}",
            f"--webhook-configuration={name}",
            "--webhook-cert-secret=reverser-tls",
            "--webhook-cert-name=127.0.0.1",
            "--drain-seconds=0",
            "--author-patience=10s",
        ]
    finally:
        site.cluster.kubectl("delete", "validatingwebhookconfiguration", name)


def write(site: ReverserSite, user: str, name: str, text: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}
    path = f"{site.path_of('ConfigMap', name)}?fieldManager={user}&force=true"
    done = site.cluster.request("PATCH", path, body, user=user, content_type="application/apply-patch+yaml")
    assert done.status in (200, 201), done.body


def may_list(kind: str) -> list[dict[str, list[str]]]:
    return [{"apiGroups": ["configbutler.ai"], "resources": [kind], "verbs": ["list"]}]


def headline(page: Page, words: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(words, timeout=PATIENCE * 1000)


def test_every_state_of_its_destinations_is_shown(
    site: ReverserSite, boss: Secret, repositories: Path, git_http: GitHttpServer, open_page: OpenPage
) -> None:
    (port,) = free_ports(1)
    prod = repositories / "prod.git"
    with asked_about_authors(site) as capturing:
        site.start(f"--dashboard-bind-address=127.0.0.1:{port}", *capturing)
        eventually(SignedInBrowser(port).answers, PATIENCE, site.tail)
        page = open_page(f"http://127.0.0.1:{port}", token=boss.reveal())
        look = ScreenshotRun(page, whole=True)

        headline(page, "No resources yet")
        expect(page.locator("#nothing")).to_contain_text("A GitDestination writes cluster objects to git")
        expect(page.get_by_role("searchbox")).to_be_hidden()
        look("reverser-nothing")

        site.repo_config()
        site.destination()
        headline(page, "1 destination without a rule")
        expect(page.locator("#nothing")).to_be_hidden()
        card = page.locator(".destination", has_text="production")
        expect(card).to_contain_text("No rule writes to this destination yet")
        look("reverser-no-rule")

        site.rule()
        site.until("WatchRule", "maps", "Initialized")
        names = (f"probe-{number}" for number in range(1000))

        def known() -> bool:
            name = next(names)
            write(site, "alice", name, "1")
            site.until_files(Repository(prod), {site.map_path(name): "1"})
            status = site.status("GitDestination", "production")
            return any(one.get("author") == "alice" for one in status.get("recentCommits", []))

        eventually(known, PATIENCE, site.tail, interval=0.2)
        for number in range(3):
            write(site, ("alice", "bob")[number % 2], "recipe", f"dose {number}")
            site.until_files(Repository(prod), {site.map_path("recipe"): f"dose {number}"})
        headline(page, "The destination is up to date")
        expect(card).to_contain_text("bob")
        expect(card).to_contain_text("from the last change to its push")
        expect(card.locator(".recent").first.get_by_role("listitem")).to_have_count(3)
        older = card.locator("summary")
        older.focus()
        page.keyboard.press("Enter")
        expect(card.locator("details")).to_have_attribute("open", "")
        write(site, "bob", "recipe", "dose 9")
        expect(card.locator(".recent").first).to_contain_text("recipe")
        look("reverser-healthy")

        hidden = repositories / "hidden"
        prod.rename(hidden)
        write(site, "bob", "recipe", "dose 10")
        headline(page, "1 destination failed")
        expect(card).to_contain_text("Stoker retries automatically")
        expect(card).to_contain_text("1 change, the oldest has waited for")
        expect(card).not_to_contain_text("Lag")
        expect(card.locator("details")).to_have_attribute("open", "")
        expect(older).to_be_focused()
        assert page.title() == "(1) 1 destination failed · Stoker"
        look("reverser-unreachable")

        Repository.create(repositories / "archive.git").commit({"README.md": "old"})
        site.repo_config("archive", repoUrl=git_http.url("archive.git"))
        site.destination("archive", repoRef={"name": "archive"}, branch="secret", baseFolder="clusters/b")
        site.destination("resting", repoRef={"name": "archive"}, baseFolder="clusters/c", suspend=True)
        headline(page, "2 destinations failed")
        refused = page.locator(".destination", has_text="archive").filter(has_text="secret")
        expect(refused).to_contain_text("does not allow branch 'secret'")
        expect(refused).to_contain_text("fix the cause")
        expect(page.locator("#verdict-more")).to_have_text("2 failed and 1 suspended")
        look("reverser-many")

        hidden.rename(prod)
        headline(page, "1 destination failed")
        page.get_by_role("button", name="Emergency stop").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("which are not on this page")
        expect(dialog).to_contain_text("Changes in the cluster are still written to git")
        look("reverser-asked-to-stop", stop=False)
        page.keyboard.press("Escape")
        stopped = {"metadata": {"name": PAUSE_MAP}, "data": {"paused": "true"}}
        RbacEnvironment(site.cluster, site.namespace, "").objects().post("/api/v1", "configmaps", stopped)
        expect(page.locator("#stopped")).to_contain_text("are still written to git")
        look("reverser-stopped")
    assert look.wrong == {}


@contextmanager
def allowed(site: ReverserSite, *groups: str) -> Iterator[Path]:
    """An account that may do everything in these groups and nothing else; its kubeconfig."""
    name = f"{site.namespace}-reverser"
    rule = {"apiGroups": list(groups), "resources": ["*"], "verbs": ["*"]}
    group = "rbac.authorization.k8s.io"
    items = [
        {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "narrow"}},
        {"kind": "ClusterRole", "apiVersion": f"{group}/v1", "metadata": {"name": name}, "rules": [rule]},
        {
            "kind": "ClusterRoleBinding",
            "apiVersion": f"{group}/v1",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "narrow", "namespace": site.namespace}],
        },
    ]
    bundle = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    site.cluster.kubectl("--namespace", site.namespace, "apply", "-f", "-", stdin=bundle)
    try:
        yield site.cluster.service_account_kubeconfig(site.namespace, "narrow")
    finally:
        site.cluster.kubectl("delete", "clusterrole,clusterrolebinding", name)


def test_a_watch_without_permission_is_not_called_up_to_date(
    site: ReverserSite, repositories: Path, open_page: OpenPage
) -> None:
    house = RbacEnvironment(site.cluster, site.namespace, "")
    visitor = house.person("visitor")
    house.grant("destinations", "visitor", [*may_list("gitdestinations"), *MAY_STOP])
    own = ("", "configbutler.ai", "coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io")
    asks = ("authentication.k8s.io", "authorization.k8s.io", "stoker.io", "sync.ignition.io")
    (port,) = free_ports(1)
    with allowed(site, *own, *asks) as kubeconfig:
        site.repo_config()
        site.destination()
        site.rule("machines", ["configmaps", "deployments.apps"])
        site.config_map("prices")
        site.start(f"--dashboard-bind-address=127.0.0.1:{port}", kubeconfig=kubeconfig)
        site.until_files(Repository(repositories / "prod.git"), {site.map_path("prices"): "value"})
        site.until("WatchRule", "machines", "RBACDenied", "WatchErrored")
        eventually(SignedInBrowser(port).answers, PATIENCE, site.tail)
        page = open_page(f"http://127.0.0.1:{port}", token=visitor.reveal())
        headline(page, "1 destination incomplete")
        card = page.locator(".destination")
        expect(card).to_contain_text("Incomplete")
        expect(card).to_contain_text("a rule that your account may not see")
        house.grant("rules", "visitor", may_list("watchrules"))
        expect(card).to_contain_text("WatchRule machines: ", timeout=PATIENCE * 1000)
        expect(card).to_contain_text("deployments.apps is forbidden")
        look = ScreenshotRun(page, whole=True)
        look("reverser-no-permission")
    assert look.wrong == {}
