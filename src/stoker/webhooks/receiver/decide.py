"""Decides what a request means for one resource: a sync request to write, or the reason against it. Pure.

A request for the spec's own ref is accepted; a request for another ref only if
`spec.webhook.allowedRefs` matches it. A pushed branch makes the controller look at git only if the
resource follows that branch. A sync request is written as annotations of the resource and never into
its spec, so that tools which keep the spec as it is in git see no drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from stoker.api.to_intent.annotations.annotation_requests import (
    NUDGED_AT,
    NUDGED_SOURCE,
    REQUESTED_AT,
    REQUESTED_BY,
    REQUESTED_REF,
    REQUESTED_SOURCE,
)
from stoker.domain.clock import rfc3339_micro
from stoker.domain.errors import InvalidValue
from stoker.domain.refs import GitRef
from stoker.engine.match.globs import GlobSet
from stoker.webhooks.receiver.index import IndexedResource
from stoker.webhooks.receiver.payloads import BRANCHES, TAGS, WebhookCaller, WebhookRequest

REQUESTED_BY_WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class WebhookSyncRequest:
    """A sync request: follow `ref`, or without a ref look again at the ref that is followed.

    `commit` is the ref's commit as named by the sender. Two requests with the same commit are equal; of
    two requests without a commit, the later may mean a later commit.
    """

    caller: WebhookCaller
    ref: GitRef | None = None
    commit: str = ""

    def annotations(self, group: str, now: datetime) -> dict[str, str]:
        """Return the annotations to write.

        The time has fractions of a second; otherwise a second request within a second would change nothing.
        A request without a ref has its own annotations: if it renewed the time of an earlier request for a
        ref, that request would count again although a newer spec has replaced it.
        """
        at, source = rfc3339_micro(now), str(self.caller)
        if self.ref is None:
            said = {NUDGED_AT: at, NUDGED_SOURCE: source}
        else:
            said = {
                REQUESTED_REF: str(self.ref),
                REQUESTED_AT: at,
                REQUESTED_BY: REQUESTED_BY_WEBHOOK,
                REQUESTED_SOURCE: source,
            }
        return {f"{group}/{key}": value for key, value in said.items()}


@dataclass(frozen=True, slots=True)
class WebhookDecision:
    """Whether the resource accepts the request, the ref it concerns, and the reason if it does not."""

    ref: str
    wish: WebhookSyncRequest | None = None
    reason: str = ""


def decide_request(asked: WebhookRequest, known: IndexedResource) -> WebhookDecision:
    """Decide what a request means for a resource."""
    followed = known.effective_ref.removeprefix(BRANCHES)
    moved = next((push for push in asked.pushed if push.branch == followed), None)
    if asked.ref is not None:
        if _is_spec_ref(asked.ref, known):
            # Spelled as in the spec: `refs/tags/main`, once shortened, would mean the branch.
            return WebhookDecision(asked.ref, WebhookSyncRequest(asked.caller, known.spec_ref, asked.commit))
        reason = _ref_refusal(asked.ref, known)
        if reason is None:
            return WebhookDecision(asked.ref, WebhookSyncRequest(asked.caller, asked.ref, asked.commit))
        if moved is None:
            return WebhookDecision(asked.ref, reason=reason)
    if moved is not None:
        return WebhookDecision(moved.branch, WebhookSyncRequest(asked.caller, None, moved.commit))
    if asked.pushed:
        branch = asked.pushed[0].branch
        return WebhookDecision(
            branch, reason=f"ignored: push to {branch}, this resource follows {known.effective_ref}"
        )
    return WebhookDecision("", reason=asked.nothing)


def _is_spec_ref(ref: GitRef, known: IndexedResource) -> bool:
    spec_ref = known.spec_ref
    return ref in (spec_ref, spec_ref.removeprefix(BRANCHES), spec_ref.removeprefix(TAGS))


def _ref_refusal(ref: GitRef, known: IndexedResource) -> str | None:
    try:
        if _globs(known.allowed_refs).matches(ref):
            return None
    except InvalidValue as error:
        return f"spec.webhook.allowedRefs cannot be read: {error.message}"
    follows = f"ignored: request for ref {ref}, this resource follows {known.effective_ref}"
    return f"{follows}; to let requests change that, add {ref} or a glob of it to spec.webhook.allowedRefs"


@lru_cache(maxsize=256)
def _globs(patterns: tuple[str, ...]) -> GlobSet:
    """Compile the globs; `*` alone matches every ref, also with a slash in its name."""
    return GlobSet("**" if one == "*" else one for one in patterns)
