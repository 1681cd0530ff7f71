"""Slack, PagerDuty, Microsoft Teams and a plain webhook, each as its documentation has it.

    services.url("slack")       what a Slack app hands out as an incoming webhook
    services.pagerduty_url      where events of the Events API v2 go
    services.heard("slack")     the bodies that were taken, in order

Each request is checked against the documented shape and limits; what does not fit is
refused as the service refuses it and kept in `complaints`. A test can let services
answer badly, or not at all.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from aiohttp import web

from stoker_testkit.certificates import KeyPair
from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.http_listener import WebListener
from stoker_testkit.secret_leaks.tracked_credentials import known, mark, planted
from stoker_testkit.stoppable import Stoppable

ROUTING_KEY = known("pagerduty", mark() * 2)
PATHS = {
    "slack": f"/services/T00000000/B00000000/{planted('slack')}",
    "teams": f"/workflows/{planted('teams')}/triggers/manual/paths/invoke?api-version=1&sig={planted('sig')}",
    "webhook": f"/alerts/{planted('webhook')}",
    "pagerduty": "/v2/enqueue",
}
MAX_TEAMS_BYTES = 28 * 1024
MAX_PAGERDUTY_BYTES = 512 * 1024


class UndocumentedRequest(Exception):
    """A request that the documentation does not have."""


class AlertServices(Stoppable):
    """All four on a free port of 127.0.0.1, served from a thread of its own."""

    def __init__(self) -> None:
        self.base = ""
        self.complaints: list[str] = []
        self.asked: list[str] = []
        """The service of each request, also of those that were answered badly."""
        self._heard: list[tuple[str, dict[str, Any]]] = []
        self._troubles: dict[str, list[tuple[int, int | None]]] = {}
        self._loop = LoopThread("alert-services")
        self._listener = WebListener()

    @classmethod
    def start(cls, tls: KeyPair | None = None) -> Self:
        services = cls()
        services._loop.run(services._listen(tls))
        return services

    def stop(self) -> None:
        self._loop.run(self._listener.close())
        self._loop.stop()

    def url(self, service: str) -> str:
        return f"{self.base}{PATHS[service]}"

    @property
    def pagerduty_url(self) -> str:
        return self.url("pagerduty")

    def heard(self, service: str) -> list[dict[str, Any]]:
        return [body for name, body in list(self._heard) if name == service]

    def fail(self, service: str, status: int, *, times: int = 1, retry_after: int | None = None) -> None:
        """Answer the next requests with this status; 0: never."""
        self._troubles.setdefault(service, []).extend([(status, retry_after)] * times)

    async def _listen(self, tls: KeyPair | None) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.base = await self._listener.open(app, tls)

    async def _answer(self, request: web.Request) -> web.Response:
        service = next((name for name, path in PATHS.items() if path == request.path_qs), "")
        self.asked.append(service)
        if not service:
            self.complaints.append(f"{request.method} {request.path}: no such service")
            return web.Response(status=404, text="no_service")
        if troubles := self._troubles.get(service):
            status, retry_after = troubles.pop(0)
            if not status:
                await asyncio.sleep(3600)
            headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
            return web.Response(status=status, headers=headers, text=f"not now, {request.path_qs}")
        try:
            body = await _body(request)
            _CHECKS[service](body)
        except UndocumentedRequest as unfit:
            self.complaints.append(f"{service}: {unfit}")
            return web.Response(status=400, text="invalid_payload")
        self._heard.append((service, body))
        if service == "pagerduty":
            accepted = {"status": "success", "message": "Event processed", "dedup_key": body.get("dedup_key")}
            return web.json_response(accepted, status=202)
        return web.Response(status=202) if service == "teams" else web.Response(text="ok")


async def _body(request: web.Request) -> dict[str, Any]:
    if request.method != "POST" or request.content_type != "application/json":
        raise UndocumentedRequest(f"{request.method} with {request.content_type}")
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise UndocumentedRequest("the body is no JSON") from None
    if not isinstance(body, dict):
        raise UndocumentedRequest("the body is no object")
    return body


def _slack(body: dict[str, Any]) -> None:
    if not isinstance(body.get("text"), str) or not 1 <= len(body["text"]) <= 40_000:
        raise UndocumentedRequest("no_text")
    blocks = body.get("blocks", [])
    if not isinstance(blocks, list) or len(blocks) > 50:
        raise UndocumentedRequest("invalid_blocks: a message has at most 50")
    for block in blocks:
        _slack_block(block)


def _slack_block(block: dict[str, Any]) -> None:
    kind = block.get("type")
    if kind == "header":
        _slack_text(block.get("text"), ("plain_text",), 150)
    elif kind == "section":
        _slack_text(block.get("text"), ("plain_text", "mrkdwn"), 3000)
    elif kind == "context":
        elements = block.get("elements")
        if not isinstance(elements, list) or not 1 <= len(elements) <= 10:
            raise UndocumentedRequest("invalid_blocks: a context has one to ten elements")
        for element in elements:
            _slack_text(element, ("plain_text", "mrkdwn"), 3000)
    else:
        raise UndocumentedRequest(f"invalid_blocks: {kind}")


def _slack_text(text: object, kinds: tuple[str, ...], longest: int) -> None:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        raise UndocumentedRequest("invalid_blocks: a text object has a type of its own")
    words = text.get("text")
    if not isinstance(words, str) or not 1 <= len(words) <= longest:
        raise UndocumentedRequest(f"invalid_blocks: a text has 1 to {longest} characters here")
    if text["type"] == "mrkdwn" and re.search(r"[<>]|&(?!amp;|lt;|gt;)", words):
        raise UndocumentedRequest("a text with &, < or > is not escaped")
    if text["type"] == "mrkdwn" and "emoji" in text:
        raise UndocumentedRequest("invalid_blocks: emoji belongs to plain_text")


def _pagerduty(body: dict[str, Any]) -> None:
    _has(body, {"routing_key": str, "event_action": str}, {"dedup_key": str, "payload": dict, "client": str})
    if len(body["routing_key"]) != 32:
        raise UndocumentedRequest("the routing key has 32 characters")
    if len(body.get("dedup_key", "")) > 255:
        raise UndocumentedRequest("the dedup key has at most 255 characters")
    if body["event_action"] in ("resolve", "acknowledge"):
        if not body.get("dedup_key"):
            raise UndocumentedRequest("a resolve needs the dedup key")
        return
    if body["event_action"] != "trigger":
        raise UndocumentedRequest(f"there is no action {body['event_action']}")
    payload = body.get("payload", {})
    optional = {"timestamp": str, "component": str, "group": str, "class": str, "custom_details": dict}
    _has(payload, {"summary": str, "source": str, "severity": str}, optional)
    if not 1 <= len(payload["summary"]) <= 1024 or not payload["source"]:
        raise UndocumentedRequest("the summary has 1 to 1024 characters, and a source is needed")
    if payload["severity"] not in ("critical", "error", "warning", "info"):
        raise UndocumentedRequest(f"there is no severity {payload['severity']}")
    if len(json.dumps(body)) > MAX_PAGERDUTY_BYTES:
        raise UndocumentedRequest("an event has at most 512 KB")


def _teams(body: dict[str, Any]) -> None:
    if len(json.dumps(body, ensure_ascii=False).encode()) > MAX_TEAMS_BYTES:
        raise UndocumentedRequest("a message has at most 28 KB")
    _has(body, {"type": str, "attachments": list}, {})
    if body["type"] != "message" or len(body["attachments"]) != 1:
        raise UndocumentedRequest("it is a message with one attachment")
    attachment = body["attachments"][0]
    if attachment.get("contentType") != "application/vnd.microsoft.card.adaptive":
        raise UndocumentedRequest("workflows take adaptive cards only")
    card = attachment.get("content", {})
    if card.get("type") != "AdaptiveCard" or not re.fullmatch(r"1\.\d", card.get("version", "")):
        raise UndocumentedRequest("it is an AdaptiveCard of a version")
    for element in card.get("body", []):
        if element.get("type") == "TextBlock" and not isinstance(element.get("text"), str):
            raise UndocumentedRequest("a TextBlock has a text")
        if element.get("type") == "FactSet" and not all(
            isinstance(fact.get("title"), str) and isinstance(fact.get("value"), str)
            for fact in element.get("facts", [])
        ):
            raise UndocumentedRequest("a fact has a title and a value")
        if element.get("type") not in ("TextBlock", "FactSet"):
            raise UndocumentedRequest(f"an element {element.get('type')} was not expected")


def _webhook(body: dict[str, Any]) -> None:
    names = ("version", "status", "key", "reason", "cause", "severity", "message", "kind", "namespace")
    _has(body, dict.fromkeys((*names, "name", "gateway", "cluster", "time"), str), {})
    if body["status"] not in ("firing", "resolved") or body["version"] != "1":
        raise UndocumentedRequest("status and version are not as documented")


def _has(body: Mapping[str, Any], required: Mapping[str, type], optional: Mapping[str, type]) -> None:
    known = {**required, **optional}
    for name, value in body.items():
        if name not in known or not isinstance(value, known[name]):
            raise UndocumentedRequest(f"field {name} is not as documented")
    if absent := sorted(required.keys() - body.keys()):
        raise UndocumentedRequest(f"these fields are missing: {', '.join(absent)}")


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "slack": _slack,
    "pagerduty": _pagerduty,
    "teams": _teams,
    "webhook": _webhook,
}
