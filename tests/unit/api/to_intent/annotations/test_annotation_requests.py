"""Requests by annotations of a resource."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stoker.api.to_intent.annotations.annotation_requests import parse_requests
from stoker.domain.intent.annotation_requests import ApprovalGrant, RefRequest, ResourceRequests
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef

MORNING = datetime(2026, 3, 2, 8, 15, tzinfo=UTC)


def test_without_annotations_nothing_is_asked() -> None:
    assert parse_requests({}, "stoker.io") == (ResourceRequests(), ())


@pytest.mark.parametrize("group", ["stoker.io", "sync.ignition.io"])
def test_a_requested_ref_is_read_under_the_group_of_the_kind(group: str) -> None:
    annotations = {
        f"{group}/requested-ref": "3.4.1",
        f"{group}/requested-at": "2026-03-02T09:15:00+01:00",
        f"{group}/requested-by": "webhook",
        f"{group}/requested-source": "github",
    }
    found, notices = parse_requests(annotations, group)
    assert found.ref == RefRequest(GitRef("3.4.1"), MORNING, "webhook", "github")
    assert notices == ()


def test_a_request_under_the_other_kinds_group_is_not_for_this_resource() -> None:
    found, _ = parse_requests({"sync.ignition.io/requested-ref": "3.4.1"}, "stoker.io")
    assert found.ref is None


@pytest.mark.parametrize("prefix", ["", "stoker.io/"])
def test_an_approval_may_be_without_prefix(prefix: str) -> None:
    annotations = {
        f"{prefix}approved-by": "plant-lead",
        f"{prefix}approved-at": "2026-03-02T08:15:00Z",
        f"{prefix}approved-ref": "3.4.1",
    }
    found, _ = parse_requests(annotations, "stoker.io")
    assert found.approval == ApprovalGrant("plant-lead", MORNING, GitRef("3.4.1"))


def test_an_approval_without_a_time_is_none() -> None:
    found, _ = parse_requests({"stoker.io/approved-by": "plant-lead"}, "stoker.io")
    assert found.approval is None


@pytest.mark.parametrize("gone", ["approved-by", "approved-plan"])
def test_an_approval_without_the_name_of_its_approver_is_withdrawn(gone: str) -> None:
    annotations = {
        "approved-by": "plant-lead",
        "approved-at": "2026-03-02T08:15:00Z",
        "approved-plan": "abcdef012345",
    }
    assert parse_requests(annotations, "stoker.io")[0].approved_plans == ("abcdef012345",)
    del annotations[gone]
    assert parse_requests(annotations, "stoker.io")[0].approved_plans == ()


def test_several_plans_may_be_approved_at_once() -> None:
    found, _ = parse_requests({"stoker.io/approved-plan": "abcdef012345, 0123456789ab"}, "stoker.io")
    assert found.approved_plans == ("abcdef012345", "0123456789ab")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("requested-ref", "--upload-pack=x"),
        ("approved-at", "yesterday"),
        ("approved-at", "2026-03-02T08:15:00"),
        ("approved-at", "0001-01-01T00:00:00+14:00"),
        ("approved-plan", "?"),
        ("approved-by", "a\x00"),
    ],
)
def test_what_cannot_be_read_is_left_out_with_a_notice(key: str, value: str) -> None:
    found, (notice,) = parse_requests({f"stoker.io/{key}": value}, "stoker.io")
    assert found == ResourceRequests()
    assert notice.reason is Reason.INVALID_VALUE
    assert notice.message.startswith(f"annotation stoker.io/{key} is ")
    assert notice.message.endswith("it is ignored")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_request_at_a_moment_that_utc_does_not_have_is_left_out_with_a_notice(moment: str) -> None:
    noted = {"stoker.io/requested-ref": "main", "stoker.io/requested-at": moment}
    found, notices = parse_requests(noted, "stoker.io")
    assert found.ref is None or found.ref.at is None
    assert [notice.reason for notice in notices] == [Reason.INVALID_VALUE]


@pytest.mark.parametrize(("name", "value"), [("approved-plan", "?"), ("approved-ref", "-x")])
@pytest.mark.parametrize("prefix", ["", "stoker.io/"])
def test_an_approval_whose_limits_cannot_be_read_is_none(prefix: str, name: str, value: str) -> None:
    noted = {f"{prefix}approved-by": "lead", f"{prefix}approved-at": "2026-03-02T08:15:00Z"}
    assert parse_requests(noted, "stoker.io")[0].approval is not None
    found, notices = parse_requests(noted | {f"{prefix}{name}": value}, "stoker.io")
    assert found.approval is None
    assert len(notices) == 1
