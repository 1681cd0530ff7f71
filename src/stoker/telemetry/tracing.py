"""Traces across all processes, exported to an OpenTelemetry collector.

Off unless the environment names a collector (`OTEL_EXPORTER_OTLP_ENDPOINT` or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`). While it is off, OpenTelemetry is not imported, and a span costs one
comparison. A command calls `begin` once. While it is on, the packages of the extra `otel` do the work as
the OTEL_* variables configure it: sampling, headers, limits, a bounded queue and a sending thread.

    with tracing.span("git.fetch", commit=short):        a child of the current span
    with tracing.span("agent.pass", parent=traceparent): continues the trace of another process

`traceparent()` passes a trace to another process, in annotations and ConfigMaps that exist anyway. Tracing
must never fail or delay the traced work, and no attribute may be a secret: values are redacted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from stoker.domain.errors import StokerError
from stoker.domain.traces import valid_traceparent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

SpanValue: TypeAlias = str | int | float | bool

MAX_VALUE_LENGTH = 256
END_SECONDS = 3.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class TraceSpan(Protocol):
    """A span as the traced code sees it."""

    def say(self, **attributes: SpanValue) -> None:
        """Add attributes that were unknown at the start."""
        ...


class _NoopSpan:
    """A span that is not recorded; also used in place of a sequence of spans."""

    def say(self, **attributes: SpanValue) -> None:
        pass

    def lap(self, name: str) -> None:
        pass

    def __enter__(self) -> _NoopSpan:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_NO_SPAN = _NoopSpan()
_NO_SPAN_CONTEXT: AbstractContextManager[TraceSpan] = nullcontext(_NO_SPAN)
_on: _OpenTelemetry | None = None


def is_tracing() -> bool:
    return _on is not None


def begin(service: str, environment: Mapping[str, str] | None = None) -> None:
    """Start tracing if the environment names a collector; `service` is the default service name."""
    global _on  # noqa: PLW0603 - one per process, like the log
    given = os.environ if environment is None else environment
    if _on is not None or not _has_collector(given):
        return
    from stoker.telemetry.logs import get_logger  # noqa: PLC0415 - a single sync loads no log module

    log = get_logger(__name__)
    try:
        _on = _OpenTelemetry(service)
    except ImportError:
        log.warning("tracing.unavailable", why="the packages of the extra otel are not installed")
    except Exception as error:  # a wrong variable must not stop syncs
        log.warning("tracing.unavailable", why=f"{type(error).__name__}: {error}")
    else:
        log.info("tracing.begun", service=service)


def end() -> None:
    """Send the remaining spans, for at most three seconds."""
    global _on
    tracing, _on = _on, None
    if tracing is not None:
        tracing.end()


def span(name: str, /, *, parent: str = "", **attributes: SpanValue) -> AbstractContextManager[TraceSpan]:
    """Trace a piece of work, as a child of `parent` if that is a traceparent, else of the current span."""
    return _NO_SPAN_CONTEXT if _on is None else _on.span(name, parent, attributes)


def step(name: str, /, **attributes: SpanValue) -> AbstractContextManager[TraceSpan]:
    """Trace a piece of work only inside a trace: frequent work must not start traces of its own."""
    return _NO_SPAN_CONTEXT if _on is None or not _on.is_within() else _on.span(name, "", attributes)


def laps(name: str) -> _SpanSequence | _NoopSpan:
    """Trace consecutive steps as children of the current span, for work in a thread without context."""
    return _NO_SPAN if _on is None or not _on.is_within() else _SpanSequence(_on, name)


def past(name: str, seconds_ago: float, /, **attributes: SpanValue) -> AbstractContextManager[TraceSpan]:
    """Trace a piece of work that started some seconds ago."""
    return _NO_SPAN_CONTEXT if _on is None else _on.span(name, "", attributes, ago=seconds_ago)


def passed(name: str, began_ago: float, ended_ago: float, /, **attributes: SpanValue) -> None:
    """Record a piece of work that has already ended, as a child of the current span."""
    if _on is not None and _on.is_within():
        _on.passed(name, began_ago, ended_ago, attributes)


def traceparent() -> str:
    """Return what another process needs to continue this trace; empty outside of a trace."""
    return "" if _on is None else _on.traceparent()


def _has_collector(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() != "otlp":
        return False
    return any(environment.get(name, "").strip() for name in _ENDPOINTS)


class _OpenTelemetry:
    """The OpenTelemetry implementation, used while tracing is on."""

    def __init__(self, service: str) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only while tracing is on
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

        named = "OTEL_SERVICE_NAME" in os.environ
        resource = Resource.create({} if named else {"service.name": service})
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer: Tracer = self._provider.get_tracer("stoker")
        self._api = trace
        self._form = tracecontext.TraceContextTextMapPropagator()

    def is_within(self) -> bool:
        return self._api.get_current_span().get_span_context().is_valid

    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        self._form.inject(carrier)
        return valid_traceparent(carrier.get("traceparent"))

    @contextmanager
    def span(
        self, name: str, parent: str, attributes: Mapping[str, SpanValue], ago: float = 0.0
    ) -> Iterator[TraceSpan]:
        known = valid_traceparent(parent)
        context = self._form.extract({"traceparent": known}) if known else None
        began = self.start(name, context, attributes, ago)
        with self._api.use_span(began, record_exception=False, set_status_on_exception=False):
            try:
                yield _RecordedSpan(began)
            except BaseException as error:
                self.fail(began, error)
                raise
            finally:
                began.end()

    def start(
        self, name: str, context: Context | None, attributes: Mapping[str, SpanValue], ago: float = 0.0
    ) -> Span:
        start = _past_time_ns(ago) if ago > 0 else None
        return self._tracer.start_span(
            name, context, attributes=_clean_attributes(attributes), start_time=start
        )

    def passed(self, name: str, began: float, ended: float, attributes: Mapping[str, SpanValue]) -> None:
        start, stop = _past_time_ns(began), _past_time_ns(min(began, ended))
        self._tracer.start_span(name, attributes=_clean_attributes(attributes), start_time=start).end(stop)

    def fail(self, span: Span, error: BaseException) -> None:
        """Record the reason and the message; the stack trace belongs in the log."""
        reason = str(error.reason) if isinstance(error, StokerError) else type(error).__name__
        span.set_attribute("error.type", reason)
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, _clean_text(str(error))))

    def current(self) -> Context:
        return self._api.set_span_in_context(self._api.get_current_span())

    def end(self) -> None:
        """Send the remaining spans for a moment: an unresponsive collector must not delay the exit."""
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        ending.start()
        ending.join(END_SECONDS)


class _RecordedSpan:
    """A recorded span."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def say(self, **attributes: SpanValue) -> None:
        self._span.set_attributes(_clean_attributes(attributes))


class _SpanSequence:
    """Consecutive spans; each ends where the next begins."""

    def __init__(self, tracing: _OpenTelemetry, name: str) -> None:
        self._tracing = tracing
        self._parent = tracing.current()
        self._span = tracing.start(name, self._parent, {})

    def lap(self, name: str) -> None:
        self._span.end()
        self._span = self._tracing.start(name, self._parent, {})

    def __enter__(self) -> _SpanSequence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._tracing.fail(self._span, error)
        self._span.end()


def _past_time_ns(seconds_ago: float) -> int:
    return time.time_ns() - round(max(0.0, seconds_ago) * 1e9)


def _clean_attributes(attributes: Mapping[str, SpanValue]) -> dict[str, SpanValue]:
    """Return attributes as exported: prefixed names, and texts redacted and truncated."""
    return {
        f"stoker.{name}": _clean_text(value) if isinstance(value, str) else value
        for name, value in attributes.items()
    }


def _clean_text(text: str) -> str:
    from stoker.telemetry.redaction import redact_text  # noqa: PLC0415 - only while tracing is on

    return redact_text(str(text))[:MAX_VALUE_LENGTH]
