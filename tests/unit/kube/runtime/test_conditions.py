"""Conditions: honest transition times, one order, nothing changed means equal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from stoker.api.meta import Condition
from stoker.domain.errors import InvalidValue, Retry, Stalled, StokerError, Wait
from stoker.domain.reasons import ConditionType, Reason
from stoker.kube.runtime.conditions import (
    ConditionStamp,
    StatusConditions,
    find_condition,
    mark_failed,
    mark_ready,
    remove_conditions,
    set_condition,
)

READY, STALLED, CLONED = ConditionType.READY, ConditionType.STALLED, ConditionType.REPO_CLONED
NOON = datetime(2026, 5, 1, 12, 0, 0, 999_999, tzinfo=UTC)
AT = ConditionStamp(generation=1, now=NOON)
LATER = ConditionStamp(generation=2, now=NOON + timedelta(minutes=10))


def one(conditions: StatusConditions, kind: ConditionType) -> Condition:
    found = find_condition(conditions, kind)
    assert found is not None
    return found


def types(conditions: StatusConditions) -> list[str]:
    return [each.type for each in conditions]


def test_a_new_condition_has_the_time_of_the_reconcile_that_set_it() -> None:
    ready = one(set_condition((), READY, True, Reason.REF_RESOLVED, "All is well.", at=AT), READY)
    assert ready == Condition(
        type="Ready",
        status="True",
        reason="RefResolved",
        message="All is well.",
        last_transition_time="2026-05-01T12:00:00Z",
        observed_generation=1,
    )


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False"), (None, "Unknown")])
def test_a_status_is_true_false_or_unknown(status: bool | None, word: str) -> None:
    assert one(set_condition((), READY, status, Reason.REF_RESOLVED, "", at=AT), READY).status == word


def test_the_transition_time_stays_while_only_reason_message_and_generation_change() -> None:
    before = set_condition((), READY, False, Reason.REF_NOT_FOUND, "no such branch", at=AT)
    ready = one(set_condition(before, READY, False, Reason.SOURCE_UNREACHABLE, "no route", at=LATER), READY)
    assert (ready.reason, ready.message, ready.observed_generation) == ("SourceUnreachable", "no route", 2)
    assert ready.last_transition_time == "2026-05-01T12:00:00Z"


def test_the_transition_time_moves_with_the_status() -> None:
    before = set_condition((), READY, False, Reason.REF_NOT_FOUND, "no such branch", at=AT)
    ready = one(set_condition(before, READY, True, Reason.REF_RESOLVED, "", at=LATER), READY)
    assert ready.last_transition_time == "2026-05-01T12:10:00Z"


def test_saying_the_same_again_changes_nothing() -> None:
    before = set_condition((), READY, True, Reason.REF_RESOLVED, "as before", at=AT)
    later = ConditionStamp(generation=1, now=LATER.now)
    assert set_condition(before, READY, True, Reason.REF_RESOLVED, "as before", at=later) == before


def test_a_difference_in_any_field_is_a_difference() -> None:
    before = set_condition((), READY, True, Reason.REF_RESOLVED, "", at=AT)
    assert set_condition(before, READY, True, Reason.REF_RESOLVED, "", at=LATER) != before
    assert set_condition(before, READY, True, Reason.PAUSED, "", at=AT) != before
    assert set_condition(before, READY, True, Reason.REF_RESOLVED, "news", at=AT) != before


def test_what_the_server_sends_back_equals_what_was_sent() -> None:
    sent = set_condition((), READY, True, Reason.REF_RESOLVED, "", at=AT)
    back = msgspec.json.decode(msgspec.json.encode(sent), type=tuple[Condition, ...])
    assert (
        set_condition(back, READY, True, Reason.REF_RESOLVED, "", at=ConditionStamp(1, LATER.now))
        == back
        == sent
    )


def test_ready_is_first_and_the_others_keep_their_places() -> None:
    conditions = set_condition((), CLONED, True, Reason.REF_RESOLVED, "", at=AT)
    conditions = set_condition(conditions, ConditionType.WEBHOOK_READY, True, Reason.REF_RESOLVED, "", at=AT)
    conditions = set_condition(conditions, READY, True, Reason.REF_RESOLVED, "", at=AT)
    conditions = set_condition(conditions, CLONED, False, Reason.REF_NOT_FOUND, "", at=AT)
    assert types(conditions) == ["Ready", "RepoCloned", "WebhookReady"]


def test_conditions_of_others_are_left_alone() -> None:
    foreign = Condition(
        type="example.com/Audited", status="True", reason="a_b", message="", last_transition_time="x"
    )
    conditions = mark_ready(mark_failed((foreign,), Stalled("no"), at=AT), Reason.REF_RESOLVED, "", at=LATER)
    assert conditions[1] is foreign


def test_a_removed_condition_is_gone_and_a_missing_one_is_no_error() -> None:
    conditions = set_condition((), CLONED, True, Reason.REF_RESOLVED, "", at=AT)
    assert remove_conditions(conditions, CLONED, STALLED) == ()
    assert find_condition((), CLONED) is None


def test_stalled_means_not_ready_for_the_same_reason() -> None:
    error = InvalidValue("the ref is no ref")
    conditions = mark_failed(mark_ready((), Reason.REF_RESOLVED, "", at=AT), error, at=LATER)
    ready, stalled = one(conditions, READY), one(conditions, STALLED)
    assert (ready.status, stalled.status) == ("False", "True")
    assert (ready.reason, ready.message) == (stalled.reason, stalled.message)
    assert (ready.reason, ready.message) == ("InvalidValue", "the ref is no ref")


def test_what_is_stalled_is_no_longer_on_its_way() -> None:
    conditions = set_condition((), ConditionType.RECONCILING, True, Reason.WAITING, "", at=AT)
    assert types(mark_failed(conditions, Stalled("no"), at=AT)) == ["Ready", "Stalled"]
    assert types(mark_ready(conditions, Reason.REF_RESOLVED, "", at=AT)) == ["Ready"]


@pytest.mark.parametrize("error", [Retry("away"), Wait("cloning", after=1.0), StokerError("crash")])
def test_what_may_work_next_time_is_not_stalled(error: StokerError) -> None:
    conditions = mark_failed(mark_failed((), Stalled("no"), at=AT), error, at=LATER)
    assert types(conditions) == ["Ready", "Reconciling"]
    assert (conditions[0].status, conditions[0].reason) == ("False", error.reason)
    assert (conditions[1].status, conditions[1].reason) == ("True", error.reason)
    assert conditions[0].last_transition_time == "2026-05-01T12:00:00Z"


def test_a_message_is_one_line_of_bounded_length() -> None:
    [ready] = set_condition((), READY, False, Reason.REJECTED, "first\nsecond\x1b[31m " + "x" * 5000, at=AT)
    assert ready.message.startswith("first second [31m xxx")
    assert len(ready.message) == 1024


def test_a_credential_in_a_message_does_not_reach_the_status() -> None:
    error = Retry("cannot fetch https://bot:hunter2@forge.example/repo.git")
    assert all("hunter2" not in each.message for each in mark_failed((), error, at=AT))


@pytest.mark.parametrize("reason", ["", "ref not found", "refNotFound", "Ref-Not-Found", "Ref\n", "X" * 101])
def test_a_reason_is_one_camel_case_word(reason: str) -> None:
    with pytest.raises(InvalidValue, match="is not one CamelCase word"):
        set_condition((), READY, False, reason, "", at=AT)


def test_every_reason_of_the_product_is_valid_in_a_condition() -> None:
    for reason in Reason:
        assert set_condition((), READY, False, reason, "", at=AT)[0].reason == reason
