"""The lifetime of a requested ref (C-053)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stoker.api.spec.status import RequestedRef
from stoker.api.to_intent.annotations.annotation_requests import parse_requests
from stoker.controller.spec.effective_ref import (
    EffectiveRef,
    clear_request_annotations,
    effective_ref,
    followed_ref_reason,
    request_trigger,
    request_values,
)
from stoker.domain.intent.annotation_requests import RefRequest
from stoker.domain.refs import GitRef
from stoker.webhooks.receiver.decide import WebhookSyncRequest
from stoker.webhooks.receiver.payloads import WebhookCaller

MAIN, V1, V2 = GitRef("main"), GitRef("v1"), GitRef("v2")
EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
AT = "2026-03-02T08:00:00.000000Z"


def record(ref: str, spec_ref: str, at: str | None = AT) -> RequestedRef:
    return RequestedRef(ref=ref, at=at, spec_ref=spec_ref)


@pytest.mark.parametrize(
    ("spec", "request_", "recorded", "expected"),
    [
        pytest.param(MAIN, None, None, EffectiveRef(MAIN), id="nothing was asked for"),
        pytest.param(MAIN, None, record("v1", "main"), EffectiveRef(MAIN), id="it was withdrawn"),
        pytest.param(
            MAIN, RefRequest(V1, EIGHT), None, EffectiveRef(V1, record("v1", "main")), id="a new one counts"
        ),
        pytest.param(
            MAIN,
            RefRequest(V1, EIGHT),
            record("v1", "main"),
            EffectiveRef(V1, record("v1", "main")),
            id="it goes on counting",
        ),
        pytest.param(
            V2,
            RefRequest(V1, EIGHT),
            record("v1", "main"),
            EffectiveRef(V2, expired=True),
            id="the spec changed after it",
        ),
        pytest.param(
            V2,
            RefRequest(MAIN, EIGHT),
            record("v1", "main"),
            EffectiveRef(MAIN, record("main", "v2")),
            id="one that came after the change counts",
        ),
        pytest.param(
            V2,
            RefRequest(V1, datetime(2026, 3, 2, 9, tzinfo=UTC)),
            record("v1", "main"),
            EffectiveRef(V1, record("v1", "v2", "2026-03-02T09:00:00.000000Z")),
            id="the same ref asked for anew counts",
        ),
        pytest.param(
            MAIN, RefRequest(V1), None, EffectiveRef(V1, record("v1", "main", None)), id="without a time"
        ),
    ],
)
def test_a_request_counts_until_the_spec_changes_after_it(
    spec: GitRef, request_: RefRequest | None, recorded: RequestedRef | None, expected: EffectiveRef
) -> None:
    assert effective_ref(spec, request_, recorded) == expected


def test_the_trigger_is_read_from_the_annotations() -> None:
    said = {"stoker.io/requested-at": AT, "stoker.io/requested-by": "webhook", "other/requested-by": "x"}
    assert request_values(said, "stoker.io") == ("", AT, "webhook", "", "")
    assert request_trigger(said, "stoker.io") == "webhook"
    assert request_trigger({"stoker.io/requested-by": "alice"}, "stoker.io") == "manual"
    assert request_trigger({"stoker.io/requested-source": "argocd"}, "stoker.io") == "webhook"
    by_hand = {"stoker.io/requested-at": AT, "stoker.io/requested-by": "alice"}
    for hour, by in (("07", "manual"), ("09", "webhook")):
        nudged = {**by_hand, "stoker.io/nudged-at": f"2026-03-02T{hour}:00:00.000000Z"}
        assert request_trigger(nudged, "stoker.io") == by
    on_the_page = {"stoker.io/nudged-at": AT, "stoker.io/nudged-source": "dashboard"}
    assert request_trigger(on_the_page, "stoker.io") == "manual", "a person and no git server"


def test_a_nudge_does_not_bring_an_outlived_request_back_to_life() -> None:
    requested = {"stoker.io/requested-ref": "v1", "stoker.io/requested-at": AT}
    nudged = requested | WebhookSyncRequest(WebhookCaller.GITHUB).annotations(
        "stoker.io", datetime(2026, 3, 2, 9, tzinfo=UTC)
    )
    assert request_values(nudged, "stoker.io") != request_values(requested, "stoker.io")
    request, _ = parse_requests(nudged, "stoker.io")
    assert effective_ref(V2, request.ref, record("v1", "main")) == EffectiveRef(V2, expired=True)


def test_what_takes_a_request_away_leaves_nothing_of_it() -> None:
    assert set(clear_request_annotations("stoker.io")) == {
        f"stoker.io/requested-{one}" for one in ("ref", "at", "by", "source")
    }


def test_the_status_says_who_made_the_resource_follow_another_ref() -> None:
    followed = effective_ref(MAIN, RefRequest(V2, EIGHT, "webhook", "github"), None)
    assert followed.recorded == RequestedRef(ref="v2", at=AT, by="webhook", source="github", spec_ref="main")
    assert followed_ref_reason(followed.recorded) == (
        f"requested by webhook (github) at {AT}; spec.git.ref main is not followed until a request names it "
        "or spec.git.ref changes"
    )
    assert followed_ref_reason(None) == ""
    assert followed_ref_reason(record("main", "main")) == "", "the spec's own ref needs no explanation"
