"""A collector of OpenTelemetry: takes traces over OTLP/HTTP and keeps the spans.

    with TraceCollector.start() as collector:
        process(env=collector.environment)
        collector.until("agent.pass")

Bodies are decoded as the protocol has them, protobuf (gzipped or not) or JSON. What is
neither is refused and kept in `complaints`. It needs the packages of the extra `otel`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.http_listener import WebListener
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class SpanSeen:
    """One span."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    """The id of the span above; empty for the first of a trace."""
    start: int
    end: int
    attributes: Mapping[str, Any]
    failed: bool
    message: str


class TraceCollector(Stoppable):
    """On a free port of 127.0.0.1, served from a thread of its own."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[SpanSeen] = []
        self.complaints: list[str] = []
        self._loop = LoopThread("trace-collector")
        self._listener = WebListener()

    @classmethod
    def start(cls) -> Self:
        collector = cls()
        collector._loop.run(collector._listen())
        return collector

    def stop(self) -> None:
        self._loop.run(self._listener.close())
        self._loop.stop()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a traced process; spans are sent as soon as they end."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={planted('collector-key')}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def named(self, name: str) -> list[SpanSeen]:
        return [one for one in list(self.spans) if one.name == name]

    def until(
        self, name: str, fits: Callable[[SpanSeen], bool] = lambda span: True, patience: float = PATIENCE
    ) -> SpanSeen:
        """Wait for a span; the first that fits."""
        found: list[SpanSeen] = eventually(
            lambda: [one for one in self.named(name) if fits(one)],
            patience,
            lambda: (
                f"a span {name}; there are {sorted({one.name for one in self.spans})} and {self.complaints}"
            ),
        )
        return found[0]

    def path_of(self, span: SpanSeen) -> list[str]:
        """The names from the first span of a trace down to this one."""
        known = {one.id: one for one in list(self.spans)}
        path = [span.name]
        while span.parent and span.parent in known:
            span = known[span.parent]
            path.insert(0, span.name)
        return path

    async def _listen(self) -> None:
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/v1/traces", self._take)
        self.url = await self._listener.open(app)

    async def _take(self, request: web.Request) -> web.Response:
        from google.protobuf.json_format import Parse  # type: ignore[import-untyped] # noqa: PLC0415
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire  # noqa: PLC0415

        body = await request.read()
        asked = wire.ExportTraceServiceRequest()
        try:
            if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
                body = gzip.decompress(body)
            if request.content_type == "application/json":
                Parse(body, asked)
            elif request.content_type == "application/x-protobuf":
                asked.ParseFromString(body)
            else:
                raise ValueError(request.content_type)
        except Exception as error:
            self.complaints.append(f"{type(error).__name__}: {error}")
            return web.Response(status=400)
        for resource in asked.resource_spans:
            about = {one.key: _value(one.value) for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_seen(one, str(about.get("service.name", ""))) for one in scope.spans]
        answer = wire.ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")


def _seen(span: Any, service: str) -> SpanSeen:
    return SpanSeen(
        span.name,
        service,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        {one.key: _value(one.value) for one in span.attributes},
        span.status.code == 2,
        span.status.message,
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind is not None else None
