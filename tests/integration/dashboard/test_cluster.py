"""The dashboard of a cluster against the real API server: who sees what, who may do what, and as whom.

The dashboard's account and the roles of people are those of the chart. What is asked of the scene,
the gate and the hands here is what the server asks of them; the last tests go through its port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker.dashboard.cluster.actions import ClusterActions
from stoker.dashboard.cluster.authenticator import ClusterAuth
from stoker.dashboard.cluster.view import ClusterViewSource
from stoker.dashboard.interfaces import ActionRefused, GatewayKey, VisibleScope, Visitor
from stoker.dashboard.view_models import ActionBody, DashboardAction, ResourceView
from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.fleet.approve import approve_plan
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient
from stoker.kube.config import config
from stoker_testkit.admission.webhook_process import Admission
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.dashboard.rbac_environment import (
    COMMIT,
    DIGEST,
    OWN_ROLE,
    RbacEnvironment,
    chart_rules,
    waiting_status,
)
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.wait_until import eventually_async

pytestmark = pytest.mark.smoke

PATIENCE = 20.0
GIT = {"repo": "https://git.example.net/plant/config.git", "ref": "main"}
PAUSE = "ignition-sync-global-pause"
READ = [
    {"apiGroups": ["stoker.io"], "resources": ["stokers"], "verbs": ["list", "watch"]},
    {"apiGroups": ["sync.ignition.io"], "resources": ["ignitionsyncs"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [PAUSE], "verbs": ["list", "watch"]},
]


@pytest.fixture
def house(kinds: ClusterAccess, namespace: str) -> RbacEnvironment:
    other = f"{namespace}-other"
    kinds.create_namespace(other)
    return RbacEnvironment(kinds, namespace, other)


@dataclass
class Place:
    """What the server of the dashboard needs."""

    scene: ClusterViewSource
    gate: ClusterAuth
    hands: ClusterActions

    async def enter(self, token: Secret) -> tuple[Visitor, VisibleScope]:
        visitor = await self.gate.admit(token)
        assert visitor is not None
        return visitor, await self.gate.sight(visitor)

    async def sees(self, token: Secret, *names: str) -> VisibleScope:
        """Wait until these and no others are seen."""
        visitor, _ = await self.enter(token)
        sight = None

        async def seen() -> bool:
            nonlocal sight
            sight = await self.gate.sight(visitor)
            return {one.name for one in self.scene.picture(sight).resources} == set(names)

        await eventually_async(seen, PATIENCE, lambda: f"{names}: {self.scene.picture(sight)}")  # type: ignore[arg-type]
        assert sight is not None
        return sight

    def resource(self, name: str, sight: VisibleScope) -> ResourceView:
        return next(one for one in self.scene.picture(sight).resources if one.name == name)


@pytest.fixture
async def place(house: RbacEnvironment) -> AsyncIterator[Place]:
    """With an account that may read, ask, and nothing else."""
    house.person("dashboard")
    house.let_ask("dashboard")
    rules = [*READ, *(rule for rule in chart_rules(OWN_ROLE) if "list" in rule["verbs"])]
    for where in (house.namespace, house.other):
        house.grant("read", "dashboard", rules, namespace=where)
    account = house.cluster.service_account_kubeconfig(house.namespace, "dashboard")
    async with KubeClient(config.load_config(account)) as client:
        scene = ClusterViewSource(client, house.namespace, (house.namespace, house.other))
        gate = ClusterAuth(client, scene, house.namespace, sight_seconds=0.0)  # rights are as of now
        running = asyncio.create_task(scene.run())
        for reflector in scene.reflectors:
            await asyncio.wait_for(reflector.synced(), PATIENCE)
        yield Place(scene, gate, ClusterActions(client.config, house.namespace))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def order(action: DashboardAction, house: RbacEnvironment, **more: Any) -> ActionBody:
    return ActionBody(action=action, namespace=house.namespace, kind="Stoker", name="line-1", **more)


async def refused(place: Place, wanted: ActionBody, token: Secret) -> tuple[int, str]:
    visitor, _ = await place.enter(token)
    with pytest.raises(ActionRefused) as error:
        await place.hands.do(wanted, visitor)
    return error.value.status, error.value.sentence


async def test_a_viewer_sees_their_namespace_and_nothing_else(house: RbacEnvironment, place: Place) -> None:
    house.apply("Stoker", "line-1", {"git": GIT})
    house.apply("Stoker", "line-9", {"git": GIT}, namespace=house.other)
    viewer = house.person("viewer", "stoker-viewer")
    sight = await place.sees(viewer, "line-1")
    assert (sight.everything, sight.namespaces, sight.may_stop) == (
        False,
        frozenset({house.namespace}),
        False,
    )
    seen = place.resource("line-1", sight)
    assert (seen.id, seen.ref, seen.ready, seen.may) == (
        f"{house.namespace}/Stoker/line-1",
        "main",
        "Unknown",
        (),
    )
    outsider = house.person("outsider")
    await place.sees(outsider)
    elsewhere = GatewayKey(house.other, "Stoker", "line-9", "filler")
    assert place.scene.gateway(elsewhere, sight) is None

    version = place.scene.version()
    house.says("Stoker", "line-1", waiting_status())
    house.remove("Stoker", "line-9", house.other)
    await eventually_async(lambda: place.scene.version() >= version + 2, PATIENCE)
    changes = place.scene.changes(version, sight)
    assert changes is not None
    assert [one.name for one in changes.resources] == ["line-1"]
    assert (changes.gone, changes.destinations, changes.stop) == ((), (), None)
    assert place.scene.changes(10**9, sight) is None


async def test_a_gateway_is_shown_with_what_it_has_been_through(house: RbacEnvironment, place: Place) -> None:
    house.apply("Stoker", "line-1", {"git": GIT})
    house.says("Stoker", "line-1", waiting_status())
    viewer = house.person("viewer", "stoker-viewer")
    sight = await place.sees(viewer, "line-1")
    key = GatewayKey(house.namespace, "Stoker", "line-1", "filler")
    past = await eventually_async(lambda: place.scene.gateway(key, sight), PATIENCE)
    assert past is not None
    assert (past.gateway.state, past.gateway.held_by[0].user) == ("Synced", "ann")
    assert [(one.number, one.result) for one in past.history] == [(1, "success"), (2, "GatewayUnreachable")]
    assert [(one.id[:8], one.size) for one in past.snapshots] == [("20260501", 180_000_000)]
    waiting = place.resource("line-1", sight).approval
    assert waiting is not None
    assert (waiting.state, waiting.digest, waiting.gateways[0].modified) == ("Pending", DIGEST, 2)
    assert place.scene.gateway(key._replace(gateway="none"), sight) is None


async def test_an_editor_acts_and_a_viewer_does_not(house: RbacEnvironment, place: Place) -> None:
    house.apply("Stoker", "line-1", {"git": GIT})
    viewer, editor = house.person("viewer", "stoker-viewer"), house.person("editor", "stoker-editor")
    sight = await place.sees(editor, "line-1")
    assert {"approve", "pause", "sync", "rollback"} <= set(place.resource("line-1", sight).may)
    visitor, _ = await place.enter(editor)

    assert "is paused" in await place.hands.do(order(DashboardAction.PAUSE, house), visitor)
    assert house.get("Stoker", "line-1")["spec"]["paused"] is True
    await eventually_async(lambda: place.resource("line-1", sight).paused, PATIENCE)
    assert "is resumed" in await place.hands.do(order(DashboardAction.RESUME, house), visitor)

    await place.hands.do(order(DashboardAction.SYNC, house), visitor)
    annotations = house.get("Stoker", "line-1")["metadata"]["annotations"]
    assert annotations["stoker.io/nudged-source"] == "dashboard"
    assert annotations["stoker.io/nudged-at"] > "2026"

    await place.hands.do(order(DashboardAction.ROLLBACK, house, to_commit=COMMIT), visitor)
    assert house.get("Stoker", "line-1")["spec"]["rollback"]["toCommit"] == COMMIT
    await place.hands.do(order(DashboardAction.RELEASE, house), visitor)
    assert "rollback" not in house.get("Stoker", "line-1")["spec"]

    status, message = await refused(place, order(DashboardAction.PAUSE, house), viewer)
    assert (status, "cannot patch" in message) == (403, True)
    assert house.get("Stoker", "line-1")["spec"]["paused"] is False


async def test_a_second_rollback_does_not_undo_the_first(house: RbacEnvironment, place: Place) -> None:
    house.apply("Stoker", "line-1", {"git": GIT})
    editor = house.person("editor", "stoker-editor")
    visitor, _ = await place.enter(editor)
    first = "filler-20260212-103005"
    back = order(DashboardAction.ROLLBACK, house, to_snapshot=first, gateway="packer")
    status, message = await refused(place, back, editor)
    assert (status, message) == (409, f"{first} is no snapshot of gateway packer")

    back = order(DashboardAction.ROLLBACK, house, to_snapshot=first, gateway="filler")
    await place.hands.do(back, visitor)
    await place.hands.do(back, visitor)
    another = order(DashboardAction.ROLLBACK, house, to_snapshot="packer-20260212-103005", gateway="packer")
    for one in (another, order(DashboardAction.ROLLBACK, house, to_commit=COMMIT)):
        status, message = await refused(place, one, editor)
        assert (status, f"already rolled back to {first}" in message) == (409, True)
    assert house.get("Stoker", "line-1")["spec"]["rollback"] == {"toSnapshot": first}
    await place.hands.do(order(DashboardAction.RELEASE, house), visitor)
    both = (place.hands.do(one, visitor) for one in (back, another))
    ended = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(isinstance(one, ActionRefused) for one in ended) == [False, True], "one of two at once"


@pytest.mark.parametrize(
    ("action", "more", "status"),
    [
        (DashboardAction.APPROVE, {}, 400),
        (DashboardAction.ROLLBACK, {}, 400),
        (DashboardAction.ROLLBACK, {"to_commit": "main"}, 400),
        (DashboardAction.ROLLBACK, {"to_snapshot": "../x"}, 400),
        (DashboardAction.PAUSE, {"kind": "Secret"}, 400),
        (DashboardAction.PAUSE, {"name": "../secrets"}, 400),
        (DashboardAction.PAUSE, {"name": "none"}, 404),
    ],
)
async def test_an_order_that_makes_no_sense_is_a_sentence(
    action: DashboardAction, more: dict[str, str], status: int, house: RbacEnvironment, place: Place
) -> None:
    editor = house.person("editor", "stoker-editor")
    fields = {"namespace": house.namespace, "kind": "Stoker", "name": "line-1", **more}
    found, message = await refused(place, ActionBody(action=action, **fields), editor)
    assert (found, bool(message)) == (status, True)


async def test_an_approval_is_what_the_command_line_writes(house: RbacEnvironment, place: Place) -> None:
    for name in ("line-1", "line-2"):
        house.apply("Stoker", name, {"git": GIT})
        house.says("Stoker", name, waiting_status())
    editor = house.person("editor", "stoker-editor")
    visitor, _ = await place.enter(editor)
    status, message = await refused(place, order(DashboardAction.APPROVE, house, digest="a" * 64), editor)
    assert (status, DIGEST in message) == (409, True)

    await place.hands.do(order(DashboardAction.APPROVE, house, digest=DIGEST), visitor)
    async with KubeClient(config.load_config(house.cluster.kubeconfig())) as admin:
        await approve_plan(admin, ResourceName(house.namespace, "line-2"), DIGEST)
    by_page, by_hand = (
        {
            name: value
            for name, value in house.get("Stoker", one)["metadata"]["annotations"].items()
            if "approved" in name
        }
        for one in ("line-1", "line-2")
    )
    assert by_page.keys() == by_hand.keys()
    assert by_page["stoker.io/approved-by"] == f"system:serviceaccount:{house.namespace}:editor"
    assert by_page["stoker.io/approved-plan"] == by_hand["stoker.io/approved-plan"] == DIGEST


def held_status(*digests: str, reason: str = "DestinationUnmapped") -> dict[str, Any]:
    """The status of a resource whose gateways hold a plan, apart from any request for approval."""
    gateways = [
        {
            "name": f"filler-{number}",
            "podName": f"filler-{number}",
            "syncStatus": "Error",
            "errorMessage": "the mapping that gave 7 files was removed or has another destination",
            "pendingPlan": {"digest": digest, "reason": reason, "filesDeleted": 7},
        }
        for number, digest in enumerate(digests)
    ]
    return {"lastSyncRef": "main", "lastSyncCommit": COMMIT, "discoveredGateways": gateways}


@pytest.mark.parametrize("reason", ["DestinationUnmapped", "SourceEmpty"])
async def test_a_plan_that_a_gateway_holds_is_approved_on_the_page_and_on_the_command_line(
    house: RbacEnvironment, place: Place, reason: str
) -> None:
    for name in ("line-1", "line-2"):
        house.apply("Stoker", name, {"git": GIT})
        house.says("Stoker", name, held_status(DIGEST, "f" * 64, reason=reason))
    editor = house.person("editor", "stoker-editor")
    visitor, _ = await place.enter(editor)
    status, message = await refused(place, order(DashboardAction.APPROVE, house, digest="a" * 64), editor)
    assert (status, DIGEST in message) == (409, True)
    await place.hands.do(order(DashboardAction.APPROVE, house, digest=DIGEST), visitor)
    async with KubeClient(config.load_config(house.cluster.kubeconfig())) as admin:
        with pytest.raises(Stalled, match="name one of them"):
            await approve_plan(admin, ResourceName(house.namespace, "line-2"), None)
        assert "gateway filler-0" in await approve_plan(
            admin, ResourceName(house.namespace, "line-2"), DIGEST
        )
        house.says("Stoker", "line-2", held_status("f" * 64, reason=reason))
        await approve_plan(admin, ResourceName(house.namespace, "line-2"), None)
    written = [
        house.get("Stoker", name)["metadata"]["annotations"]["stoker.io/approved-plan"]
        for name in ("line-1", "line-2")
    ]
    assert written == [DIGEST, "f" * 64]


async def test_admission_decides_last_who_approves(
    house: RbacEnvironment, place: Place, tmp_path: Path
) -> None:
    with Admission(house.cluster, house.namespace, tmp_path) as admission:
        admission.prepare()
        admission.start()
        admission.configure()
        admission.until_trusted()
        house.apply("Stoker", "line-1", {"git": GIT, "approval": {"required": True, "teams": ["owners"]}})
        house.says("Stoker", "line-1", waiting_status())
        editor = house.person("editor", "stoker-editor")
        status, message = await refused(place, order(DashboardAction.APPROVE, house, digest=DIGEST), editor)
    assert (status, "none of the teams" in message) == (403, True)
    assert "annotations" not in house.get("Stoker", "line-1")["metadata"] or not [
        name for name in house.get("Stoker", "line-1")["metadata"]["annotations"] if "approved" in name
    ]


async def test_a_right_that_was_taken_away_is_gone(house: RbacEnvironment, place: Place) -> None:
    house.apply("Stoker", "line-1", {"git": GIT})
    editor = house.person("editor", "stoker-editor")
    before = await place.sees(editor, "line-1")
    visitor, again = await place.enter(editor)
    assert again == before, "nothing changed, so no page is sent everything again"
    house.objects().delete("RoleBinding", "editor-stoker-editor")
    after = await place.sees(editor)
    assert (after.namespaces, after != before) == (frozenset(), True)
    assert await refused(place, order(DashboardAction.PAUSE, house), editor)
    assert visitor.name.endswith(":editor")


async def test_only_a_token_that_is_good_now_opens_anything(house: RbacEnvironment, place: Place) -> None:
    token = house.person("viewer", "stoker-viewer")
    wrong = token.reveal()[:-8] + "AAAAAAAA"
    for one in ("", "x", wrong, "a\nb", "x" * 20_000, "ü"):
        assert await place.gate.admit(Secret(one)) is None
    visitor, _ = await place.enter(token)
    assert visitor.name == f"system:serviceaccount:{house.namespace}:viewer"
    assert f"system:serviceaccounts:{house.namespace}" in visitor.groups
    assert token.reveal() not in repr(visitor)

    house.objects().delete("ServiceAccount", "viewer")

    async def ended() -> bool:
        try:
            await place.gate.sight(visitor)
        except ActionRefused as error:
            return error.status == 401
        return False

    # The API server itself remembers a token that was good for ten seconds.
    await eventually_async(ended, 30.0, "the token is no longer good", interval=0.5)
    assert await place.gate.admit(token) is None
    assert (await eventually_async(lambda: _denied(place, house, visitor), PATIENCE)) == 401


async def _denied(place: Place, house: RbacEnvironment, visitor: Visitor) -> int:
    with pytest.raises(ActionRefused) as error:
        await place.hands.do(order(DashboardAction.PAUSE, house), visitor)
    return error.value.status


async def test_an_api_server_that_is_away_lets_no_user_in(
    house: RbacEnvironment, place: Place, fault_proxy: FaultProxy
) -> None:
    token = house.person("viewer", "stoker-viewer")
    far = config.load_config(house.cluster.kubeconfig(server=f"https://{fault_proxy.address}"))
    async with KubeClient(far) as client:
        gate = ClusterAuth(client, place.scene, house.namespace)
        visitor = await gate.admit(token)
        assert visitor is not None
        with fault_proxy.refusing():
            fault_proxy.inject(Fault(FaultKind.RESET))
            with pytest.raises(Retry, match="the API server could not be asked") as error:
                await gate.sight(visitor)
            assert error.value.reason is Reason.UNREACHABLE
            with pytest.raises(Retry):
                await gate.admit(Secret("another"))
            with pytest.raises(ActionRefused) as refusal:
                await ClusterActions(far, house.namespace).do(order(DashboardAction.PAUSE, house), visitor)
    assert refusal.value.status == 502


async def test_an_account_without_review_permission_lets_no_user_in(
    house: RbacEnvironment, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is not the visitor who lacks a permission, so the visitor does not get 403."""
    token = house.person("viewer", "stoker-viewer")
    unable = house.person("unable")
    account = config.load_config(house.cluster.service_account_kubeconfig(house.namespace, "unable"))
    async with KubeClient(account) as client:
        gate = ClusterAuth(client, place.scene, house.namespace)
        with pytest.raises(Retry, match="the log says why"):
            await gate.admit(token)
    assert unable
    assert "tokenreviews" in capfd.readouterr().err


async def test_the_emergency_stop_needs_its_permission(house: RbacEnvironment, place: Place) -> None:
    editor = house.person("editor", "stoker-editor")
    chief = house.person("chief", "stoker-viewer", "stoker-emergency-stop")
    sight = await place.sees(chief)
    assert (sight.may_stop, (await place.sees(editor)).may_stop) == (True, False)
    assert not place.scene.picture(sight).stop.active
    version = place.scene.version()
    visitor, _ = await place.enter(chief)

    stop, go_on = ActionBody(action=DashboardAction.STOP), ActionBody(action=DashboardAction.GO_ON)
    assert "everything is paused" in await place.hands.do(stop, visitor)
    assert house.objects().get("ConfigMap", PAUSE)["data"] == {"paused": "true"}
    await eventually_async(lambda: place.scene.picture(sight).stop.active, PATIENCE)
    changes = place.scene.changes(version, sight)
    assert changes is not None
    assert changes.stop is not None
    assert changes.stop.since is not None

    assert "everything is resumed" in await place.hands.do(go_on, visitor)
    await eventually_async(lambda: not place.scene.picture(sight).stop.active, PATIENCE)
    status, _ = await refused(place, stop, editor)
    assert (status, house.objects().get("ConfigMap", PAUSE)["data"]) == (403, {"paused": "false"})


async def test_destinations_are_shown_with_their_last_commits(house: RbacEnvironment, place: Place) -> None:
    url = "https://git.example.net/plant/cluster.git"
    house.apply("GitRepoConfig", "repo", {"repoUrl": url, "allowedBranches": ["main"]})
    spec = {"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "clusters/prod"}
    house.apply("GitDestination", "production", spec)
    commits = [
        {"commit": COMMIT, "author": "ann", "subject": "[UPDATE] a", "time": "2026-05-01T08:00:00Z"},
        {"commit": "b" * 40, "subject": "[CREATE] b", "time": "2026-05-01T07:00:00Z"},
    ]
    commits[0]["waited"] = "1.9s"
    at = "2026-05-01T08:00:00Z"
    status = {"lastCommit": COMMIT, "lastPushTime": at, "recentCommits": commits}
    house.says("GitDestination", "production", status)
    viewer = house.person("viewer", "stoker-viewer")
    _, sight = await place.enter(viewer)
    eventual = await eventually_async(
        lambda: [one for one in place.scene.picture(sight).destinations if one.repo and one.recent], PATIENCE
    )
    (seen,) = eventual
    assert (seen.repo, seen.branch, seen.folder) == (url, "main", "clusters/prod")
    assert (seen.commit, seen.authors, seen.lag_seconds) == (COMMIT, ("ann",), 1.9)
    assert [one.subject for one in seen.recent] == ["[UPDATE] a", "[CREATE] b"]

    narrow = house.person("narrow")
    rule = {"apiGroups": ["configbutler.ai"], "resources": ["gitdestinations"], "verbs": ["list"]}
    house.grant("destinations", "narrow", [rule])
    visitor, _ = await place.enter(narrow)

    async def seen_by_narrow() -> list[str]:
        return [one.repo for one in place.scene.picture(await place.gate.sight(visitor)).destinations]

    assert await eventually_async(seen_by_narrow, PATIENCE) == [""], "the repository is another object"
    version = place.scene.version()
    house.remove("GitDestination", "production")
    await eventually_async(lambda: not place.scene.picture(sight).destinations, PATIENCE)
    changes = place.scene.changes(version, sight)
    assert changes is not None
    assert changes.gone_destinations == (f"{house.namespace}/GitDestination/production",)
