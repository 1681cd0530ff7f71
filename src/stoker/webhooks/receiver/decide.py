"""What a request means to one resource: a wish that is carried out, or the reason why not.

Pure. A request for the spec's own ref is accepted, one for another ref only where
`spec.webhook.allowedRefs` matches it; a pushed branch makes the controller look at git
only where the resource follows that branch. The wish is written as
annotations of the resource and never into its spec (R-HOOK-11): tools that keep the
spec as it stands in git see no drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from stoker.api.to_intent.annotation_requests import (
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
    """What is to be done: follow `ref`, or without one look again at what is followed.

    `commit` is where it points, as the sender said it: two wishes with the same one are
    the same wish, of two without it the later may mean a later commit.
    """

    caller: WebhookCaller
    ref: GitRef | None = None
    commit: str = ""

    def annotations(self, group: str, now: datetime) -> dict[str, str]:
        """What is written. The time has fractions, or a second wish within a second would change nothing.

        A nudge has annotations of its own: were it to renew the time of a request, one that
        the spec has outlived would count again.
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
    """Whether the resource takes it, which ref it is about, and if not, why."""

    ref: str
    wish: WebhookSyncRequest | None = None
    reason: str = ""


def decide_request(asked: WebhookRequest, known: IndexedResource) -> WebhookDecision:
    """What a request comes to for a resource."""
    followed = known.effective_ref.removeprefix(BRANCHES)
    moved = next((push for push in asked.pushed if push.branch == followed), None)
    if asked.ref is not None:
        if _is_spec_ref(asked.ref, known):
            # As the spec spells it: `refs/tags/main` would mean the branch once it is shortened.
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
    """`*` alone is every ref, also one with a slash in its name."""
    return GlobSet("**" if one == "*" else one for one in patterns)
