"""Parses a webhook request of any sender: a ref to follow, branches that were pushed, or nothing. Pure.

Git servers name the event in a header, and each event has its own format. A body without such a header
is recognized by its fields:

    a tag was pushed or created      follow the tag
    a release was published          follow its tag; drafts and prereleases do not count
    a branch was pushed or created   resources that follow the branch look at git again
    {"ref": …}, Argo CD, Kargo       follow that ref; refs/heads/… counts as a push
    something was deleted, a ping    nothing, with the reason

A pushed branch is never a ref to follow: every push to a development branch would move gateways to it.
`stoker.webhooks.receiver.decide` decides whether a resource accepts the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import GitRef
from stoker.webhooks.receiver.json_body import WebhookPayload, objects_at, read_object, text_at, value_at

BRANCHES = "refs/heads/"
TAGS = "refs/tags/"

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class WebhookCaller(StrEnum):
    """The type of sender; the annotation `requested-source` and the label `source`."""

    GENERIC = "generic"
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    BITBUCKET = "bitbucket"
    ARGO_CD = "argocd"
    KARGO = "kargo"


@dataclass(frozen=True, slots=True)
class PushedBranch:
    """A pushed branch, and its new commit if the sender named it."""

    branch: GitRef
    commit: str = ""


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A parsed request; if it asks for nothing, `nothing` is the reason."""

    caller: WebhookCaller
    ref: GitRef | None = None
    commit: str = ""
    pushed: tuple[PushedBranch, ...] = ()
    nothing: str = ""


def read_request(headers: Mapping[str, str], body: bytes) -> WebhookRequest:
    """Parse a request; raises InvalidValue if that is not possible."""
    found = read_object(body)
    caller, event = _sender(headers, found)
    return replace(_READERS[caller](event, found), caller=caller)


def _sender(headers: Mapping[str, str], body: WebhookPayload) -> tuple[WebhookCaller, str]:
    """Return the sender and the event. Gitea also sends the headers of Gogs and GitHub, so it comes first."""
    for header, caller in _EVENT_HEADERS:
        event = headers.get(header, "")
        if event:
            return caller, event
    return next(
        ((caller, event) for fits, caller, event in _SHAPES if fits(body)), (WebhookCaller.GENERIC, "")
    )


_EVENT_HEADERS = (
    ("X-Forgejo-Event", WebhookCaller.GITEA),
    ("X-Gitea-Event", WebhookCaller.GITEA),
    ("X-Gogs-Event", WebhookCaller.GITEA),
    ("X-Gitlab-Event", WebhookCaller.GITLAB),
    ("X-Event-Key", WebhookCaller.BITBUCKET),
    ("X-GitHub-Event", WebhookCaller.GITHUB),
)

_SHAPES: tuple[tuple[Callable[[WebhookPayload], bool], WebhookCaller, str], ...] = (
    (lambda body: "freight" in body, WebhookCaller.KARGO, ""),
    (lambda body: "app" in body, WebhookCaller.ARGO_CD, ""),
    (lambda body: "object_kind" in body, WebhookCaller.GITLAB, ""),
    (lambda body: isinstance(value_at(body, "push", "changes"), list), WebhookCaller.BITBUCKET, "repo:push"),
    (lambda body: "release" in body, WebhookCaller.GITHUB, "release"),
    (lambda body: "ref" in body and "ref_type" in body, WebhookCaller.GITHUB, "create"),
    (lambda body: {"ref", "before", "after"} <= body.keys(), WebhookCaller.GITHUB, "push"),
    (lambda body: "zen" in body and "hook" in body, WebhookCaller.GITHUB, "ping"),
)


def _github(event: str, body: WebhookPayload) -> WebhookRequest:
    """Parse an event of GitHub, or of Gitea, Forgejo and Gogs, which use the same events."""
    match event:
        case "push":
            return _pushed_ref(text_at(body, "ref"), value_at(body, "after"), value_at(body, "deleted"))
        case "create":
            kind = {"branch": BRANCHES, "tag": TAGS}.get(text_at(body, "ref_type"))
            if kind is None:
                return _ignored_event("neither a branch nor a tag was created")
            return _pushed_ref(kind + text_at(body, "ref").removeprefix(kind), value_at(body, "sha"))
        case "release":
            return _release(body)
        case "ping":
            return _ignored_event("a ping is answered and changes nothing")
    return _ignored_event(f"the event {event[:40]!r} says nothing about a ref that is new")


def _release(body: WebhookPayload) -> WebhookRequest:
    """Parse a release event: only a publication counts, and a prerelease once it becomes a release."""
    action, tag = text_at(body, "action"), GitRef(text_at(body, "release", "tag_name"))
    if action not in {"published", "released"}:
        return _ignored_event(f"the release {tag} was {action[:40]}; only one that is published counts")
    for kind in ("draft", "prerelease"):
        if value_at(body, "release", kind):
            return _ignored_event(f"the release {tag} is a {kind}")
    return WebhookRequest(WebhookCaller.GITHUB, ref=tag)


def _gitlab(_: str, body: WebhookPayload) -> WebhookRequest:
    match value_at(body, "object_kind") or value_at(body, "event_name"):
        case "push" | "tag_push":
            return _pushed_ref(text_at(body, "ref"), value_at(body, "after"))
        case "release":
            action, tag = text_at(body, "action"), GitRef(text_at(body, "tag"))
            if action == "create":
                return WebhookRequest(
                    WebhookCaller.GITLAB, ref=tag, commit=_commit(value_at(body, "commit", "id"))
                )
            return _ignored_event(f"the release {tag} was not created: {action[:40]}")
    return _ignored_event("the event says nothing about a ref that is new")


def _bitbucket(event: str, body: WebhookPayload) -> WebhookRequest:
    """Parse `repo:push` (Cloud) and `repo:refs_changed` (Data Center); one push may change many refs."""
    if event == "repo:push":
        return _combine_changes(_cloud_change(one) for one in objects_at(body, "push", "changes"))
    if event == "repo:refs_changed":
        return _combine_changes(_server_change(one) for one in objects_at(body, "changes"))
    return _ignored_event(f"the event {event[:40]!r} says nothing about a ref that is new")


def _cloud_change(change: WebhookPayload) -> WebhookRequest:
    new = value_at(change, "new")
    if new is None:
        return _ignored_event(f"{text_at(change, 'old', 'name')[:80]!r} was deleted")
    kind = TAGS if value_at(change, "new", "type") in {"tag", "annotated_tag"} else BRANCHES
    return _pushed_ref(kind + text_at(change, "new", "name"), value_at(change, "new", "target", "hash"))


def _server_change(change: WebhookPayload) -> WebhookRequest:
    deleted = value_at(change, "type") == "DELETE"
    return _pushed_ref(text_at(change, "ref", "id"), value_at(change, "toHash"), deleted)


def _argo_cd(_: str, body: WebhookPayload) -> WebhookRequest:
    annotations = value_at(body, "app", "metadata", "annotations")
    found = annotations if isinstance(annotations, dict) else {}
    # An Argo CD template cannot write a dot in a name, so git_ref is accepted as well.
    ref = found.get("git.ref") or found.get("git_ref")
    if not isinstance(ref, str):
        raise InvalidValue("app.metadata.annotations has no git.ref that is a text")
    return _requested_ref(ref)


def _kargo(_: str, body: WebhookPayload) -> WebhookRequest:
    commits = objects_at(body, "freight", "commits")
    if not commits:
        raise InvalidValue("freight.commits is empty")
    return _requested_ref(text_at(commits[0], "tag" if commits[0].get("tag") else "id"))


def _generic(_: str, body: WebhookPayload) -> WebhookRequest:
    return _requested_ref(text_at(body, "ref"))


_READERS: Mapping[WebhookCaller, Callable[[str, WebhookPayload], WebhookRequest]] = {
    WebhookCaller.GENERIC: _generic,
    WebhookCaller.GITHUB: _github,
    WebhookCaller.GITEA: _github,
    WebhookCaller.GITLAB: _gitlab,
    WebhookCaller.BITBUCKET: _bitbucket,
    WebhookCaller.ARGO_CD: _argo_cd,
    WebhookCaller.KARGO: _kargo,
}


def _requested_ref(text: str) -> WebhookRequest:
    """Return a request for a ref by name; a full branch name (refs/heads/…) is only a push of that branch."""
    ref = GitRef(text)
    if ref.startswith((BRANCHES, TAGS)):
        return _pushed_ref(ref)
    return WebhookRequest(WebhookCaller.GENERIC, ref=ref)


def _pushed_ref(text: str, commit: object = "", deleted: object = False) -> WebhookRequest:
    ref = GitRef(text)
    if deleted or (isinstance(commit, str) and commit and not commit.strip("0")):
        return _ignored_event(f"{ref} was deleted")
    if ref.startswith(BRANCHES):
        branch = GitRef(ref.removeprefix(BRANCHES))
        return WebhookRequest(WebhookCaller.GENERIC, pushed=(PushedBranch(branch, _commit(commit)),))
    if ref.startswith(TAGS):
        return WebhookRequest(
            WebhookCaller.GENERIC, ref=GitRef(ref.removeprefix(TAGS)), commit=_commit(commit)
        )
    return _ignored_event(f"{ref} is neither a branch nor a tag")


def _combine_changes(changes: Iterable[WebhookRequest]) -> WebhookRequest:
    """Combine several changes; with several tags, it is unclear which to follow, so none is."""
    each = list(changes)
    tags = [one for one in each if one.ref is not None]
    pushed = tuple(branch for one in each for branch in one.pushed)
    if len(tags) == 1:
        return replace(tags[0], pushed=pushed)
    why = f"{len(tags)} tags were pushed at once, and none says which is meant" if tags else ""
    why = why or "; ".join(one.nothing for one in each[:5] if one.nothing) or "nothing was pushed"
    return WebhookRequest(WebhookCaller.BITBUCKET, pushed=pushed, nothing="" if pushed else why)


def _commit(value: object) -> str:
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else ""


def _ignored_event(why: str) -> WebhookRequest:
    return WebhookRequest(WebhookCaller.GENERIC, nothing=why)
