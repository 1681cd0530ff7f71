"""The trace of a reconcile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stoker.api.spec.status import SyncStatus
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.trace import TraceTracker
from stoker.domain.clock import rfc3339_micro
from stoker.domain.protocol import AgentMetadata
from stoker.domain.reasons import Reason
from stoker.kube.runtime.conditions import ConditionStamp, mark_ready
from stoker.kube.watch.store import ObjectKey

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
ASKED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DELIVERED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
READY = SyncStatus(conditions=mark_ready((), Reason.GATEWAYS_SYNCED, "", at=ConditionStamp(1, NOW)))
BUSY = SyncStatus()


def asked(ago: timedelta, traceparent: str = ASKED) -> dict[str, str]:
    return {"stoker.io/nudged-at": rfc3339_micro(NOW - ago), "stoker.io/traceparent": traceparent}


def trace(following: TraceTracker, said: dict[str, str], before: SyncStatus = READY) -> str:
    return following.trace_of(KEY, said, "stoker.io", before, AgentMetadata(traceparent=DELIVERED), NOW)


def test_a_request_is_followed_until_it_has_had_its_effect() -> None:
    following, said = TraceTracker(), asked(timedelta(seconds=1))
    assert trace(following, said) == ASKED
    following.ended(KEY, said, "stoker.io", ready=False)
    assert trace(following, said) == ASKED
    following.ended(KEY, said, "stoker.io", ready=True)
    assert trace(following, said) == ""
    following.forget(KEY)
    assert trace(following, said) == ASKED


def test_a_request_of_long_ago_is_not_followed() -> None:
    assert trace(TraceTracker(), asked(timedelta(minutes=11))) == ""
    assert trace(TraceTracker(), {"stoker.io/traceparent": ASKED}) == "", "its time is unknown"
    assert trace(TraceTracker(), {**asked(timedelta()), "stoker.io/nudged-at": "yesterday"}) == ""


def test_what_is_no_traceparent_is_not_followed() -> None:
    assert trace(TraceTracker(), asked(timedelta(), "00-evil-01")) == ""


def test_a_commit_on_its_way_is_followed_until_all_have_it() -> None:
    assert trace(TraceTracker(), {}, BUSY) == DELIVERED
    assert trace(TraceTracker(), {}, READY) == ""
