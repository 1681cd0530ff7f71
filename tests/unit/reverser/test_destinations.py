"""The four kinds as values: what can be written, by whom, and why the rest cannot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.api.kinds.destinations import GitDestination, GitDestinationStatus, GitRepoConfig
from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.domain.deletion_guard import DeletionLimits
from stoker.domain.errors import Stalled, Wait
from stoker.domain.reasons import Reason
from stoker.reverser.destinations import (
    BranchKey,
    DeclaredConfig,
    DestinationPlan,
    RepoConfigRef,
    WatchRuleKey,
    arrange_destinations,
)
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.manifest.secret_policy import SecretPolicy
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.writer.batch import BatchLimits, PushCadence

HEAD = {"apiVersion": "configbutler.ai/v1alpha1"}


def config(name: str = "repo", namespace: str = "system", **spec: Any) -> GitRepoConfig:
    whole = {"repoUrl": "https://git.example.com/a/b.git", "allowedBranches": ["main"], **spec}
    meta = {"name": name, "namespace": namespace}
    return msgspec.convert({**HEAD, "kind": "GitRepoConfig", "metadata": meta, "spec": whole}, GitRepoConfig)


def destination(
    name: str = "prod", namespace: str = "system", made: str = "2026", **spec: Any
) -> GitDestination:
    whole = {"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "clusters/prod", **spec}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": made}
    return msgspec.convert(
        {**HEAD, "kind": "GitDestination", "metadata": meta, "spec": whole}, GitDestination
    )


def rule(name: str = "r", namespace: str = "system", to: str = "prod") -> WatchRule:
    spec = {
        "destinationRef": {"name": to, "namespace": "system"},
        "rules": [{"resources": ["configmaps"]}],
    }
    meta = {"name": name, "namespace": namespace}
    return msgspec.convert({**HEAD, "kind": "WatchRule", "metadata": meta, "spec": spec}, WatchRule)


def refused(arrangement: DestinationPlan, name: str = "prod") -> Reason:
    return arrangement.refused[DestinationRef("system", name)].reason


def test_a_destination_carries_everything_that_its_worker_needs() -> None:
    repo = config(
        secretRef={"name": "login"},
        signing={"secretRef": {"name": "key"}},
        push={"interval": "10s", "maxCommits": 4},
    )
    to = destination(batch={"maxFiles": 7, "maxWait": "0s"}, secretPolicy="Redact", prune="OnEvent")
    arrangement = arrange_destinations(DeclaredConfig([repo], [to], [rule()]))
    (made,) = arrangement.destinations.values()
    assert made.place == BranchKey("git.example.com/a/b", "main")
    assert made.config == RepoConfigRef("system", "repo")
    assert (made.login, made.signing) == (SecretRef("system", "login"), SecretRef("system", "key"))
    assert made.limits == BatchLimits(max_files=7, max_wait=0.0)
    assert made.cadence == PushCadence(10.0, 4)
    assert (made.policy, made.prune) == (SecretPolicy.REDACT, "OnEvent")
    assert arrangement.own == {SecretRef("system", "login"), SecretRef("system", "key")}
    assert [each.destination for each in arrangement.rules] == [DestinationRef("system", "prod")]


def test_the_name_of_a_lease_is_short_and_follows_repository_and_branch() -> None:
    one, other = BranchKey("git.example.com/a/b", "main"), BranchKey("git.example.com/a/b", "release/1")
    assert one.lease.startswith("gitops-reverser-")
    assert one.lease != other.lease
    assert len(one.lease) < 63


def test_a_branch_that_is_not_allowed_is_refused() -> None:
    arrangement = arrange_destinations(DeclaredConfig([config()], [destination(branch="dev")], [rule()]))
    assert refused(arrangement) is Reason.BRANCH_NOT_ALLOWED
    error = arrangement.refused_rules[WatchRuleKey("WatchRule", "system", "r")]
    assert isinstance(error, Stalled)
    assert error.reason is Reason.BRANCH_NOT_ALLOWED
    assert not arrangement.rules


def test_what_does_not_exist_yet_is_waited_for() -> None:
    arrangement = arrange_destinations(
        DeclaredConfig([], [destination()], [rule(), rule("lost", to="nowhere")])
    )
    assert refused(arrangement) is Reason.WAITING_DEPENDENCIES
    assert all(isinstance(each, Wait) for each in arrangement.refused_rules.values())


def test_what_does_not_fit_its_schema_stops_what_refers_to_it_and_its_secrets_stay_ours() -> None:
    lost = frozenset({("GitRepoConfig", "system", "repo"), ("GitDestination", "system", "odd")})
    login = SecretRef("system", "login")
    rules = [rule(), rule("other", to="odd")]
    arrangement = arrange_destinations(DeclaredConfig([], [destination()], rules, lost, frozenset({login})))
    assert refused(arrangement) is Reason.INVALID_SPEC
    assert {each.reason for each in arrangement.refused_rules.values()} == {Reason.INVALID_SPEC}
    assert not arrangement.rules
    assert login in arrangement.own


@pytest.mark.parametrize(
    ("folder", "overlaps"),
    [("clusters/prod", True), ("clusters", True), ("clusters/prod/x", True), ("clusters/production", False)],
)
def test_of_overlapping_folders_the_older_one_stays(folder: str, overlaps: bool) -> None:
    same = config("same", repoUrl="git@git.example.com:a/b")
    young = destination("young", made="2027", baseFolder=folder, repoRef={"name": "same"})
    arrangement = arrange_destinations(DeclaredConfig([config(), same], [young, destination()]))
    assert DestinationRef("system", "prod") in arrangement.destinations
    assert (DestinationRef("system", "young") in arrangement.refused) is overlaps


def writing(to: GitDestination, repository: str = "git.example.com/a/b") -> GitDestination:
    """The same destination once it has written there."""
    folder = {"repository": repository, "branch": to.spec.branch, "baseFolder": to.spec.base_folder}
    return msgspec.structs.replace(to, status=msgspec.convert({"folder": folder}, GitDestinationStatus))


@pytest.mark.parametrize(
    "url",
    [
        "ssh://git@git.example.com:2222/A/B.git",
        "https://git.example.com.:8443/a/./b",
        "git@GIT.example.com:A/b",
    ],
)
def test_another_config_in_another_namespace_cannot_take_over_a_folder(url: str) -> None:
    theirs = config(namespace="shop", repoUrl=url)
    old = destination("old", "shop", made="2020")  # older, and it pointed elsewhere until now
    old = writing(old, "other.example.com/a/b")
    arrangement = arrange_destinations(DeclaredConfig([config(), theirs], [old, writing(destination())]))
    assert set(arrangement.destinations) == {DestinationRef("system", "prod")}
    error = arrangement.refused[DestinationRef("shop", "old")]
    assert error.reason is Reason.FOLDERS_OVERLAP
    assert "GitDestination system/prod, which writes there already" in error.message


def test_the_folder_can_be_written_into_a_status() -> None:
    (made,) = arrange_destinations(DeclaredConfig([config()], [destination()])).destinations.values()
    wire = msgspec.to_builtins(GitDestinationStatus(folder=made.folder))
    folder = {"repository": "git.example.com/a/b", "branch": "main", "baseFolder": "clusters/prod"}
    assert wire == {"folder": folder}


def test_of_two_that_never_wrote_the_older_one_stays() -> None:
    theirs = config(namespace="shop", repoUrl="ssh://git@git.example.com:2222/A/B.git")
    old = destination("old", "shop", made="2020")
    arrangement = arrange_destinations(DeclaredConfig([config(), theirs], [destination(), old]))
    assert set(arrangement.destinations) == {DestinationRef("shop", "old")}
    assert (
        "GitDestination shop/old, which is older"
        in arrangement.refused[DestinationRef("system", "prod")].message
    )


def test_folders_of_different_branches_do_not_meet() -> None:
    repo = config(allowedBranches=["main", "dev"])
    arrangement = arrange_destinations(
        DeclaredConfig([repo], [destination(), destination("dev", branch="dev")])
    )
    assert len(arrangement.places) == 2


@pytest.mark.parametrize("which", ["destination", "config"])
def test_what_is_suspended_is_not_written(which: str) -> None:
    repo = config(suspend=which == "config")
    to = destination(suspend=which == "destination")
    arrangement = arrange_destinations(DeclaredConfig([repo], [to], [rule()]))
    assert refused(arrangement) is Reason.SUSPENDED
    assert not arrangement.destinations


def test_a_suspended_destination_still_owns_its_folder() -> None:
    younger = destination("young", made="2027")
    arrangement = arrange_destinations(DeclaredConfig([config()], [destination(suspend=True), younger]))
    assert refused(arrangement, "young") is Reason.FOLDERS_OVERLAP


def test_a_repository_of_another_namespace_is_refused_until_its_owner_allows_it() -> None:
    far = destination("far", "shop", baseFolder="x", repoRef={"name": "repo", "namespace": "system"})
    arrangement = arrange_destinations(DeclaredConfig([config()], [far]))
    error = arrangement.refused[DestinationRef("shop", "far")]
    assert error.reason is Reason.REPO_POLICY_DENIED
    assert "spec.allowedNamespaces" in error.message
    assert not arrange_destinations(DeclaredConfig([config(allowedNamespaces=["shop"])], [far])).refused
    assert not arrange_destinations(DeclaredConfig([config(allowedNamespaces=["*"])], [far])).refused
    assert arrange_destinations(DeclaredConfig([config(allowedNamespaces=["bakery"])], [far])).refused


def test_the_status_does_not_reveal_whether_a_repository_of_another_namespace_exists() -> None:
    far = destination("far", "shop", baseFolder="x", repoRef={"name": "repo", "namespace": "system"})
    (there,) = arrange_destinations(DeclaredConfig([config()], [far])).refused.values()
    (missing,) = arrange_destinations(DeclaredConfig([], [far])).refused.values()
    assert (there.message, there.reason) == (missing.message, missing.reason)


def test_a_rule_of_another_namespace_is_refused_until_the_destination_allows_it() -> None:
    arrangement = arrange_destinations(DeclaredConfig([config()], [destination()], [rule(namespace="shop")]))
    (error,) = arrangement.refused_rules.values()
    assert error.reason is Reason.DESTINATION_POLICY_DENIED
    assert "spec.allowedNamespaces" in error.message
    for allowed in ("shop", "*"):
        to = destination(allowedNamespaces=[allowed])
        assert not arrange_destinations(
            DeclaredConfig([config()], [to], [rule(namespace="shop")])
        ).refused_rules


def test_a_destination_without_words_about_secrets_writes_none() -> None:
    (made,) = arrange_destinations(DeclaredConfig([config()], [destination()])).destinations.values()
    assert made.policy is SecretPolicy.EXCLUDE


def test_the_budget_and_the_approvals_of_held_deletions_are_read() -> None:
    to = destination(deletionBudget={"files": 7})
    head = msgspec.structs.replace(to.metadata, annotations={"configbutler.ai/approved-plan": "aa, bb"})
    status = GitDestinationStatus(approvals_used=("aa",))
    to = msgspec.structs.replace(to, metadata=head, status=status)
    (made,) = arrange_destinations(DeclaredConfig([config()], [to])).destinations.values()
    assert made.budget == DeletionLimits(files=7, percent=50)
    assert made.approvals == ("aa", "bb")
    assert made.approvals_used == {"aa"}


def test_a_cluster_rule_may_name_any_namespace() -> None:
    spec = {
        "destinationRef": {"name": "prod", "namespace": "system"},
        "rules": [{"resources": ["clusterroles"], "scope": "Cluster"}],
    }
    body = {**HEAD, "kind": "ClusterWatchRule", "metadata": {"name": "c"}, "spec": spec}
    stated = DeclaredConfig([config()], [destination()], [msgspec.convert(body, ClusterWatchRule)])
    assert not arrange_destinations(stated).refused_rules


@pytest.mark.parametrize(
    "spec", [{"commit": {"template": "{{.Wrong}}"}}, {"baseFolder": "."}], ids=["template", "no folder"]
)
def test_a_spec_that_cannot_be_meant_is_refused(spec: dict[str, Any]) -> None:
    (error,) = arrange_destinations(DeclaredConfig([config()], [destination(**spec)])).refused.values()
    assert isinstance(error, Stalled)
