"""Approvals, contents and destinations: verdicts without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig
from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.api.kinds.stoker import SyncProfileSpec
from stoker.api.manifests.codec import from_wire
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import ApprovalPolicy
from stoker.domain.reasons import Reason
from stoker.kube.watch.store import ObjectKey
from stoker.webhooks.admission.approver_identity import approval_rejection, changed_approval
from stoker.webhooks.admission.content_rules import check_policies, check_profile
from stoker.webhooks.admission.destination_rules import check_destination, check_repository

GROUP = "stoker.io"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({}, {}, False),
        ({}, {"stoker.io/approved-by": "a"}, True),
        ({}, {"approved-by": "a"}, True),
        ({}, {"sync.ignition.io/approved-by": "a"}, False),
        ({"stoker.io/approved-by": "a"}, {"stoker.io/approved-by": "a"}, False),
        ({"stoker.io/approved-by": "a"}, {"stoker.io/approved-by": " a "}, False),
        ({"stoker.io/approved-by": "a"}, {"stoker.io/approved-by": "a", "stoker.io/approved-ref": "x"}, True),
        ({"stoker.io/approved-by": "a", "stoker.io/approved-ref": "1"}, {"stoker.io/approved-by": "a"}, True),
        ({"stoker.io/approved-by": "a"}, {}, False),
        ({"approved-by": "a", "approved-at": "1", "approved-plan": "2"}, {"approved-at": "1"}, False),
        ({"approved-by": "a", "approved-at": "1"}, {"approved-at": "2"}, True),
        ({}, {"stoker.io/approved-plan": "0123456789"}, True),
        ({"stoker.io/approved-plan": "0123456789"}, {"stoker.io/approved-plan": "9876543210"}, True),
    ],
)
def test_an_approval_is_checked_when_any_of_it_is_new(
    before: dict[str, str], after: dict[str, str], changed: bool
) -> None:
    assert bool(changed_approval(before, after, GROUP)) is changed


@pytest.mark.parametrize(
    ("approval", "user", "groups", "teams", "why"),
    [
        ({"stoker.io/approved-by": "ann"}, "ann", [], [], ""),
        ({"approved-by": "ann"}, "ann", ["x"], ["x", "y"], ""),
        ({"approved-by": "ann"}, "bob", [], [], "it is 'bob' who writes it"),
        ({"approved-by": "ann", "stoker.io/approved-by": "bob"}, "bob", [], [], "approved-by is 'ann'"),
        ({"stoker.io/approved-plan": "0123456789"}, "ann", [], [], ""),
        (
            {"stoker.io/approved-plan": "0123456789"},
            "ann",
            [],
            ["x"],
            "needs annotation stoker.io/approved-by",
        ),
        ({"approved-by": "ann", "approved-plan": "0123456789"}, "ann", [], ["x"], "in none of the teams"),
        ({"approved-by": "ann", "stoker.io/approved-plan": "1"}, "bob", [], [], "it is 'bob' who writes it"),
        ({"stoker.io/approved-at": "1"}, "ann", [], [], "needs annotation stoker.io/approved-by"),
        ({"approved-by": "ann"}, "ann", ["z"], ["x", "y"], "in none of the teams that may approve: x, y"),
        ({"approved-by": "ann", "approved-at": "2026-03-02T08:04:00Z"}, "ann", [], [], ""),
        ({"approved-by": "ann", "approved-at": "2026-03-02T09:00:00Z"}, "ann", [], [], "is in the future"),
        (
            {"approved-by": "ann", "stoker.io/approved-at": "2099-01-01T00:00:00+02:00"},
            "ann",
            [],
            [],
            "future",
        ),
        ({"approved-by": "ann", "approved-at": "soon"}, "ann", [], [], ""),
    ],
)
def test_who_may_approve(
    approval: dict[str, str], user: str, groups: list[str], teams: list[str], why: str
) -> None:
    policy = ApprovalPolicy(teams=tuple(teams))
    found = approval_rejection(approval, GROUP, user, groups, policy, datetime(2026, 3, 2, 8, tzinfo=UTC))
    assert (why in found) if why else found == ""


def test_where_an_approval_is_required_a_plan_alone_is_none() -> None:
    plan, now = {"stoker.io/approved-plan": "0123456789"}, datetime(2026, 3, 2, 8, tzinfo=UTC)
    assert "needs annotation" in approval_rejection(
        plan, GROUP, "ann", [], ApprovalPolicy(required=True), now
    )
    named = {**plan, "stoker.io/approved-by": "ann"}
    assert approval_rejection(named, GROUP, "ann", [], ApprovalPolicy(required=True), now) == ""


def profile(**spec: Any) -> SyncProfileSpec:
    return from_wire({"mappings": [{"source": "a", "destination": "b"}], **spec}, SyncProfileSpec)


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"mappings": [{"source": "{{.Nmae}}", "destination": "b"}]}, "spec.mappings[0].source"),
        ({"mappings": [{"source": "a", "destination": "{{ if x }}"}]}, "spec.mappings[0].destination"),
        ({"mappings": [{"source": "a", "destination": "../b"}]}, "spec.mappings[0].destination"),
        ({"mappings": [{"source": "{{.Timestamp}}", "destination": "b"}]}, "must not depend on .Timestamp"),
        ({"deploymentMode": {"source": "{{"}}, "spec.deploymentMode.source"),
        ({"patches": [{"file": "/etc/x", "set": {".a": "1"}}]}, "spec.patches[0].file"),
        ({"patches": [{"file": "x", "set": {".a[": "1"}}]}, "spec.patches[0].set[.a[]"),
        ({"patches": [{"file": "x", "set": {".a": "{{.}}"}}]}, "spec.patches[0].set[.a]"),
        ({"excludePatterns": ["{a"]}, "spec.excludePatterns"),
    ],
)
def test_an_impossible_layout_is_refused_with_its_field(spec: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        check_profile(profile(**spec))
    assert place in raised.value.message


def test_a_variable_that_is_not_there_yet_is_mentioned() -> None:
    mapping = [{"source": "{{.Vars.line}}/{{.Vars.site}}", "destination": "{{.Labels.app}}"}]
    (refusal,) = check_profile(profile(mappings=mapping, vars={"site": "x"}))
    assert refusal == "spec.mappings[0].source asks for .Vars.line, which spec.vars does not have"
    assert check_profile(profile()) == ()


@pytest.mark.parametrize("name", ["fields", "templates"])
def test_values_of_a_base_are_read_as_agents_read_them(name: str) -> None:
    def spec(path: str, value: str) -> IgnitionSyncBaseSpec:
        wire = {"normalize": {name: [{"jsonPath": path, "valueTemplate": value}]}}
        return from_wire(wire, IgnitionSyncBaseSpec)

    check_policies(spec(".a.b", "{{.GatewayName}}"))
    for path, value in ((".a[", "x"), (".a", "{{.Oops}}")):
        with pytest.raises(InvalidValue, match=rf"spec.normalize.{name}\[0\]"):
            check_policies(spec(path, value))


def destination(
    name: str, folder: str, branch: str = "main", repo: str = "r", namespace: str = "n"
) -> GitDestination:
    wire = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"repoRef": {"name": repo}, "branch": branch, "baseFolder": folder},
    }
    return from_wire(wire, GitDestination)


def repository(name: str, url: str, *branches: str, namespace: str = "n") -> GitRepoConfig:
    wire = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"repoUrl": url, "allowedBranches": list(branches or ("main",))},
    }
    return from_wire(wire, GitRepoConfig)


REPOSITORIES = {
    ObjectKey("n", "r"): repository("r", "https://h.test/x.git"),
    ObjectKey("n", "same"): repository("same", "https://h.test/x"),
    ObjectKey("n", "alias"): repository("alias", "ssh://git@H.test:2222/X"),
    ObjectKey("n", "other"): repository("other", "https://h.test/y.git"),
    ObjectKey("m", "r"): repository("r", "https://h.test/x.git", namespace="m"),
}


@pytest.mark.parametrize(
    ("other", "overlaps"),
    [
        (destination("o", "a"), True),
        (destination("o", "a/b/c"), True),
        (destination("o", "./a/b/"), True),
        (destination("o", "a/bc"), False),
        (destination("o", "b"), False),
        (destination("o", "a/b", repo="same"), True),
        (destination("o", "a/b", repo="alias"), True),
        (destination("o", "a/b", repo="other"), False),
        (destination("own", "a", namespace="m"), True),
        (destination("own", "a"), False),
        (destination("o", "a/b", branch="dev"), False),
    ],
)
def test_folders_of_one_branch_must_not_overlap(other: GitDestination, overlaps: bool) -> None:
    own = destination("own", "a/b")
    if not overlaps:
        assert check_destination(own, [own, other], REPOSITORIES) == ()
        return
    with pytest.raises(InvalidValue) as raised:
        check_destination(own, [own, other], REPOSITORIES)
    assert raised.value.reason is Reason.FOLDERS_OVERLAP


def test_without_their_repository_two_destinations_meet_by_its_name() -> None:
    own, other = destination("own", "a"), destination("o", "a")
    with pytest.raises(InvalidValue):
        check_destination(own, [other], {})
    (notice,) = check_destination(own, [destination("o", "a", repo="else")], {})
    assert notice.reason is Reason.DESTINATION_NOT_FOUND


def foreign(branch: str = "main", repo: str = "r") -> GitDestination:
    """In namespace t, with a repository of namespace n."""
    wire = {
        "metadata": {"name": "foreign", "namespace": "t"},
        "spec": {"repoRef": {"name": repo, "namespace": "n"}, "branch": branch, "baseFolder": "a"},
    }
    return from_wire(wire, GitDestination)


def test_a_refusal_does_not_reveal_another_namespace() -> None:
    names = {
        notice.message.replace("absent", "r")
        for one in (foreign(), foreign("dev"), foreign(repo="absent"))
        for notice in check_destination(one, [destination("o", "a")], REPOSITORIES)
    }
    (message,) = names
    assert message.startswith("GitRepoConfig n/r does not allow GitDestinations of namespace t: ")


def test_a_user_without_write_permission_to_a_repository_takes_no_folder_of_it() -> None:
    assert check_destination(destination("own", "a"), [foreign()], REPOSITORIES) == ()


def test_a_branch_must_be_allowed_and_its_removal_is_reported() -> None:
    with pytest.raises(InvalidValue) as raised:
        check_destination(destination("own", "a", branch="dev"), [], REPOSITORIES)
    assert raised.value.reason is Reason.BRANCH_NOT_ALLOWED
    held = [destination("a", "a", branch="dev"), destination("b", "b"), destination("c", "c", "dev", "other")]
    assert [one.message.split()[1] for one in check_repository(REPOSITORIES[ObjectKey("n", "r")], held)] == [
        "n/a"
    ]
