"""The decision about a request for one resource."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stoker.api.to_intent.annotations.annotation_requests import parse_requests
from stoker.domain.intent.annotation_requests import RefRequest, ResourceRequests
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.refs import GitRef
from stoker.webhooks.receiver.decide import WebhookSyncRequest, decide_request
from stoker.webhooks.receiver.index import IndexedResource
from stoker.webhooks.receiver.payloads import PushedBranch, WebhookCaller, WebhookRequest

WHO = ResourceIdentity(SyncResourceKind.STOKER, "site1", "plant")
NOON = datetime(2026, 3, 2, 12, 0, 0, 250_000, tzinfo=UTC)
TAG = GitRef("2.0.0")


def follows(ref: str, *allowed: str, requested: str = "") -> IndexedResource:
    return IndexedResource(WHO, GitRef(ref), allowed, requested_ref=GitRef(requested) if requested else None)


def pushes(branch: str) -> WebhookRequest:
    return WebhookRequest(WebhookCaller.GITHUB, pushed=(PushedBranch(GitRef(branch), "c" * 40),))


@pytest.mark.parametrize("followed", ["main", "refs/heads/main"])
def test_a_push_of_the_branch_that_is_followed_triggers_a_lookup(followed: str) -> None:
    decision = decide_request(pushes("main"), follows(followed))
    assert decision.wish == WebhookSyncRequest(WebhookCaller.GITHUB, None, "c" * 40)
    assert decision.ref == "main"


@pytest.mark.parametrize("followed", ["1.9.0", "develop", "refs/tags/main", "main2"])
def test_a_push_of_any_other_branch_moves_no_resource(followed: str) -> None:
    decision = decide_request(pushes("main"), follows(followed))
    assert decision.wish is None
    assert decision.reason == f"ignored: push to main, this resource follows {followed}"


def test_a_push_of_the_branch_that_is_followed_needs_no_permission() -> None:
    assert decide_request(pushes("main"), follows("main", "v*")).wish is not None


@pytest.mark.parametrize(
    ("ref", "allowed", "taken"),
    [
        ("2.0.0", (), False),
        ("release/2.0", (), False),
        ("main", (), True),
        ("main", ("v*",), True),
        ("2.0.0", ("*",), True),
        ("release/2.0", ("*",), True),
        ("2.0.0", ("2.*",), True),
        ("3.0.0", ("2.*",), False),
        ("3.0.0", ("2.*", "3.*"), True),
        ("release/2.0", ("release/*",), True),
        ("release/a/b", ("release/*",), False),
        ("release/a/b", ("release/**",), True),
        ("release/2.0", ("2.*",), False),
        ("v2", ("{v1,v2}",), True),
        ("2.0.0", ("[",), False),
    ],
)
def test_a_ref_is_taken_where_a_glob_allows_it(ref: str, allowed: tuple[str, ...], taken: bool) -> None:
    decision = decide_request(WebhookRequest(WebhookCaller.GENERIC, GitRef(ref)), follows("main", *allowed))
    assert (decision.wish is not None) is taken
    assert bool(decision.reason) is not taken
    assert taken or "spec.webhook.allowedRefs" in decision.reason


def test_a_tag_that_is_not_allowed_does_not_hide_the_branch_beside_it() -> None:
    asked = WebhookRequest(WebhookCaller.BITBUCKET, TAG, pushed=(PushedBranch(GitRef("main")),))
    assert decide_request(asked, follows("main", "v*")).wish == WebhookSyncRequest(
        WebhookCaller.BITBUCKET, None
    )
    assert decide_request(asked, follows("main", "*")).wish == WebhookSyncRequest(
        WebhookCaller.BITBUCKET, TAG
    )


def test_a_pushed_tag_does_not_take_a_resource_off_its_branch() -> None:
    decision = decide_request(WebhookRequest(WebhookCaller.GITHUB, TAG), follows("main"))
    assert decision.wish is None
    assert decision.reason == (
        "ignored: request for ref 2.0.0, this resource follows main; to let requests change that, "
        "add 2.0.0 or a glob of it to spec.webhook.allowedRefs"
    )


@pytest.mark.parametrize("spec_ref", ["main", "refs/heads/main", "refs/tags/main"])
def test_a_request_for_the_specs_own_ref_leads_back_to_it(spec_ref: str) -> None:
    away = follows(spec_ref, "v*", requested="v2")
    assert decide_request(pushes("main"), away).reason == "ignored: push to main, this resource follows v2"
    asked = WebhookRequest(WebhookCaller.GENERIC, GitRef("main"))
    assert decide_request(asked, away).wish == WebhookSyncRequest(WebhookCaller.GENERIC, GitRef(spec_ref))


def test_a_pushed_tag_with_the_name_of_the_branch_does_not_take_a_resource_off_the_branch() -> None:
    for allowed in ((), ("v*",), ("*",)):
        for spec_ref in ("main", "refs/heads/main"):
            request = decide_request(
                WebhookRequest(WebhookCaller.GITHUB, GitRef("main")), follows(spec_ref, *allowed)
            ).wish
            assert request is not None
            assert request.ref == spec_ref, "a short name means the branch"


def test_what_asks_for_nothing_keeps_its_reason() -> None:
    decision = decide_request(WebhookRequest(WebhookCaller.GITHUB, nothing="a ping"), follows("main"))
    assert (decision.wish, decision.ref, decision.reason) == (None, "", "a ping")


def test_the_annotations_are_what_the_controller_reads() -> None:
    written = WebhookSyncRequest(WebhookCaller.GITHUB, TAG).annotations("stoker.io", NOON)
    assert written == {
        "stoker.io/requested-ref": "2.0.0",
        "stoker.io/requested-at": "2026-03-02T12:00:00.250000Z",
        "stoker.io/requested-by": "webhook",
        "stoker.io/requested-source": "github",
    }
    assert parse_requests(written, "stoker.io") == (
        ResourceRequests(ref=RefRequest(TAG, NOON, "webhook", "github")),
        (),
    )


def test_a_sync_request_without_a_ref_leaves_the_requested_ref_as_it_is() -> None:
    written = WebhookSyncRequest(WebhookCaller.GITLAB).annotations("sync.ignition.io", NOON)
    assert set(written) == {
        "sync.ignition.io/nudged-at",
        "sync.ignition.io/nudged-source",
    }
