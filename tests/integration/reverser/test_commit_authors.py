"""Authors from the API server to git: real processes, real users, the Lease always with the other replica."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.http_server.tls.ca_bundle import VALIDATING
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.reverser.authors.admission import PATH
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.author_webhook_manifest import without_rules
from stoker_testkit.reverser.reverser_environment import PATIENCE, ReverserSite
from stoker_testkit.wait_until import eventually

UNKNOWN = "gitops-reverser"


class Captured:
    """Replicas with author capture, and the configuration that leads to one of them."""

    def __init__(self, site: ReverserSite) -> None:
        self.site = site
        self.name = f"authors-{site.namespace}"
        self.ports: list[tuple[int, int]] = []

    @property
    def path(self) -> str:
        return VALIDATING.path(name=self.name)

    def prepare(self, replicas: int) -> None:
        """What an installation makes: the configuration without rules, and people who may write."""
        ports = free_ports(2 * replicas)
        self.ports = list(zip(ports[::2], ports[1::2], strict=True))
        body = without_rules(self.name, self.url(0))
        self.site.cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))
        people = ("--clusterrole=cluster-admin", "--user=alice", "--user=bob")
        where = f"--namespace={self.site.namespace}"
        self.site.cluster.kubectl("create", "rolebinding", "people", *people, where)

    def url(self, replica: int) -> str:
        return f"https://127.0.0.1:{self.ports[replica][0]}{PATH}"

    def start(self) -> None:
        for outer, inner in self.ports:
            self.site.start(
                "--enable-author-webhook=true",
                "--webhook-host=127.0.0.1",
                f"--webhook-port={outer}",
                f"--peers-port={inner}",
                f"--peers-service={','.join(f'127.0.0.1:{port}' for _, port in self.ports)}",
                f"--webhook-configuration={self.name}",
                "--webhook-cert-secret=reverser-tls",
                "--webhook-cert-name=127.0.0.1",
                "--drain-seconds=0",
                "--author-patience=10s",  # what others run on this machine must not make an author unknown
            )

    def webhook(self) -> dict[str, Any]:
        found: Any = self.site.cluster.request("GET", self.path).json()
        webhook: dict[str, Any] = found["webhooks"][0]
        return webhook

    def holder(self) -> int:
        """The replica that writes the branch; -1 while none does."""
        leases = self.site.get("Lease").get("items", [])
        for each in leases:
            name, holder = each["metadata"]["name"], each["spec"].get("holderIdentity") or ""
            if name.startswith("gitops-reverser-") and holder.startswith("replica-") and "member" not in name:
                return int(holder.partition("-")[2].partition("_")[0])
        return -1

    def lead_to(self, replica: int) -> None:
        """Have the API server ask this one."""
        patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": self.url(replica)}]
        done = self.site.cluster.request(
            "PATCH", self.path, patch, content_type="application/json-patch+json"
        )
        assert done.status == 200, done.body

    def write(self, user: str, name: str, text: str) -> None:
        """One change by one user; the file says whose it is."""
        body = {"data": {"by": user, "text": text}}
        path = f"{CONFIG_MAPS.path(self.site.namespace)}/{name}"
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        answer = self.site.cluster.request(
            "PATCH",
            f"{path}?fieldManager={user}&force=true",
            {**head, **body},
            user=user,
            content_type="application/apply-patch+yaml",
        )
        assert answer.status in (200, 201), answer.body

    def until_known(self, prod: Repository) -> None:
        """Until the API server asks the right one: a change by a user has an author."""
        number = 0

        def known() -> bool:
            nonlocal number
            number += 1
            self.write("alice", f"probe-{number}", "x")
            self.site.until_files(prod, {self.site.map_path(f"probe-{number}"): "alice"})
            return authors(prod, self.site.map_path(f"probe-{number}")) == ["alice"]

        eventually(known, PATIENCE, lambda: f"an author: {self.webhook()}\n{self.site.tail()}", interval=0.1)


def authors(prod: Repository, path: str) -> list[str]:
    """Who has changed a file, the last first."""
    return prod.git("log", "--format=%an", "main", "--", path).decode().split()


@pytest.fixture
def captured(site: ReverserSite) -> Iterator[Captured]:
    made = Captured(site)
    yield made
    site.cluster.request("DELETE", made.path)


@pytest.mark.smoke
def test_the_lease_is_always_with_the_replica_that_is_not_asked_and_no_author_is_lost(
    captured: Captured, site: ReverserSite, prod: Repository
) -> None:
    captured.prepare(2)
    site.follow_maps()
    captured.start()
    eventually(lambda: captured.holder() >= 0, PATIENCE, lambda: f"a holder:\n{site.tail()}")
    asked = 1 - captured.holder()
    captured.lead_to(asked)
    eventually(lambda: captured.webhook().get("rules"), PATIENCE, site.tail)
    captured.until_known(prod)
    for number in range(20):
        for user in ("alice", "bob"):
            captured.write(user, f"map-{number % 5}", f"{number} by {user}")
    last = {site.map_path(f"map-{number}"): f"{15 + number} by bob" for number in range(5)}
    site.until_files(prod, last)
    assert captured.holder() == 1 - asked
    for path in last:
        found = authors(prod, path)
        assert found[::2] == ["bob"] * (len(found) // 2)
        assert UNKNOWN not in found
        # Each state is whose it says.
        for commit in prod.git("log", "--format=%H %an", "main", "--", path).decode().splitlines():
            sha, author = commit.split()
            assert f"by: {author}\n" in prod.git("show", f"{sha}:{path}").decode()
    rules = captured.webhook()["rules"]
    assert [each["resources"] for each in rules] == [["configmaps"]]
