"""From pod, map and profile to what an agent does: a table of sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.agent.desired_state import DesiredState, ReportAddress, build_direction
from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.api.agent_spec import AgentSpec, agent_spec_of, decode, encode
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import PodFacts, merge_spec
from stoker.domain.errors import InvalidValue, StokerError, Wait
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import BinaryPolicy
from stoker.domain.intent.policies import DriftMode
from stoker.domain.protocol import AgentMetadata, GatewayTarget, RollbackRequest, StatusKeyMode, SyncMode
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl

FIRST, SECOND, THIRD = (CommitId(digit * 40) for digit in "123")
IDENTITY = AgentIdentity("gateway-0", "plant", "line", gateway="filler")
SAID = AgentMetadata(commit=FIRST, ref=GitRef("main"), git_url=RepoUrl("https://git.example.test/p.git"))
POD = PodFacts(
    "gateway-0",
    "plant",
    annotations={
        "stoker.io/cr-name": "line",
        "stoker.io/gateway-name": "filler",
        "stoker.io/service-path": "s",
    },
)


def spec_of(spec: Mapping[str, object]) -> AgentSpec:
    git = {"repo": "https://git.example.test/p.git", "ref": "main"}
    meta = {"name": "line", "namespace": "plant", "generation": 7}
    wire = {"metadata": meta, "spec": {"git": git, "gateway": {"filesOnly": True}, **spec}}
    return decode(encode(AgentSpec(merge_spec(from_wire(wire, Stoker)).resource)))


def decided(
    metadata: AgentMetadata = SAID,
    spec: Mapping[str, object] | None = None,
    profile: Mapping[str, object] | None = None,
    **annotations: str,
) -> DesiredState:
    ours = {f"stoker.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    pod = replace(POD, annotations={**POD.annotations, **ours})
    known = agent_spec_of(metadata, IDENTITY.owner) if spec is None else spec_of(spec)
    found = None
    if profile is not None:
        mapping = {"source": "a", "destination": "projects/a", "type": "dir"}
        wire = {"metadata": {"name": "p", "namespace": "plant"}, "spec": {"mappings": [mapping], **profile}}
        found = from_wire(wire, SyncProfile)
    return build_direction(IDENTITY, AgentPaths(Path("/")), pod, metadata, known, found)


def refused(*args: object, **kwargs: object) -> StokerError:
    with pytest.raises(StokerError) as why:
        decided(*args, **kwargs)  # type: ignore[arg-type]
    return why.value


def test_the_commit_is_the_resources_unless_the_gateway_has_one_of_its_own() -> None:
    assert decided().commit == FIRST
    assert decided(replace(SAID, targets={"other": GatewayTarget(SECOND)})).commit == FIRST
    assert decided(replace(SAID, targets={"filler": GatewayTarget(SECOND)})).commit == SECOND
    both = {"filler": GatewayTarget(SECOND), "gateway-0": GatewayTarget(THIRD)}
    assert decided(replace(SAID, targets=both)).commit == THIRD, "a pod's own target is meant for it alone"


def test_the_pods_own_ref_is_resolved_by_the_agent_and_wins_over_targets() -> None:
    said = decided(replace(SAID, targets={"filler": GatewayTarget(SECOND)}), ref_override="hotfix")
    assert (said.commit, said.job.source.ref) == (None, "hotfix")


def test_a_rollback_wins_over_everything_and_may_go_back() -> None:
    going_back = replace(
        SAID, rollback=RollbackRequest("r", to_commit=THIRD), targets={"filler": GatewayTarget(SECOND)}
    )
    said = decided(going_back, {"git": {"repo": "https://x.test/p", "ref": "main", "allowRewrite": False}})
    assert (said.commit, said.job.source.allow_rewrite) == (THIRD, True)
    assert decided(going_back, ref_override="hotfix").commit == THIRD
    snapshot = replace(SAID, rollback=RollbackRequest("r", to_snapshot="s"))
    assert decided(snapshot).commit == FIRST, "what cannot be done does not keep the gateway from its commit"


def test_without_a_commit_it_waits() -> None:
    why = refused(replace(SAID, commit=None))
    assert isinstance(why, Wait)
    assert why.reason is Reason.REF_NOT_RESOLVED


def test_the_ref_is_the_one_that_the_controller_follows() -> None:
    assert decided(replace(SAID, ref=GitRef("v2")), {}).job.source.ref == "v2"


@pytest.mark.parametrize(
    ("metadata", "profile", "gate"),
    [
        (SAID, None, None),
        (replace(SAID, targets={"filler": GatewayTarget(FIRST, SyncMode.PLAN)}), None, Reason.PLAN_PENDING),
        (replace(SAID, targets={"other": GatewayTarget(FIRST, SyncMode.PLAN)}), None, None),
        (SAID, {"dryRun": True}, Reason.DRY_RUN),
        (
            replace(SAID, targets={"filler": GatewayTarget(FIRST, SyncMode.PLAN)}),
            {"dryRun": True},
            Reason.DRY_RUN,
        ),
    ],
)
def test_what_may_only_be_planned(
    metadata: AgentMetadata, profile: Mapping[str, object] | None, gate: Reason | None
) -> None:
    named = {"sync_profile": "p"} if profile is not None else {}
    assert decided(metadata, {}, profile, **named).gate is gate


APPROVAL = {"approval": {"required": True}}
STAGE = {"name": "one", "gateways": ["filler"], "requireApproval": True}


@pytest.mark.parametrize(
    "spec",
    [APPROVAL, {"deployment": {"strategy": "canary", "stages": [STAGE]}}],
    ids=["the resource", "a stage"],
)
def test_a_change_that_takes_an_approval_is_only_planned_until_the_controller_released_it(
    spec: Mapping[str, object],
) -> None:
    released = replace(SAID, targets={"filler": GatewayTarget(FIRST)})
    assert decided(SAID, spec).gate is Reason.PLAN_PENDING, "the controller is away and named no target"
    assert (
        decided(replace(SAID, targets={"filler": GatewayTarget(FIRST, SyncMode.PLAN)}), spec).gate is not None
    )
    assert decided(released, spec).gate is None
    assert decided(released, spec, ref_override="hotfix").gate is Reason.PLAN_PENDING
    assert decided(SAID, spec, ref_override="hotfix").gate is Reason.PLAN_PENDING
    going_back = replace(SAID, rollback=RollbackRequest("r", to_commit=THIRD))
    assert decided(going_back, spec).gate is None, "a rollback is asked for in the spec"


def test_plans_are_approved_by_the_pod_and_by_the_target() -> None:
    said = decided(
        replace(SAID, targets={"filler": GatewayTarget(FIRST, plan="b" * 64)}), approved_plan="a" * 64
    )
    assert said.approved == {PlanApproval("a" * 64, "pod"), PlanApproval("b" * 64, f"commit {FIRST}")}


@pytest.mark.parametrize("approval", [{"required": True}, {"teams": ["plant-leads"]}])
def test_where_approvers_are_named_the_pods_own_approval_does_not_count(
    approval: Mapping[str, object],
) -> None:
    released = replace(SAID, targets={"filler": GatewayTarget(FIRST, plan="b" * 64)})
    said = decided(released, {"approval": approval}, approved_plan="a" * 64)
    assert {one.digest for one in said.approved} == {"b" * 64}, "only what the controller released"


def test_any_of_three_can_pause() -> None:
    assert not decided(spec={}).paused
    assert decided(replace(SAID, paused=True), {}).paused
    assert decided(spec={"paused": True}).paused
    assert decided(spec={}, profile={"paused": True}, sync_profile="p").paused


def test_the_report_goes_to_the_gateways_key_or_the_pods_and_to_its_shard() -> None:
    assert decided().address == ReportAddress("stoker-status-line", "filler")
    by_pod = replace(SAID, status_key_mode=StatusKeyMode.POD, status_shards={"gateway-0": 3})
    assert decided(by_pod).address == ReportAddress("stoker-statusshard-3-line", "gateway-0")


def test_periods_drift_and_budget_come_from_the_resource_and_its_profile() -> None:
    said = decided(spec={"drift": {"mode": "restore"}, "agent": {"startupBudget": "42s"}})
    assert (said.intent.policies.drift.mode, said.startup_budget, said.generation) == (
        DriftMode.RESTORE,
        42.0,
        7,
    )
    assert (said.intent.sync_period, decided(sync_period="5").intent.sync_period) == (30.0, 5.0)
    by_profile = decided(spec={}, profile={"syncPeriod": 12}, sync_profile="p")
    assert (by_profile.intent.sync_period, by_profile.intent.profile) == (12.0, "p")


def test_the_policy_for_binaries_reaches_the_pass() -> None:
    assert decided(spec={}).job.binaries is BinaryPolicy.ALLOW
    assert decided(spec={"ignition": {"binaryPolicy": "refuse"}}).job.binaries is BinaryPolicy.REFUSE


def test_the_sync_object_stays_while_only_the_commit_and_the_approvals_change() -> None:
    kept = decided().keeper_key
    assert decided(replace(SAID, commit=SECOND, trigger="webhook"), approved_plan="a" * 64).keeper_key == kept
    assert decided(exclude_patterns="*.tmp").keeper_key != kept
    assert decided(replace(SAID, ref=GitRef("other"))).keeper_key != kept


NIGHTLY = {"maintenanceWindows": [{"cron": "0 2 * * *", "duration": "1h"}]}


def test_a_change_waits_for_its_window_and_a_rollback_does_not() -> None:
    said = decided(spec=NIGHTLY)
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    waits = said.waits(noon)
    assert waits is not None
    assert (waits.reason, waits.when) == (Reason.WAITING_FOR_WINDOW, "2026-11-17T02:00:00Z")
    assert said.waits(noon.replace(hour=2)) is None
    back = replace(SAID, rollback=RollbackRequest("r1", SECOND))
    assert decided(back, spec=NIGHTLY).waits(noon) is None
    assert decided(spec={}).waits(noon) is None


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "61 * * * *"])
def test_a_window_that_cannot_be_is_refused_when_it_is_read(cron: str) -> None:
    windows = {"maintenanceWindows": [{"cron": cron, "duration": "1h"}]}
    assert "maintenanceWindows" in refused(spec=windows).message


def test_gates_and_ignored_drift_are_part_of_the_key_of_the_sync_object() -> None:
    kept = decided(spec={}).keeper_key
    asked = {"validation": {"webhook": {"url": "https://validate.example.test/"}}}
    assert decided(spec=asked).keeper_key != kept
    assert decided(spec={"drift": {"ignore": [{"path": "config/**"}]}}).keeper_key != kept


def test_ssh_without_known_hosts_is_a_warning() -> None:
    git = {
        "repo": "ssh://git@git.example.test/p.git",
        "ref": "main",
        "auth": {"sshKey": {"secretRef": {"name": "git", "key": "ssh-privatekey"}}},
    }
    assert any("known_hosts" in notice.message for notice in decided(spec={"git": git}).notices)


def test_nothing_to_map_and_a_profile_that_is_not_there_are_refused() -> None:
    assert refused(spec={}, sync_profile="absent").reason is Reason.PROFILE_NOT_FOUND
    assert refused(spec={}, service_path="").reason is Reason.NO_MAPPINGS
    assert refused(spec={}, sync_profile="Not A Name").reason is Reason.INVALID_VALUE


def test_the_resource_travels_whole_but_for_what_is_not_the_agents() -> None:
    alerting = {
        "enabled": True,
        "webhooks": [{"type": "slack", "url": "https://hooks.test/s3cret", "on": ["SyncFailed"]}],
    }
    spec = spec_of({"alerting": alerting, "siteNumber": "42", "drift": {"mode": "off"}})
    text = encode(replace(spec, cluster_name="east", alone=False, require_known_hosts=True))
    assert "s3cret" not in text
    read = decode(text)
    assert (read.cluster_name, read.alone, read.require_known_hosts) == ("east", False, True)
    assert encode(read) == text
    said = build_direction(IDENTITY, AgentPaths(), POD, SAID, read, None)
    assert (said.intent.values.site_number, said.intent.policies.drift.mode) == ("42", DriftMode.OFF)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"version":2,"resource":{}}', "version 2"),
        ('{"version":1,"resource":{"kind":"Pod"}}', "kind 'Pod' is not one of"),
        ('{"version":1,"resource":{"kind":"Stoker","metadata":{},"spec":{"git":7}}}', "spec.git"),
        ("[]", "agentSpec"),
    ],
)
def test_an_agent_spec_that_cannot_be_read_is_named(text: str, named: str) -> None:
    with pytest.raises(InvalidValue, match="agentSpec") as why:
        agent_spec_of(replace(SAID, agent_spec=text), IDENTITY.owner)
    assert named in why.value.message


def test_the_spec_of_another_resource_is_refused() -> None:
    text = encode(spec_of({}))
    with pytest.raises(InvalidValue, match="belongs to Stoker plant/another"):
        agent_spec_of(replace(SAID, agent_spec=text), replace(IDENTITY, resource="another").owner)
