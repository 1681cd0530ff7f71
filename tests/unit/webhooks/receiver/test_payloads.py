"""Payloads of each sender: what they request, and what none of them may do."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import GitRef
from stoker.webhooks.receiver.payloads import PushedBranch, WebhookCaller, WebhookRequest, read_request

BODIES = Path(__file__).parents[3] / "data" / "webhooks"
COMMIT = "1f2d3c4b5a69788796a5b4c3d2e1f00112233445"
TAG = GitRef("2.0.0")
MAIN = PushedBranch(GitRef("main"), COMMIT)


def recorded(name: str) -> tuple[dict[str, str], bytes]:
    found = json.loads((BODIES / f"{name}.json").read_text())
    return found["headers"], json.dumps(found["body"]).encode()


def bare(body: object) -> WebhookRequest:
    return read_request({}, body if isinstance(body, bytes) else json.dumps(body).encode())


ASKS_FOR_A_REF = {
    "github-push-tag": WebhookRequest(WebhookCaller.GITHUB, TAG, COMMIT),
    "github-create-tag": WebhookRequest(WebhookCaller.GITHUB, TAG),
    "github-release-published": WebhookRequest(WebhookCaller.GITHUB, TAG),
    "github-release-released": WebhookRequest(WebhookCaller.GITHUB, TAG),
    "gitlab-tag-push": WebhookRequest(WebhookCaller.GITLAB, TAG, COMMIT),
    "gitlab-release-create": WebhookRequest(WebhookCaller.GITLAB, TAG, COMMIT),
    "gitea-push-tag": WebhookRequest(WebhookCaller.GITEA, TAG, COMMIT),
    "gitea-create-tag": WebhookRequest(WebhookCaller.GITEA, TAG, COMMIT),
    "gitea-release": WebhookRequest(WebhookCaller.GITEA, TAG),
    "bitbucket-push-tag": WebhookRequest(WebhookCaller.BITBUCKET, TAG, COMMIT),
    "bitbucket-push-branch-and-tag": WebhookRequest(WebhookCaller.BITBUCKET, TAG, COMMIT, (MAIN,)),
    "argocd-application": WebhookRequest(WebhookCaller.ARGO_CD, TAG),
    "argocd-template": WebhookRequest(WebhookCaller.GENERIC, TAG),
    "kargo-freight": WebhookRequest(WebhookCaller.KARGO, TAG),
    "kargo-freight-without-tag": WebhookRequest(WebhookCaller.KARGO, GitRef(COMMIT)),
    "generic": WebhookRequest(WebhookCaller.GENERIC, TAG),
    "paper-github-release": WebhookRequest(WebhookCaller.GITHUB, TAG),
}

TELLS_OF_A_BRANCH = {
    "github-push-branch": WebhookRequest(WebhookCaller.GITHUB, pushed=(MAIN,)),
    "github-create-branch": WebhookRequest(WebhookCaller.GITHUB, pushed=(PushedBranch(GitRef("main")),)),
    "gitlab-push": WebhookRequest(WebhookCaller.GITLAB, pushed=(MAIN,)),
    "gitea-push": WebhookRequest(WebhookCaller.GITEA, pushed=(MAIN,)),
    "bitbucket-push-branch": WebhookRequest(WebhookCaller.BITBUCKET, pushed=(MAIN,)),
    "bitbucket-server-push": WebhookRequest(WebhookCaller.BITBUCKET, pushed=(MAIN,)),
    "generic-branch": WebhookRequest(WebhookCaller.GENERIC, pushed=(PushedBranch(GitRef("main")),)),
}

ASKS_FOR_NOTHING = {
    "github-push-branch-deleted": (WebhookCaller.GITHUB, "refs/heads/old was deleted"),
    "github-push-tag-deleted": (WebhookCaller.GITHUB, "refs/tags/1.9.0 was deleted"),
    "github-delete": (WebhookCaller.GITHUB, "the event 'delete' says nothing about a ref that is new"),
    "github-release-prerelease": (WebhookCaller.GITHUB, "the release 2.1.0-rc1 is a prerelease"),
    "github-release-draft": (WebhookCaller.GITHUB, "was created; only one that is published counts"),
    "github-release-unpublished": (
        WebhookCaller.GITHUB,
        "was unpublished; only one that is published counts",
    ),
    "github-release-deleted": (WebhookCaller.GITHUB, "was deleted; only one that is published counts"),
    "github-ping": (WebhookCaller.GITHUB, "a ping is answered and changes nothing"),
    "github-issues": (WebhookCaller.GITHUB, "the event 'issues' says nothing about a ref that is new"),
    "gitlab-push-branch-deleted": (WebhookCaller.GITLAB, "refs/heads/old was deleted"),
    "gitlab-tag-deleted": (WebhookCaller.GITLAB, "refs/tags/1.9.0 was deleted"),
    "gitlab-release-update": (WebhookCaller.GITLAB, "the release 2.0.0 was not created: update"),
    "gitlab-release-delete": (WebhookCaller.GITLAB, "the release 2.0.0 was not created: delete"),
    "gitlab-note": (WebhookCaller.GITLAB, "the event says nothing about a ref that is new"),
    "gitea-delete": (WebhookCaller.GITEA, "the event 'delete' says nothing about a ref that is new"),
    "gitea-release-prerelease": (WebhookCaller.GITEA, "the release 2.1.0-rc1 is a prerelease"),
    "bitbucket-push-two-tags": (WebhookCaller.BITBUCKET, "2 tags were pushed at once"),
    "bitbucket-branch-deleted": (WebhookCaller.BITBUCKET, "'old' was deleted"),
    "bitbucket-server-tag-deleted": (WebhookCaller.BITBUCKET, "refs/tags/1.9.0 was deleted"),
    "bitbucket-server-ping": (WebhookCaller.BITBUCKET, "the event 'diagnostics:ping' says nothing"),
}


@pytest.mark.parametrize("name", [*ASKS_FOR_A_REF, *TELLS_OF_A_BRANCH])
def test_a_recorded_body_says_what_it_says(name: str) -> None:
    assert read_request(*recorded(name)) == {**ASKS_FOR_A_REF, **TELLS_OF_A_BRANCH}[name]


@pytest.mark.parametrize("name", ASKS_FOR_NOTHING)
def test_what_asks_for_nothing_says_why(name: str) -> None:
    caller, why = ASKS_FOR_NOTHING[name]
    asked = read_request(*recorded(name))
    assert (asked.caller, asked.ref, asked.pushed) == (caller, None, ())
    assert why in asked.nothing


def test_every_recorded_body_is_in_a_table() -> None:
    assert {one.stem for one in BODIES.glob("*.json")} == {
        *ASKS_FOR_A_REF,
        *TELLS_OF_A_BRANCH,
        *ASKS_FOR_NOTHING,
    }


FORGES = [
    "github-push-branch",
    "github-push-tag",
    "github-create-tag",
    "github-release-published",
    "github-ping",
    "gitlab-push",
    "gitlab-tag-push",
    "gitlab-release-create",
    "bitbucket-push-branch",
    "bitbucket-push-tag",
]


@pytest.mark.parametrize("name", FORGES)
def test_a_proxy_that_drops_the_event_header_changes_nothing(name: str) -> None:
    headers, body = recorded(name)
    assert read_request({}, body) == read_request(headers, body)


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"ref": "refs/tags/2.0.0"}, WebhookRequest(WebhookCaller.GENERIC, TAG)),
        ({"ref": "main"}, WebhookRequest(WebhookCaller.GENERIC, GitRef("main"))),
        ({"ref": "release/2.0"}, WebhookRequest(WebhookCaller.GENERIC, GitRef("release/2.0"))),
        ({"ref": COMMIT}, WebhookRequest(WebhookCaller.GENERIC, GitRef(COMMIT))),
        (
            {"app": {"metadata": {"annotations": {"git_ref": "2.0.0"}}}},
            WebhookRequest(WebhookCaller.ARGO_CD, TAG),
        ),
    ],
)
def test_other_spellings(body: object, asked: WebhookRequest) -> None:
    assert bare(body) == asked


HOSTILE = {
    "empty": b"",
    "blank": b"  \n",
    "not JSON": b"ref=2.0.0",
    "half": b'{"ref": "2.0',
    "two values": b'{"ref": "2.0.0"}{"ref": "2.0.1"}',
    "a list": b'[{"ref": "2.0.0"}]',
    "a text": b'"2.0.0"',
    "null": b"null",
    "not UTF-8": b'{"ref": "\xff\xfe"}',
    "UTF-16": '{"ref": "2.0.0"}'.encode("utf-16"),
    "nested without end": b'{"ref": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a key twice": b'{"ref": "2.0.0", "ref": "evil"}',
    "a key twice, deep": b'{"ref": "2.0.0", "a": [{"b": 1, "b": 2}]}',
    "NaN": b'{"ref": "2.0.0", "size": NaN}',
    "Infinity": b'{"ref": "2.0.0", "size": -Infinity}',
    "a number without end": b'{"ref": "2.0.0", "size": ' + b"9" * 100_000 + b"}",
    "a text of 10 MB": b'{"ref": "' + b"a" * 10_000_000 + b'"}',
    "no ref": b"{}",
    "ref is null": b'{"ref": null}',
    "ref is empty": b'{"ref": ""}',
    "ref is a number": b'{"ref": 2}',
    "ref is a list": b'{"ref": ["2.0.0"]}',
    "control characters": b'{"ref": "2.0.0\\u0000"}',
    "a line break": b'{"ref": "2.0.0\\nX-Evil: 1"}',
    "half a character": b'{"ref": "\\ud800"}',
    "right to left": '{"ref": "2.0.0\u202e"}'.encode(),
    "up and away": b'{"ref": "refs/heads/../../config"}',
    "an option": b'{"ref": "--upload-pack=touch /tmp/x"}',
    "an option behind a prefix": b'{"ref": "refs/heads/--upload-pack=x"}',
    "a reflog": b'{"ref": "main@{1}"}',
    "a range": b'{"ref": "main..evil"}',
    "a refspec": b'{"ref": "+main:evil"}',
    "a blank": b'{"ref": "main evil"}',
    "only a prefix": b'{"ref": "refs/tags/"}',
    "release without a tag": b'{"action": "published", "release": {}}',
    "release is a list": b'{"action": "published", "release": []}',
    "app is a text": b'{"app": "x"}',
    "annotations is a list": b'{"app": {"metadata": {"annotations": ["git.ref"]}}}',
    "git.ref is an object": b'{"app": {"metadata": {"annotations": {"git.ref": {}}}}}',
    "freight is null": b'{"freight": null}',
    "no commits": b'{"freight": {"commits": []}}',
    "commits of numbers": b'{"freight": {"commits": [1]}}',
    "a commit of nothing": b'{"freight": {"commits": [{}]}}',
    "a change of nothing": b'{"push": {"changes": [{}]}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        bare(HOSTILE[name])
    assert 10 < len(refused.value.message) < 200
    assert refused.value.message.isprintable()


def test_depth_in_unread_fields_is_harmless() -> None:
    assert bare(b'{"ref": "2.0.0", "x": ' + b"[" * 500 + b"]" * 500 + b"}").ref == TAG


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PLACES = [
    (name, path)
    for name in sorted({*ASKS_FOR_A_REF, *TELLS_OF_A_BRANCH})
    for path in (
        ("ref",),
        ("after",),
        ("deleted",),
        ("ref_type",),
        ("action",),
        ("release",),
        ("release", "tag_name"),
        ("tag",),
        ("object_kind",),
        ("push",),
        ("push", "changes"),
        ("changes",),
        ("app",),
        ("app", "metadata"),
        ("app", "metadata", "annotations"),
        ("freight",),
        ("freight", "commits"),
    )
]


@given(st.sampled_from(PLACES), ANY_JSON)
def test_another_type_anywhere_is_an_answer_and_never_an_accident(
    place: tuple[str, tuple[str, ...]], value: object
) -> None:
    name, path = place
    headers, body = recorded(name)
    whole: Any = json.loads(body)
    inner = whole
    for step in path[:-1]:
        inner = inner.get(step, {})
    inner[path[-1]] = value
    with suppress(InvalidValue):
        asked = read_request(headers, json.dumps(whole).encode())
        assert asked.ref or asked.pushed or asked.nothing


@given(st.binary(max_size=200), st.sampled_from(["push", "release", "create", "repo:push", "", "Push Hook"]))
def test_any_bytes_are_answered(body: bytes, event: str) -> None:
    for header in ("X-GitHub-Event", "X-Gitlab-Event", "X-Event-Key", "X-Gitea-Event"):
        try:
            asked = read_request({header: event}, body)
        except InvalidValue:
            continue
        # Only an object can be read at all, and one of these asks for nothing: `{}` has no change.
        assert isinstance(json.loads(body), dict)
        assert (asked.ref, asked.pushed, bool(asked.nothing)) == (None, (), True)
