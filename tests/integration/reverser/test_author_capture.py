"""Author capture with a real API server: every way to write, real users, two replicas.

A control plane of its own: the counters of the API server, by which a question that was
not asked is distinguished from one that was, are those of a whole cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.http_server.tls.ca_bundle import VALIDATING, CaBundleTarget
from stoker.http_server.tls.rotation import CertificateLifetimes
from stoker.http_server.tls.setup import SelfSignedCertificates
from stoker.kube.client.client import KubeClient
from stoker.kube.client.discovery import Discovery
from stoker.kube.client.resources import CONFIG_MAPS, CRDS, DEPLOYMENTS, SECRETS
from stoker.kube.client.served_kinds import KindCatalog, UnavailableGroupVersion
from stoker.kube.config import config
from stoker.kube.runtime.process import ProcessGroup
from stoker.reverser.authors.admission import PATH
from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.authors.facts import object_blob_id
from stoker.reverser.authors.process import AuthorCapture, AuthorCaptureOptions
from stoker.reverser.authors.webhook_registration import WEBHOOK
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize
from stoker.reverser.selection.preset import PRESET, GroupResource
from stoker.reverser.selection.rules import (
    ChangeOperation,
    DestinationRef,
    SelectionRule,
    preset_rules,
    resource_rules,
)
from stoker.reverser.selection.selection import select_objects
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.processes import free_ports
from stoker_testkit.reverser.author_webhook_manifest import without_rules
from stoker_testkit.wait_until import eventually_async

pytestmark = [pytest.mark.xdist_group("author-capture"), pytest.mark.cluster, pytest.mark.smoke]

PATIENCE = 30.0
CONFIGURATION = "reverser-authors"
MAPS = GroupResource("", "configmaps")
DEPLOYED = GroupResource("apps", "deployments")
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterAccess]:
    with ControlPlane.start(tmp_path_factory.mktemp("plane")) as plane:
        users = ("--user=alice", "--user=bob", "--user=frank")
        plane.kubectl("create", "clusterrolebinding", "people", "--clusterrole=cluster-admin", *users)
        yield plane


@pytest.fixture
def namespace(plane: ClusterAccess) -> str:
    name = f"shop-{uuid4().hex[:8]}"
    plane.create_namespace(name)
    return name


@pytest.fixture
async def admin(plane: ClusterAccess) -> AsyncIterator[KubeClient]:
    async with KubeClient(config.load_config(plane.kubeconfig("admin"))) as client:
        yield client


def watch_rule(namespace: str, *resources: str) -> tuple[SelectionRule, ...]:
    spec = {"destinationRef": {"name": "d"}, "rules": [{"resources": list(resources)}]}
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "WatchRule"}
    return resource_rules(
        msgspec.convert({**head, "metadata": {"name": "r", "namespace": namespace}, "spec": spec}, WatchRule)
    )


def cluster_rule(*resources: str) -> tuple[SelectionRule, ...]:
    spec = {
        "destinationRef": {"name": "d", "namespace": "n"},
        "rules": [{"resources": list(resources), "scope": "Namespaced"}],
    }
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "ClusterWatchRule"}
    return resource_rules(
        msgspec.convert({**head, "metadata": {"name": "c"}, "spec": spec}, ClusterWatchRule)
    )


class Site:
    """Replicas of author capture in this process, and the configuration that leads to the first of them."""

    def __init__(self, plane: ClusterAccess, client: KubeClient, namespace: str, replicas: int) -> None:
        self.plane = plane
        self.client = client
        self.namespace = namespace
        ports = free_ports(2 * replicas)
        self.ports = list(zip(ports[::2], ports[1::2], strict=True))
        others = tuple(f"127.0.0.1:{inner}" for _, inner in self.ports)
        terms = CertificateLifetimes(mutual=True)
        target = CaBundleTarget(VALIDATING, CONFIGURATION)
        self.replicas = [
            AuthorCapture(
                client,
                AuthorCaptureOptions(
                    namespace,
                    SelfSignedCertificates("reverser-tls", ("127.0.0.1",), (target,), terms),
                    "127.0.0.1",
                    CONFIGURATION,
                    host="127.0.0.1",
                    port=outer,
                    peers=others if replicas > 1 else (),
                    peers_port=inner,
                    own_host="127.0.0.1",
                ),
            )
            for outer, inner in self.ports
        ]
        self.running: list[asyncio.Task[None]] = []

    @property
    def asked(self) -> AuthorCapture:
        return self.replicas[0]

    async def install(self) -> None:
        """As the chart does: one webhook, where it is, and no rules."""
        body = without_rules(CONFIGURATION, f"https://127.0.0.1:{self.ports[0][0]}{PATH}")
        await self.client.create(VALIDATING, body, into=dict[str, Any])

    async def start(self, *rules: SelectionRule) -> None:
        self.running += [asyncio.create_task(ProcessGroup(one.parts()).run()) for one in self.replicas]
        await self.select(*rules)

    async def select(self, *rules: SelectionRule) -> None:
        catalog = await Discovery(self.client).refresh()
        for one in self.replicas:
            one.capture(select_objects(rules, catalog), catalog)

    async def webhook(self) -> dict[str, Any]:
        found = await self.client.get(VALIDATING, CONFIGURATION, into=dict[str, Any])
        webhook: dict[str, Any] = found["webhooks"][0]
        return webhook

    async def until_asked(self) -> None:
        """Until the API server has noticed the rules and whom to trust."""
        before = sum(self.asked.intake.counts.values())

        async def tried() -> bool:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "probe-"}}
            path = CONFIG_MAPS.path(self.namespace)
            await asyncio.to_thread(self.plane.request, "POST", path, body, user="alice")
            return sum(self.asked.intake.counts.values()) > before

        await eventually_async(
            tried, PATIENCE, lambda: f"it is asked: {self.asked.intake.counts}", interval=0.1
        )

    async def stop(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()

    async def author(self, seen: ObservedEvent, replica: int = 0) -> str | None:
        await self.asked.settle()
        one = self.replicas[replica]
        found = one.authors.author_of(seen, one._clock.monotonic())
        return found and found.name


Making = Callable[..., Awaitable[Site]]
Sending = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def make(plane: ClusterAccess, admin: KubeClient, namespace: str) -> AsyncIterator[Making]:
    made: list[Site] = []

    async def start(*rules: SelectionRule, replicas: int = 1) -> Site:
        site = Site(plane, admin, namespace, replicas)
        made.append(site)
        await site.install()
        await site.start(*rules)
        await site.until_asked()
        return site

    yield start
    for site in made:
        await site.stop()
        await admin.delete(VALIDATING, CONFIGURATION)


@contextlib.asynccontextmanager
async def as_user(kubeconfig: Path, **impersonated: str) -> AsyncIterator[Sending]:
    """Requests as a user."""
    async with KubeClient(config.load_config(kubeconfig)) as client:

        async def send(
            method: str, path: str, body: object = None, kind: str = JSON, **query: str
        ) -> dict[str, Any]:
            headers = {f"Impersonate-{name}": value for name, value in impersonated.items()}
            headers["Content-Type"] = kind
            data = None if body is None else json.dumps(body).encode()
            answer = await client.raw(method, path, query=query, body=data, headers=headers)
            found: dict[str, Any] = json.loads(answer.body)
            return found

        yield send


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def seen(
    kind: GroupResource, before: Mapping[str, Any] | None, after: dict[str, Any] | None
) -> ObservedEvent:
    """The event that a watch brings for a change, and what was seen before it."""
    obj: Any = after if after is not None else before
    operation = (
        ChangeOperation.DELETE
        if after is None
        else ChangeOperation.CREATE
        if before is None
        else ChangeOperation.UPDATE
    )
    return ObservedEvent(
        kind,
        obj["metadata"]["uid"],
        before["metadata"]["resourceVersion"] if before is not None else "",
        operation,
        object_blob_id(obj),
        before_blob=object_blob_id(dict(before)) if before is not None else "",
        content=render_object(sanitize(obj)),
    )


async def test_every_way_to_write_has_its_user(plane: ClusterAccess, make: Making, namespace: str) -> None:
    site = await make(*watch_rule(namespace, "configmaps", "deployments"))
    maps, deployments = CONFIG_MAPS.path(namespace), DEPLOYMENTS.path(namespace)
    async with as_user(plane.kubeconfig("alice")) as alice, as_user(plane.kubeconfig("bob")) as bob:
        # Creating, by POST and by applying.
        first = await alice("POST", maps, config_map("m", a="1"))
        assert await site.author(seen(MAPS, None, first)) == "alice"
        applied = await bob(
            "PATCH",
            f"{maps}/n",
            config_map("n", a="1"),
            APPLY,
            fieldManager="x",
            force="true",
        )
        assert await site.author(seen(MAPS, None, applied)) == "bob"

        # Changing: PUT, the three patches, applying again.
        second = await bob("PUT", f"{maps}/m", config_map("m", a="2"))
        assert await site.author(seen(MAPS, first, second)) == "bob"
        third = await alice("PATCH", f"{maps}/m", {"data": {"a": "3"}}, MERGE)
        assert await site.author(seen(MAPS, second, third)) == "alice"
        fourth = await bob("PATCH", f"{maps}/m", {"data": {"b": "4"}}, STRATEGIC)
        assert await site.author(seen(MAPS, third, fourth)) == "bob"
        patch = [{"op": "add", "path": "/data/c", "value": "5"}]
        fifth = await alice("PATCH", f"{maps}/m", patch, "application/json-patch+json")
        assert await site.author(seen(MAPS, fourth, fifth)) == "alice"
        again = await alice(
            "PATCH",
            f"{maps}/n",
            config_map("n", a="2"),
            APPLY,
            fieldManager="x",
            force="true",
        )
        assert await site.author(seen(MAPS, applied, again)) == "alice"

        # Scaling.
        one = await alice("POST", deployments, deployment("web", 1))
        assert await site.author(seen(DEPLOYED, None, one)) == "alice"
        await bob("PATCH", f"{deployments}/web/scale", {"spec": {"replicas": 3}}, MERGE)
        three = await bob("GET", f"{deployments}/web")
        assert await site.author(seen(DEPLOYED, one, three)) == "bob"

        # Deleting: one, and a collection.
        await bob("DELETE", f"{maps}/m")
        assert await site.author(seen(MAPS, fifth, None)) == "bob"
        bodies = [config_map(f"s{number}") for number in range(3)]
        for each in bodies:
            each["metadata"]["labels"] = {"x": "y"}
        swept = [await alice("POST", maps, each) for each in bodies]
        await bob("DELETE", maps, labelSelector="x=y")
        assert [await site.author(seen(MAPS, each, None)) for each in swept] == ["bob"] * 3

        # A dry run is no change.
        counts = dict(site.asked.intake.counts)
        await alice("POST", maps, config_map("dry"), dryRun="All")
        assert site.asked.intake.counts == counts


async def test_real_identities_are_recorded_and_an_impersonator_is_not(
    plane: ClusterAccess, make: Making, namespace: str, tmp_path: Path
) -> None:
    site = await make(*watch_rule(namespace, "configmaps"))
    maps = CONFIG_MAPS.path(namespace)
    pair = plane.authority.client("frank", ["plumbers"]).save(tmp_path, "frank")
    async with as_user(plane.certificate_kubeconfig("frank", pair)) as frank:
        made = await frank("POST", maps, config_map("f"))
    await site.asked.settle()
    found = site.asked.authors.author_of(seen(MAPS, None, made), site.asked._clock.monotonic())
    assert found is not None
    assert found.name == "frank"
    assert "plumbers" in found.groups
    admins = "system:masters"
    async with as_user(plane.kubeconfig("admin"), User="erin@example.net", Group=admins) as erin:
        made = await erin("POST", maps, config_map("e"))
    assert await site.author(seen(MAPS, None, made)) == "erin@example.net"
    await asyncio.to_thread(plane.kubectl, "create", "serviceaccount", "robot", f"--namespace={namespace}")
    robot = ("--clusterrole=cluster-admin", f"--serviceaccount={namespace}:robot", f"--namespace={namespace}")
    await asyncio.to_thread(plane.kubectl, "create", "rolebinding", "robot", *robot)
    token = await asyncio.to_thread(plane.service_account_kubeconfig, namespace, "robot")
    async with as_user(token) as account:
        made = await account("POST", maps, config_map("r"))
    assert await site.author(seen(MAPS, None, made)) == f"system:serviceaccount:{namespace}:robot"


async def test_the_replica_that_is_never_asked_loses_no_author(
    plane: ClusterAccess, make: Making, namespace: str
) -> None:
    site = await make(*watch_rule(namespace, "configmaps"), replicas=2)
    maps = CONFIG_MAPS.path(namespace)
    await eventually_async(lambda: site.asked.peers.reached, PATIENCE, "the replicas know each other")
    events: list[tuple[str, ObservedEvent]] = []
    async with as_user(plane.kubeconfig("alice")) as alice, as_user(plane.kubeconfig("bob")) as bob:
        for number in range(30):
            made = await alice("POST", maps, config_map(f"m{number}", a="1"))
            changed = await bob("PUT", f"{maps}/m{number}", config_map(f"m{number}", a="2"))
            events += [("alice", seen(MAPS, None, made)), ("bob", seen(MAPS, made, changed))]
    holder = site.replicas[1]

    async def all_known() -> bool:
        return [await site.author(event, 1) for _, event in events] == [user for user, _ in events]

    await eventually_async(all_known, PATIENCE, "every author")
    assert sum(holder.intake.counts.values()) == 0  # it was never asked itself
    assert holder.peers.counts["received"] >= 60


async def test_the_rules_follow_the_selection_and_survive_others(
    plane: ClusterAccess, make: Making, admin: KubeClient, namespace: str
) -> None:
    site = await make(*watch_rule(namespace, "configmaps"), replicas=2)
    first = await site.webhook()
    assert first["rules"] == [
        {
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
            "scope": "Namespaced",
        }
    ]
    assert (first["failurePolicy"], first["timeoutSeconds"], first["sideEffects"]) == ("Ignore", 1, "None")
    assert first["clientConfig"]["caBundle"]
    names = [each["name"] for each in first["matchConditions"]]
    assert "not-by-the-reverser" in names
    assert "where-a-rule-selects" in names

    await site.select(*cluster_rule("configmaps", "deployments", "customresourcedefinitions", "*"))
    await eventually_async(
        lambda: all(one.capturing.in_place for one in site.replicas), PATIENCE, "the new rules are in place"
    )
    second = await site.webhook()
    resources = {each for rule in second["rules"] for each in rule["resources"]}
    assert resources == {"configmaps", "deployments", "deployments/scale"}
    assert "where-a-rule-selects" not in [each["name"] for each in second["matchConditions"]]
    assert second["clientConfig"] == first["clientConfig"]

    # Nothing is written while nothing changes.
    version = (await admin.get(VALIDATING, CONFIGURATION, into=dict[str, Any]))["metadata"]["resourceVersion"]
    await site.select(*cluster_rule("configmaps", "deployments"))
    await site.until_asked()
    found = await admin.get(VALIDATING, CONFIGURATION, into=dict[str, Any])
    assert found["metadata"]["resourceVersion"] == version

    # An upgrade by the user who installed it (a strategic patch without our fields) leaves them as they are.
    mine = [{"name": WEBHOOK, "objectSelector": {"matchLabels": {"x": "y"}}}]
    await admin.raw(
        "PATCH",
        VALIDATING.path(name=CONFIGURATION),
        body=json.dumps({"metadata": {"labels": {"v": "2"}}, "webhooks": mine}).encode(),
        headers={"Content-Type": STRATEGIC},
    )
    third = await site.webhook()
    assert third["rules"] == second["rules"]
    assert third["clientConfig"] == second["clientConfig"]


async def test_webhook_rules_that_were_removed_come_back(
    make: Making, admin: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.reverser.authors.webhook_registration.SETTLE", 0.3)
    site = await make(*watch_rule(namespace, "configmaps"))
    before = await site.webhook()
    changes: tuple[dict[str, object], ...] = (
        {"rules": []},
        {"failurePolicy": "Fail"},
        {"timeoutSeconds": 30},
        {"matchConditions": None},
    )
    for broken in changes:
        await admin.raw(
            "PATCH",
            VALIDATING.path(name=CONFIGURATION),
            body=json.dumps({"webhooks": [{"name": WEBHOOK, **broken}]}).encode(),
            headers={"Content-Type": STRATEGIC},
        )

        async def repaired() -> bool:
            return await site.webhook() == before

        await eventually_async(repaired, PATIENCE, f"it is as it was, without {broken}")


async def calls(client: KubeClient) -> dict[str, float]:
    """What the API server counts about our webhook: questions, and those that it went on without."""
    page = (await client.raw("GET", "/metrics", headers={"Accept": "text/plain"})).body.decode()
    found = {"asked": 0.0, "opened": 0.0, "excluded": 0.0}
    names = {
        "asked": "apiserver_admission_webhook_request_total",
        "opened": "apiserver_admission_webhook_fail_open_count",
        "excluded": "apiserver_admission_match_condition_exclusions_total",
    }
    for line in page.splitlines():
        for short, name in names.items():
            match = re.fullmatch(rf'{name}\{{[^}}]*name="{re.escape(WEBHOOK)}"[^}}]*\}} (\S+)', line)
            if match:
                found[short] += float(match[1])
    return found


async def test_with_the_reverser_gone_a_write_that_no_rule_selects_is_not_asked_about(
    plane: ClusterAccess, make: Making, admin: KubeClient, namespace: str
) -> None:
    site = await make(*watch_rule(namespace, "configmaps"))
    other = f"{namespace}-other"
    await asyncio.to_thread(plane.create_namespace, other)
    await site.stop()
    before = await calls(admin)
    async with as_user(plane.kubeconfig("alice")) as alice:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        await alice("POST", SECRETS.path(namespace), secret)
        await alice("DELETE", f"{SECRETS.path(namespace)}/s")
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
        await alice("POST", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)
        await alice("POST", DEPLOYMENTS.path(namespace), deployment("web"))
        assert await calls(admin) == before

        # The kind is selected, the namespace is not: the condition decides, and the webhook is not called.
        await alice("POST", CONFIG_MAPS.path(other), config_map("m"))
        await alice("PATCH", f"{CONFIG_MAPS.path(other)}/m", {"data": {"a": "1"}}, MERGE)
        after = await calls(admin)
        assert (after["asked"], after["opened"]) == (before["asked"], before["opened"])
        assert after["excluded"] == before["excluded"] + 2

        # So that this can fail: what is selected is asked about, and goes on without an answer.
        await alice("POST", CONFIG_MAPS.path(namespace), config_map("m"))
        last = await calls(admin)
        assert last["opened"] == before["opened"] + 1


async def test_its_own_writes_are_not_asked_about(make: Making, admin: KubeClient, namespace: str) -> None:
    """In these tests the reverser is the administrator."""
    site = await make(*watch_rule(namespace, "configmaps"))
    before, counted = await calls(admin), dict(site.asked.intake.counts)
    await admin.create(CONFIG_MAPS, config_map("own"), namespace, into=dict[str, Any])
    after = await calls(admin)
    assert after["excluded"] == before["excluded"] + 1
    assert site.asked.intake.counts == counted


def minimal(namespace: str) -> dict[str, dict[str, Any]]:
    """One object of each kind of the preset, by its plural and group."""
    labels = {"app": "x"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    workload = {"selector": {"matchLabels": labels}, "template": pod}
    rbac = "rbac.authorization.k8s.io"
    group = f"{namespace}.example.net"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    subject = {"kind": "User", "name": "u", "apiGroup": rbac}
    return {
        "deployments.apps": {"spec": workload},
        "statefulsets.apps": {"spec": {**workload, "serviceName": "x"}},
        "daemonsets.apps": {"spec": workload},
        "services": {"spec": {"ports": [{"port": 80}], "selector": labels}},
        "ingresses.networking.k8s.io": {
            "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}
        },
        "networkpolicies.networking.k8s.io": {"spec": {"podSelector": {}}},
        "poddisruptionbudgets.policy": {"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}},
        "roles.rbac.authorization.k8s.io": {"rules": rules},
        "rolebindings.rbac.authorization.k8s.io": {
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "x"},
            "subjects": [subject],
        },
        "configmaps": {"data": {"a": "b"}},
        "secrets": {"stringData": {"a": "b"}},
        "serviceaccounts": {},
        "resourcequotas": {"spec": {"hard": {"pods": "100"}}},
        "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
        "clusterroles.rbac.authorization.k8s.io": {"rules": rules},
        "clusterrolebindings.rbac.authorization.k8s.io": {
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "x"},
            "subjects": [subject],
        },
        "priorityclasses.scheduling.k8s.io": {"value": 7},
        "customresourcedefinitions.apiextensions.k8s.io": {
            "metadata": {"name": f"pumps.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "pumps", "kind": "Pump"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
        "apiservices.apiregistration.k8s.io": {
            "metadata": {"name": f"v1.away.{group}"},
            "spec": {
                "group": f"away.{group}",
                "version": "v1",
                "groupPriorityMinimum": 1000,
                "versionPriority": 1,
                "service": {"name": "away", "namespace": namespace},
                "insecureSkipTLSVerify": True,
            },
        },
        "storageclasses.storage.k8s.io": {"provisioner": "example.net/disk"},
    }


async def test_of_every_kind_of_the_preset_the_author_is_known(
    plane: ClusterAccess, make: Making, admin: KubeClient, namespace: str
) -> None:
    """What is asked about before it is stored is what a watch shows, whatever the server fills in."""
    site = await make(*preset_rules(DestinationRef("n", "d")))
    catalog = await Discovery(admin).refresh()
    wanted = minimal(namespace)
    assert {str(each) for each in PRESET} == wanted.keys()
    found: dict[str, str | None] = {}
    async with as_user(plane.kubeconfig("alice")) as alice:
        for kind in PRESET:
            served = catalog.preferred(kind.group, kind.resource)
            assert served is not None
            resource, result = served.resource, wanted[str(kind)]
            body = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                **result,
                "metadata": {"name": f"x-{namespace}", **result.get("metadata", {})},
            }
            path = resource.path(namespace if resource.namespaced else None)
            made = await alice("POST", path, body)
            found[str(kind)] = await site.author(seen(kind, None, made))
            await alice("DELETE", f"{path}/{made['metadata']['name']}")
    assert found == dict.fromkeys(found, "alice")


def pumps(group: str) -> dict[str, Any]:
    """A kind of two versions, the younger preferred, that can be scaled."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"served": True, "schema": schema, "subresources": {"status": {}, "scale": scale}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"pumps.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "pumps", "kind": "Pump"},
            "versions": [
                {"name": "v2", "storage": True, **version},
                {"name": "v1", "storage": False, **version},
            ],
        },
    }


async def test_a_change_in_another_version_is_attributed_in_the_watched_one(
    plane: ClusterAccess, make: Making, admin: KubeClient, namespace: str
) -> None:
    group = f"{namespace}.example.net"
    await admin.create(CRDS, pumps(group), into=dict[str, Any])
    crd = f"crd/pumps.{group}"
    await asyncio.to_thread(plane.kubectl, "wait", "--for=condition=Established", "--timeout=30s", crd)

    async def is_served() -> bool:
        found = (await Discovery(admin).refresh()).preferred(group, "pumps")
        return found is not None and found.resource.version == "v2"

    await eventually_async(is_served, PATIENCE, "the kind is served")
    site = await make(*watch_rule(namespace, "configmaps", "pumps"))
    old, new = (f"/apis/{group}/{version}/namespaces/{namespace}/pumps" for version in ("v1", "v2"))
    kind = GroupResource(group, "pumps")
    async with as_user(plane.kubeconfig("alice")) as alice, as_user(plane.kubeconfig("bob")) as bob:
        body = {"kind": "Pump", "metadata": {"name": "p"}, "spec": {"replicas": 1}}
        await alice("POST", old, {"apiVersion": f"{group}/v1", **body})
        first = await alice("GET", f"{new}/p")
        assert first["apiVersion"] == f"{group}/v2"
        assert await site.author(seen(kind, None, first)) == "alice"
        await bob("PATCH", f"{old}/p/scale", {"spec": {"replicas": 4}}, MERGE)
        second = await bob("GET", f"{new}/p")
        assert await site.author(seen(kind, first, second)) == "bob"
        before = dict(site.asked.intake.counts)
        await bob("PATCH", f"{new}/p/status", {"status": {"replicas": 4}}, MERGE)
        assert site.asked.intake.counts == before
        third = await bob("GET", f"{new}/p")
        await alice("DELETE", f"{old}/p")
        assert await site.author(seen(kind, third, None)) == "alice"


async def test_a_group_that_cannot_be_discovered_stays_watched(
    make: Making, admin: KubeClient, namespace: str
) -> None:
    site = await make(*watch_rule(namespace, "configmaps", "deployments"))
    whole = await Discovery(admin).refresh()
    rest = tuple(each for each in whole.served if each.resource.group != "apps")
    partial = KindCatalog(rest, (UnavailableGroupVersion("apps/v1", "its server is away"),))
    rules = watch_rule(namespace, "configmaps", "secrets", "deployments")
    site.asked.capture(select_objects(rules, partial), partial)
    await eventually_async(lambda: site.asked.capturing.in_place, PATIENCE, "the rules are in place")
    resources = {each for rule in (await site.webhook())["rules"] for each in rule["resources"]}
    assert resources == {"configmaps", "secrets", "deployments", "deployments/scale"}
