"""Conditions of a reverser's resources, as sentences."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stoker.domain.errors import Stalled, StokerError, Wait
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import ApiError
from stoker.kube.client.resources import ApiResource
from stoker.kube.runtime.conditions import ConditionStamp
from stoker.reverser.selection.kinds import InertName, InertReason
from stoker.reverser.selection.rules import RuleRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.status.conditions import (
    DesiredCondition,
    DestinationFacts,
    LeaseFacts,
    RuleFacts,
    config_aspects,
    destination_aspects,
    merge_conditions,
    rule_aspects,
)
from stoker.reverser.writer.deletion_brake import HeldDeletionPlan
from stoker.reverser.writer.ownership_marker import FolderOwnership, OwnershipMarker

MAPS = WatchedKind(ApiResource("", "v1", "configmaps", "ConfigMap", namespaced=True), "shop")
SERVICES = WatchedKind(ApiResource("", "v1", "services", "Service", namespaced=True), "shop")
DENIED = Stalled("the server does not let us in", reason=Reason.AUTH_FAILED)
OPEN = DestinationFacts(is_open=True, marker=OwnershipMarker(FolderOwnership.OURS))


def find(aspects: list[DesiredCondition], type_: Type) -> tuple[bool | None, Reason]:
    (found,) = (each for each in aspects if each.type is type_)
    return found.status, found.reason


def test_every_condition_of_the_paper_is_there() -> None:
    assert [each.type for each in destination_aspects(OPEN)] == [
        Type.READY,
        Type.OWNERSHIP_CONFLICT,
        Type.MARKER_CONFLICT,
        Type.LEASE_NOT_ACQUIRED,
        Type.SECRETS_IN_CLEAR,
        Type.SECRETS_EXCLUDED,
    ]
    assert [each.type for each in rule_aspects(RuleFacts())] == [
        Type.READY,
        Type.ACCESS_DENIED,
        Type.WATCH_ERRORED,
        Type.DISCOVERY_DEGRADED,
        Type.REPO_PUSH_FAILED,
    ]


@pytest.mark.parametrize(
    ("truth", "status", "reason"),
    [
        (OPEN, True, Reason.INITIALIZED),
        (DestinationFacts(), None, Reason.RECONCILING),
        (DestinationFacts(error=DENIED), False, Reason.AUTH_FAILED),
        (DestinationFacts(lease=LeaseFacts(False, "other")), None, Reason.RECONCILING),
        (DestinationFacts(error=StokerError("oops")), False, Reason.ERROR),
    ],
)
def test_readiness_of_a_destination(truth: DestinationFacts, status: bool | None, reason: Reason) -> None:
    assert find(destination_aspects(truth), Type.READY) == (status, reason)


def test_where_nothing_is_to_be_written_no_lease_is_held() -> None:
    aspects = destination_aspects(DestinationFacts(error=DENIED, lease=None))
    assert find(aspects, Type.LEASE_NOT_ACQUIRED) == (False, Reason.NONE_FOUND)


def test_an_object_that_is_not_written_makes_its_destination_unready() -> None:
    truth = DestinationFacts(is_open=True, unwritten={"a.yaml": "is a folder", "b.yaml": "is one, too"})
    (ready, *_) = destination_aspects(truth)
    assert (ready.status, ready.reason) == (False, Reason.OBJECT_NOT_WRITTEN)
    assert ready.message == "2 objects cannot be written; a.yaml: is a folder"


def test_a_loop_is_named_by_its_path() -> None:
    (ready, *_) = destination_aspects(DestinationFacts(is_open=True, looping=("torn.yaml",)))
    assert ready.reason is Reason.LOOP_DETECTED
    assert ready.message.startswith("1 file changed back and forth and is held until it rests; torn.yaml")


def test_the_folder_of_another_is_a_conflict_where_it_must_not_be_shared() -> None:
    theirs = OwnershipMarker(FolderOwnership.THEIRS, "somebody")
    exclusive = destination_aspects(DestinationFacts(marker=theirs, exclusive=True))
    assert find(exclusive, Type.OWNERSHIP_CONFLICT) == (True, Reason.MARKER_MISMATCH)
    assert find(exclusive, Type.MARKER_CONFLICT) == (False, Reason.NONE_FOUND)
    shared = destination_aspects(DestinationFacts(marker=theirs))
    assert find(shared, Type.OWNERSHIP_CONFLICT) == (False, Reason.NONE_FOUND)
    assert find(shared, Type.MARKER_CONFLICT) == (True, Reason.MARKER_MISMATCH)


def test_a_marker_that_cannot_be_written_is_reported() -> None:
    aspects = destination_aspects(DestinationFacts(marker_trouble="is a folder in the repository"))
    assert find(aspects, Type.MARKER_CONFLICT) == (True, Reason.MARKER_WRITE_FAILED)


@pytest.mark.parametrize(
    ("lease", "status", "reason"),
    [
        (LeaseFacts(True), False, Reason.LEASE_ACQUIRED),
        (LeaseFacts(False, "dead"), True, Reason.LEASE_HELD_ELSEWHERE),
        (LeaseFacts(False, "", DENIED), True, Reason.LEASE_API_ERROR),
        (LeaseFacts(False), None, Reason.RECONCILING),
    ],
)
def test_the_state_of_the_lease(lease: LeaseFacts, status: bool | None, reason: Reason) -> None:
    assert find(destination_aspects(DestinationFacts(lease=lease)), Type.LEASE_NOT_ACQUIRED) == (
        status,
        reason,
    )


def test_a_rule_that_watches_and_has_brought_everything_is_ready() -> None:
    (ready, *_) = rule_aspects(RuleFacts(watched=[MAPS, SERVICES], seeded=True))
    assert (ready.status, ready.message) == (True, "2 kinds are watched")
    (ready, *_) = rule_aspects(RuleFacts(watched=[MAPS]))
    assert (ready.status, ready.reason) == (None, Reason.RECONCILING)


def test_a_failing_watch_is_counted_and_named() -> None:
    denied = ApiError("list configmaps: forbidden", status=403, reason=Reason.RBAC_DENIED)
    aspects = rule_aspects(RuleFacts(watched=[MAPS, SERVICES], failing={MAPS: denied}))
    assert find(aspects, Type.WATCH_ERRORED) == (True, Reason.RBAC_DENIED)
    assert aspects[2].message == "1 of 2 watches fail; list configmaps: forbidden"
    assert find(aspects, Type.READY) == (False, Reason.RBAC_DENIED)
    away = ApiError("nobody answers", status=0, reason=Reason.UNREACHABLE)
    aspects = rule_aspects(RuleFacts(watched=[MAPS], failing={MAPS: away}))
    assert find(aspects, Type.WATCH_ERRORED) == (True, Reason.API_SERVER_ERROR)


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        (InertReason.PARTIAL_DISCOVERY, Reason.PARTIAL_DISCOVERY),
        (InertReason.NO_LIST_WATCH, Reason.NO_LIST_WATCH),
        (InertReason.SCOPE_MISMATCH, Reason.SCOPE_MISMATCH),
        (InertReason.TOO_MANY_KINDS, Reason.TOO_MANY_KINDS),
    ],
)
def test_discovery_is_degraded_by_what_is_skipped(why: InertReason, reason: Reason) -> None:
    inert = [InertName(RuleRef("WatchRule", "shop", "r"), "things", why, "is skipped")]
    assert find(rule_aspects(RuleFacts(inert=inert)), Type.DISCOVERY_DEGRADED) == (True, reason)


def test_a_name_that_is_not_served_degrades_nothing() -> None:
    inert = [
        InertName(RuleRef("WatchRule", "shop", "r"), "things", InertReason.UNKNOWN_KIND, "is not served")
    ]
    aspects = rule_aspects(RuleFacts(inert=inert))
    assert find(aspects, Type.DISCOVERY_DEGRADED) == (False, Reason.NONE_FOUND)
    assert find(aspects, Type.READY) == (None, Reason.WAITING_DEPENDENCIES)


def test_a_failing_push_is_reported_on_the_rule() -> None:
    aspects = rule_aspects(RuleFacts(push_error=DENIED))
    assert find(aspects, Type.REPO_PUSH_FAILED) == (True, Reason.AUTH_FAILED)
    assert find(aspects, Type.READY) == (False, Reason.AUTH_FAILED)


def test_a_reference_that_is_not_allowed_is_an_access_denied() -> None:
    error = Stalled("elsewhere", reason=Reason.DESTINATION_POLICY_DENIED)
    assert find(rule_aspects(RuleFacts(error)), Type.ACCESS_DENIED) == (
        True,
        Reason.DESTINATION_POLICY_DENIED,
    )


@pytest.mark.parametrize(
    ("error", "used", "reached", "status", "reason"),
    [
        (None, True, True, True, Reason.INITIALIZED),
        (None, True, False, None, Reason.RECONCILING),
        (None, False, False, None, Reason.RECONCILING),
        (None, False, True, True, Reason.INITIALIZED),
        (DENIED, True, False, False, Reason.AUTH_FAILED),
        (Wait("paused", after=1, reason=Reason.SUSPENDED), False, False, False, Reason.SUSPENDED),
    ],
)
def test_readiness_of_a_repository(
    error: StokerError | None, used: bool, reached: bool, status: bool | None, reason: Reason
) -> None:
    assert find(config_aspects(error, used, reached), Type.READY) == (status, reason)


def test_stalled_is_there_only_while_a_person_has_to_act() -> None:
    at = ConditionStamp(3, datetime(2026, 1, 1, tzinfo=UTC))
    stuck = merge_conditions((), destination_aspects(DestinationFacts(error=DENIED)), DENIED, at)
    assert [each.reason for each in stuck if each.type == Type.STALLED] == ["AuthFailed"]
    well = merge_conditions(stuck, destination_aspects(OPEN), None, at)
    assert not [each for each in well if each.type in (Type.STALLED, Type.RECONCILING)]
    assert well[0].type == Type.READY
    assert (
        merge_conditions(
            well, destination_aspects(OPEN), None, ConditionStamp(3, datetime(2027, 1, 1, tzinfo=UTC))
        )
        == well
    )


def test_reconciling_is_there_only_while_something_is_on_its_way() -> None:
    at = ConditionStamp(3, datetime(2026, 1, 1, tzinfo=UTC))
    begun = merge_conditions((), destination_aspects(DestinationFacts()), None, at)
    assert [each.status for each in begun if each.type == Type.RECONCILING] == ["True"]
    stuck = merge_conditions(begun, destination_aspects(DestinationFacts(error=DENIED)), DENIED, at)
    assert not [each for each in stuck if each.type == Type.RECONCILING]
    rests = Wait("spec.suspend is true", after=1.0, reason=Reason.SUSPENDED)
    suspended = merge_conditions(begun, config_aspects(rests, False, False), rests, at)
    assert not [each for each in suspended if each.type in (Type.STALLED, Type.RECONCILING)]


def test_held_deletions_are_named_with_their_digest_and_stall_the_destination() -> None:
    held = HeldDeletionPlan(
        "d" * 64, 51, ("a.yaml", "b.yaml", "c.yaml", "d.yaml"), f"51 files: approve plan {'d' * 64}"
    )
    truth = replace(OPEN, held=held)
    ready = destination_aspects(truth)[0]
    assert (ready.status, ready.reason) == (False, Reason.DELETION_HELD)
    assert "d" * 64 in ready.message
    assert "a.yaml, b.yaml, c.yaml, …" in ready.message
    assert isinstance(truth.stalled_by_deletions, Stalled)


def test_a_condition_says_that_secrets_are_not_written_and_why() -> None:
    *_, left_out = destination_aspects(replace(OPEN, secrets_left_out="spec.secretPolicy is Exclude"))
    assert (left_out.type, left_out.status) == (Type.SECRETS_EXCLUDED, True)
    assert left_out.message == "spec.secretPolicy is Exclude"
