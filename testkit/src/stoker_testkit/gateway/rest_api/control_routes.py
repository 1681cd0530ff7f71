"""The strings of the test gateway, for tests in other processes: `/testing/…`, which is not Ignition's.

`GET /testing/loaded` shows what the last scans published. Everything else is a `POST`
with a JSON object, or without a body, and answers with JSON; what cannot be done is a
400 with a `message`. None of it needs a key, and none of it is on record.

    open-designer   {"id", "user", "project", "address"?}       close-designer  {"id"}
    open-session    {"id", "user", "project", "leaves_after"?}  close-session   {"id"}
    state           {"state": "STARTING" | "RUNNING" | "FAULTED"}
    settings        {"scan_lock": false, "version": "8.1.44", …}: those that are text, number or yes/no
    scan            {"kind"}: for a reason of its own           saving          {"kind", "busy"}
    scan-at-random  {"rate", "seed"?}: times a second, 0 ends it
    restart         {"seconds"?}                                pending         {"tasks": ["…"]}
    save            {"path", "text"} -> {"written"}: a Designer's save, queued behind a lock
    stale           -> {"stale": ["projects/…"], "mishaps": [{"resource", "how", "files"}], "poisoned": […]}
    requests        -> {"requests": [{"method", "path", "query", "key", "status"}]}
    messages        -> {"messages": [{"session", "text"}]}: what Perspective users were shown
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from enum import StrEnum

from aiohttp import web

from stoker_testkit.gateway.rest_api.request_checks import body_of
from stoker_testkit.gateway.rest_api.request_log import GatewayRequest
from stoker_testkit.gateway.runtime import GatewayRuntime, State
from stoker_testkit.gateway.scan_lock import ScanLockKind
from stoker_testkit.gateway.sessions import Designer, PerspectiveBrowser
from stoker_testkit.gateway.settings import GatewaySettings

PREFIX = "/testing/"

ControlBody = dict[str, object]


class ControlRoutes:
    """One verb per method; what a verb does not understand is a ValueError."""

    def __init__(
        self, runtime: GatewayRuntime, settings: GatewaySettings, requests: Sequence[GatewayRequest]
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._requests = requests
        self._verbs: dict[str, Callable[[ControlBody], Awaitable[ControlBody | None]]] = {
            "open-designer": self._open_designer,
            "close-designer": self._close_designer,
            "open-session": self._open_session,
            "close-session": self._close_session,
            "state": self._state,
            "settings": self._change_settings,
            "scan": self._scan,
            "saving": self._saving,
            "scan-at-random": self._scan_at_random,
            "restart": self._restart,
            "pending": self._pending,
            "save": self._save,
            "stale": self._stale,
            "requests": self._asked,
            "messages": self._messages,
        }

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get(f"{PREFIX}loaded", self._loaded)
        router.add_post(f"{PREFIX}{{verb}}", self._do)

    async def _do(self, request: web.Request) -> web.Response:
        verb = self._verbs.get(request.match_info["verb"])
        if verb is None:
            raise web.HTTPNotFound
        body = await body_of(request) if request.body_exists else {}
        try:
            if not isinstance(body, dict):
                raise ValueError("a JSON object is expected")
            answer = await verb(body)
        except (ValueError, KeyError, TypeError) as error:
            return web.json_response({"message": str(error)}, status=400)
        return web.json_response(answer if answer is not None else {})

    async def _loaded(self, _: web.Request) -> web.Response:
        runtime = self._runtime
        return web.json_response(
            {
                "projects": {
                    name: {path: resource.digest for path, resource in project.resources.items()}
                    for name, project in runtime.projects.items()
                },
                "config": {path: resource.digest for path, resource in runtime.config.items()},
                "scans": runtime.scans_done,
                "scanActive": any(scanning.active for scanning in runtime.kinds.values()),
                "state": runtime.state,
                "faults": runtime.faults,
                "active": runtime.active,
                "stale": await runtime.stale(),
            }
        )

    async def _open_designer(self, body: ControlBody) -> None:
        self._runtime.sessions.open_designer(Designer(**_texts(body)))

    async def _close_designer(self, body: ControlBody) -> None:
        if not self._runtime.sessions.end_designer(_text(body, "id")):
            raise ValueError(f"no Designer has the id {body['id']!r}")

    async def _open_session(self, body: ControlBody) -> None:
        after = body.pop("leaves_after", 0.2)
        browser = PerspectiveBrowser(**_texts(body), leaves_after=None if after is None else _number(after))
        self._runtime.sessions.open_browser(browser)

    async def _close_session(self, body: ControlBody) -> None:
        if not self._runtime.sessions.close_browser(_text(body, "id")):
            raise ValueError(f"no session has the id {body['id']!r}")

    async def _state(self, body: ControlBody) -> None:
        self._runtime.state = State(_text(body, "state"))

    async def _change_settings(self, body: ControlBody) -> None:
        for name, value in body.items():
            old = getattr(self._settings, name, None)
            if isinstance(old, StrEnum):
                value = type(old)(str(value))  # noqa: PLW2901 - text becomes the value of its type
            elif isinstance(old, float) and isinstance(value, int):
                value = float(value)  # noqa: PLW2901
            if not isinstance(old, str | int | float) or type(value) is not type(old):
                raise ValueError(f"no setting {name!r} takes {value!r}")
            setattr(self._settings, name, value)

    async def _scan(self, body: ControlBody) -> None:
        self._runtime.ask_for_scan(ScanLockKind(_text(body, "kind")), releases=False)

    async def _saving(self, body: ControlBody) -> None:
        self._runtime.kinds[ScanLockKind(_text(body, "kind"))].saving = body["busy"] is True

    async def _scan_at_random(self, body: ControlBody) -> None:
        seed = body.get("seed")
        self._runtime.scan_at_random(_number(body["rate"]), seed if isinstance(seed, int) else None)

    async def _restart(self, body: ControlBody) -> None:
        self._runtime.restart(_number(body.get("seconds", self._settings.restart_seconds)))

    async def _pending(self, body: ControlBody) -> None:
        tasks = body["tasks"]
        if not isinstance(tasks, list):
            raise TypeError("tasks is a list")
        self._runtime.pending = [str(one) for one in tasks]

    async def _save(self, body: ControlBody) -> ControlBody:
        return {"written": self._runtime.save(_text(body, "path"), _text(body, "text").encode())}

    async def _stale(self, _: ControlBody) -> ControlBody:
        return {
            "stale": await self._runtime.stale(),
            "mishaps": [asdict(one) for one in self._runtime.witness.mishaps],
            "poisoned": self._runtime.poisoned(),
        }

    async def _asked(self, _: ControlBody) -> ControlBody:
        return {"requests": [asdict(one) for one in self._requests]}

    async def _messages(self, _: ControlBody) -> ControlBody:
        return {"messages": [asdict(one) for one in self._runtime.sessions.messages]}


def _text(body: ControlBody, name: str) -> str:
    found = body[name]
    if not isinstance(found, str):
        raise TypeError(f"{name} is a text")
    return found


def _texts(body: ControlBody) -> dict[str, str]:
    return {name: _text(body, name) for name in body}


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
