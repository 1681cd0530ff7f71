"""Spans: where they belong, what they may say, and that nothing waits for a collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.domain.traces import valid_traceparent
from stoker.telemetry import tracing
from stoker_testkit.services.otlp_collector import TraceCollector
from stoker_testkit.wait_until import eventually

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceCollector]:
    with TraceCollector.start() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        tracing.begin("stoker-test")
        yield made
        tracing.end()


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        GIVEN.upper(),
        f"{GIVEN} ",
        f"{GIVEN}-more",
        GIVEN.replace("00-", "01-", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473\u0660-00f067aa0ba902b7-01",
        "x" * 10_000_000,
    ],
)
def test_what_is_no_traceparent_is_none(text: str | None) -> None:
    assert valid_traceparent(text) == ""


def test_a_traceparent_is_one() -> None:
    assert valid_traceparent(GIVEN) == GIVEN


def test_spans_are_below_each_other_and_below_a_remote_parent(collector: TraceCollector) -> None:
    assert tracing.traceparent() == ""
    with tracing.span("outer", parent=GIVEN, name="plant"):
        carried = tracing.traceparent()
        with tracing.step("inner") as text:
            text.say(files=3)
        with tracing.laps("first") as laps:
            laps.lap("second")
    with tracing.step("idle"):
        pass
    tracing.end()
    outer = collector.until("outer")
    assert (outer.trace, outer.parent) == tuple(GIVEN.split("-")[1:3])
    assert carried == f"00-{outer.trace}-{outer.id}-01"
    assert outer.attributes == {"stoker.name": "plant"}
    assert outer.service == "stoker-test"
    for name in ("inner", "first", "second"):
        assert collector.until(name).parent == outer.id
    assert collector.until("inner").attributes == {"stoker.files": 3}
    assert collector.until("first").end <= collector.until("second").start
    assert collector.named("idle") == [], "a step alone begins no trace"


def test_work_that_is_over_keeps_its_time(collector: TraceCollector) -> None:
    with tracing.past("change", 5.0):
        tracing.passed("event", 5.0, 2.0)
    tracing.end()
    change, event = collector.until("change"), collector.until("event")
    assert 5.0 <= (change.end - change.start) / 1e9 < 6.0
    assert 2.9 < (event.end - event.start) / 1e9 < 3.1


def test_a_failure_is_recorded_by_its_reason_and_without_credentials(collector: TraceCollector) -> None:
    error = Retry("https://bot:hunter2@forge.example/x.git is away", reason=Reason.SOURCE_UNREACHABLE)
    with pytest.raises(Retry), tracing.span("fetch", url="https://bot:hunter2@forge.example/x.git"):
        raise error
    tracing.end()
    fetch = collector.until("fetch")
    assert fetch.failed
    assert fetch.attributes["error.type"] == "SourceUnreachable"
    assert "hunter2" not in f"{fetch.message} {fetch.attributes}"


def test_a_collector_that_is_away_holds_up_no_caller(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    tracing.begin("stoker-test")

    def work() -> None:
        for _ in range(5000):
            with tracing.span("work"):
                pass
        tracing.end()

    working = threading.Thread(target=work, daemon=True)
    working.start()
    eventually(lambda: not working.is_alive(), 60.0, "5,000 spans and the end, with a collector that is away")
    caplog.clear()
