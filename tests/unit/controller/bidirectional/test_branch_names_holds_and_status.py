"""Bidirectional sync without git: branch names, parts of change sets, texts for people, and the status."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stoker.api.spec.status import GatewayChangesStatus, GatewayStatus, SyncStatus
from stoker.controller.bidirectional.branch_name import branch_for
from stoker.controller.bidirectional.holds import MAX_BYTES, can_never_fit, check_room, holds_after
from stoker.controller.bidirectional.inbox import change_sets_in, stray_keys
from stoker.controller.bidirectional.messages import ChangeSetOrigin, change_commit, request_description
from stoker.controller.bidirectional.status import (
    bidirectional_ready,
    conflict_detected,
    gateway_changes,
    read_standings,
)
from stoker.controller.bidirectional.step import gateways_behind
from stoker.controller.bidirectional.three_way_decision import MergeDecision
from stoker.controller.bidirectional.types import BidirectionalResult, GatewayChangesState
from stoker.controller.cache.gateways import FleetGateway, GatewayFleet
from stoker.controller.cache.objects import ResourceKey, decode_config_map
from stoker.controller.cache.pods import AgentState, CachedPod
from stoker.controller.owned.rbac import rules_for
from stoker.domain import protocol
from stoker.domain.errors import InvalidValue, Retry
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.intent import GatewayIntent, ResourceIdentity, SyncResourceKind
from stoker.domain.intent.policies import BidirectionalPolicy, ConflictStrategy, GatewayPolicies
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import (
    ChangeAction,
    ChangedFile,
    ChangeSet,
    ChangeSetReply,
    GatewayReport,
    GatewayTarget,
    SyncMode,
)
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.kube.watch.store import ObjectKey

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
IDENTITY = ResourceIdentity(SyncResourceKind.STOKER, "plant", "line")
MAIN = GitRef("main")
POLICY = BidirectionalPolicy(enabled=True)


def intent(gateway: str) -> GatewayIntent:
    return GatewayIntent(
        IDENTITY,
        gateway,
        SourceIntent(RepoUrl("https://git.test/plant.git"), MAIN),
        FilesIntent(()),
        TemplateValues(gateway_name=gateway, namespace="plant", vars={"line": "7"}),
        GatewayPolicies(),
    )


def branch(template: str, gateway: str = "press", *, create_pr: bool = True) -> str:
    policy = replace(POLICY, target_branch=template, create_pr=create_pr)
    return branch_for(intent(gateway), policy, MAIN)


def test_each_gateway_has_a_branch_of_its_own() -> None:
    assert branch("gateway-changes/{{.Namespace}}") == "gateway-changes/plant/press"
    assert branch("changes/{{.GatewayName}}") == "changes/press"
    assert branch("changes/{{.Vars.line}}") == "changes/7/press"
    assert branch("refs/heads/changes") == "changes/press"
    assert branch("{{.Ref}}-changes") == "main-changes/press"


def test_names_that_no_branch_can_have_are_made_fit_and_stay_apart() -> None:
    odd = [branch("x", name) for name in ("Presse 1", "Presse-1", "Presse:1", "a..b", "ü", "x.lock", "@{")]
    assert len(set(odd)) == len(odd)
    assert odd[1] == "x/Presse-1"
    assert all(GitRef(name) for name in odd)


@pytest.mark.parametrize("name", ["[skip ci]", "x [CI SKIP] y", "***NO_CI***", "closes #1", "@plant/owners"])
def test_no_name_is_a_command_to_a_forge_or_a_ci_service(name: str) -> None:
    made = ChangedFile(f"projects/{name}", f"site/{name}", ChangeAction.WRITTEN, "", "", b"x")
    changes = ChangeSet("20260101-000001", "press", CommitId("1" * 40), (made,), "2026-01-01T00:00:00Z")
    verdict = MergeDecision({made.repo_path: b"x"}, (made,), (), ())
    message = change_commit(changes, verdict, ChangeSetOrigin(IDENTITY, name)).message
    for sign in ("[", "]", "#", "@", "***"):
        assert sign not in message
    assert "site/" in message


def test_the_followed_ref_is_written_only_where_that_is_explicit() -> None:
    assert branch("main", create_pr=False) == "main"
    assert branch("main") == "main/press"
    with pytest.raises(InvalidValue, match="the ref that is followed"):
        branch("{{.GatewayName}}", "main", create_pr=False)
    with pytest.raises(InvalidValue, match="no value"):
        branch("changes/{{.Commit}}")


def test_change_sets_are_found_by_the_names_of_their_keys() -> None:
    maps = {
        "a": ["line.1.press.20260101-000000.0", "saw.20260101-000001-2.0", "nonsense", "x.20260101-000000.9"],
        "b": ["line.1.press.20260101-000000.1", "late.20251231-000000.1"],
    }
    found = {(one.gateway_key, one.id): one for one in change_sets_in(maps)}
    assert list(found) == [
        ("late", "20251231-000000"),
        ("line.1.press", "20260101-000000"),
        ("saw", "20260101-000001-2"),
    ]
    whole = found["line.1.press", "20260101-000000"]
    assert whole.chunks == (
        ("a", "line.1.press.20260101-000000.0"),
        ("b", "line.1.press.20260101-000000.1"),
    )
    assert whole.complete
    assert not found["late", "20251231-000000"].complete
    assert stray_keys(maps) == {"a": ["nonsense", "x.20260101-000000.9"]}


def test_of_what_is_binary_only_the_names_are_kept() -> None:
    seen = decode_config_map(
        b'{"metadata":{"name":"m"},"data":{"a":"1"},"binaryData":{"k":"' + b"A" * 10_000 + b'"}}'
    )
    assert (seen.metadata.name, seen.data, list(seen.sizes)) == ("m", {"a": "1"}, ["k"])
    assert seen.sizes["k"] >= 10_000


def test_agents_may_write_the_maps_only_while_something_may_flow_back() -> None:
    names = [f"stoker-changes-{number}-line" for number in range(8)]
    assert rules_for(KEY, 0, changes=True)[1]["resourceNames"] == ["stoker-status-line", *names]
    assert rules_for(KEY, 0)[1]["resourceNames"] == ["stoker-status-line"]


def test_what_is_held_must_fit_into_the_map() -> None:
    assert holds_after(ConflictStrategy.GIT_WINS, ["a"], ["b"]) == ()
    assert holds_after(ConflictStrategy.MANUAL, ["b"], ["a", "b"]) == ("a", "b")
    much = ChangeSetReply("x", holds=tuple("p" * 100 for _ in range(MAX_BYTES // 100)))
    with pytest.raises(Retry, match="merge or close"):
        check_room({"other": much}, "press", ["a"])
    check_room({"press": much}, "press", ["a"])


def test_who_stays_at_another_commit_or_only_plans_is_behind() -> None:
    new, old = CommitId("b" * 40), CommitId("a" * 40)
    orders = {
        "lab": GatewayTarget(new, plan="d" * 64),
        "saw": GatewayTarget(new, SyncMode.PLAN),
        "press": GatewayTarget(old),
    }
    assert gateways_behind(orders, new) == {"saw", "press"}


def test_no_gateway_holds_so_much_that_all_others_wait() -> None:
    gateways = 10
    paths = [f"projects/{number:091}" for number in range(MAX_BYTES // 103)]
    with pytest.raises(Retry, match="merge or close"):
        check_room({}, "greedy", paths[: len(paths) * 6 // 10], gateways)
    much = paths[: len(paths) * 4 // 10]
    check_room({}, "greedy", much, gateways)  # what is free may be used
    answers = {"greedy": ChangeSetReply("x", holds=tuple(much))}
    own = paths[: len(paths) * 4 // 10 // gateways]
    for number in range(gateways - 1):
        check_room(answers, f"modest-{number}", own, gateways)
        answers[f"modest-{number}"] = ChangeSetReply("x", holds=tuple(own))


def test_what_can_never_be_held_does_not_wait_for_room() -> None:
    answers = {f"other-{number}": ChangeSetReply("x") for number in range(300)}
    wanted = [f"projects/{number:091}" for number in range(MAX_BYTES // 103)]
    told = []
    for count in range(1, len(wanted), 50):
        told.append(can_never_fit(answers, "press", wanted[:count], 301))
        if not told[-1]:
            check_room(answers, "press", wanted[:count], 301)  # raises where it has to wait
    assert set(told) == {False, True}
    assert not can_never_fit({}, "press", wanted, 1)


def file(path: str, base: str = "", action: ChangeAction = ChangeAction.WRITTEN) -> ChangedFile:
    return ChangedFile(path, f"site/{path}", action, base, "b" * 40, b"")


def test_nothing_that_a_gateway_is_called_acts_in_a_message_or_a_description() -> None:
    odd = file("a`|b\n@everybody <script>")
    verdict = MergeDecision({odd.repo_path: b""}, (odd,), (odd,), ())
    changes = ChangeSet("20260101-000000", "press", CommitId("a" * 40), (odd,), "not a time")
    origin = ChangeSetOrigin(IDENTITY, "press\nReviewed-by: me <a@b>")
    commit = change_commit(changes, verdict, origin)
    assert "\nReviewed-by" not in commit.message
    assert commit.when == 0
    body = request_description(
        origin, "main", ConflictStrategy.MANUAL, changes=changes, verdict=verdict, conflicts=[odd.path]
    )
    assert "\n@everybody" not in body
    for line in body.splitlines():
        before, _, after = line.partition("<script>")
        assert not after or before.count("`") % 2, "it is inside code"


def test_the_same_set_is_the_same_commit() -> None:
    one = file("a")
    verdict = MergeDecision({one.repo_path: b""}, (one,), (), ())
    changes = ChangeSet("20260101-000000", "press", CommitId("a" * 40), (one,), "2026-01-01T00:00:00Z")
    origin = ChangeSetOrigin(IDENTITY, "press")
    assert change_commit(changes, verdict, origin) == change_commit(changes, verdict, origin)
    assert change_commit(changes, verdict, origin).when == 1767225600


def gateway() -> FleetGateway:
    pod = CachedPod("gateway-0", "plant", {}, {}, "default", AgentState.READY)
    return FleetGateway(pod, "press", "press", target="press")


def watched_gateway() -> FleetGateway:
    return replace(gateway(), report=GatewayReport("press", changes=protocol.GatewayChangesReport()))


STANDING = GatewayChangesState(
    "changes/press",
    "https://forge.test/1",
    ("a.json",),
    (),
    Reason.CONFLICT_DETECTED,
    "changed in git as well: a.json",
)


def test_the_status_is_where_a_new_leader_finds_what_was_open() -> None:
    fleet = GatewayFleet((gateway(),))
    said = gateway_changes(gateway(), STANDING, ChangeSetReply("x", holds=("a.json", "b.json")))
    assert said == GatewayChangesStatus(
        held=2,
        paths=("a.json",),
        reason="ConflictDetected",
        message="changed in git as well: a.json",
        branch="changes/press",
        pull_request="https://forge.test/1",
    )
    entry = GatewayStatus(name="press", pod_name="gateway-0", namespace="plant", changes=said)
    assert read_standings(SyncStatus(discovered_gateways=(entry,)), fleet) == {"press": STANDING}
    assert gateway_changes(gateway(), None, None) is None
    assert read_standings(SyncStatus(), fleet) == {}


def test_conditions_say_who_is_watched_what_is_stuck_and_what_is_in_conflict() -> None:
    fleet = GatewayFleet((watched_gateway(),))
    assert bidirectional_ready(fleet, {"press": STANDING}) == (
        True,
        Reason.WATCHERS_ACTIVE,
        "1 of 1 gateways watched",
    )
    stuck = GatewayChangesState(reason=Reason.FORGE_REFUSED, message="no")
    assert bidirectional_ready(fleet, {"press": stuck}) == (False, Reason.FORGE_REFUSED, "press: no")
    assert conflict_detected(BidirectionalResult(standings={"press": STANDING})) == (
        True,
        Reason.CONFLICT_DETECTED,
        "git and the gateway changed the same files: press (a.json)",
    )
    assert conflict_detected(BidirectionalResult())[0] is False


def test_a_gateway_is_watched_when_its_agent_says_so_and_not_before() -> None:
    silent = replace(gateway(), report=GatewayReport("press"))
    for early in (gateway(), silent):
        assert bidirectional_ready(GatewayFleet((watched_gateway(), early)), {}) == (
            False,
            Reason.AGENT_STARTING,
            "1 of 2 gateways watched; not yet press",
        )
    alone = replace(gateway(), pod=msgspec.structs.replace(gateway().pod, agent=AgentState.NONE))
    assert bidirectional_ready(GatewayFleet((alone, watched_gateway())), {})[0] is True, (
        "who has no agent is never watched"
    )
