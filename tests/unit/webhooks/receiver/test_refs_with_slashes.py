"""Refs with a slash in their name, and a branch that Bitbucket Data Center reports as deleted."""

from __future__ import annotations

import json

import pytest

from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.refs import GitRef
from stoker.webhooks.receiver.decide import decide_request
from stoker.webhooks.receiver.index import IndexedResource
from stoker.webhooks.receiver.payloads import WebhookCaller, WebhookRequest, read_request

COMMIT = "c" * 40


@pytest.mark.parametrize(
    ("allowed", "ref", "taken"),
    [
        ("*", "main", True),
        ("*", "feature/new-line", True),  # the default allows every ref
        ("feature/*", "feature/new-line", True),
        ("feature/*", "feature/a/b", False),
        ("v*", "feature/v1", False),
    ],
)
def test_a_star_alone_allows_every_ref_and_within_a_pattern_no_slash(
    allowed: str, ref: str, taken: bool
) -> None:
    known = IndexedResource(
        ResourceIdentity(SyncResourceKind.STOKER, "site1", "plant"), GitRef("main"), (allowed,)
    )
    assert (
        decide_request(WebhookRequest(WebhookCaller.GENERIC, GitRef(ref)), known).wish is not None
    ) is taken


@pytest.mark.parametrize(("kind", "moved"), [("UPDATE", True), ("ADD", True), ("DELETE", False)])
def test_a_branch_that_bitbucket_deleted_has_not_moved(kind: str, moved: bool) -> None:
    change = {"ref": {"id": "refs/heads/main"}, "type": kind, "toHash": COMMIT}
    asked = read_request({"X-Event-Key": "repo:refs_changed"}, json.dumps({"changes": [change]}).encode())
    assert asked.caller is WebhookCaller.BITBUCKET
    assert [push.branch for push in asked.pushed] == (["main"] if moved else [])
