"""The validation webhook: its request, and what its responses mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from stoker.agent.gates.validation_webhook import MAX_PATHS, MAX_REASON_LENGTH, ValidationHook, request_body
from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import GatewayRef
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.intent.policies import ValidationPolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.plan import DeleteFile, SyncPlan, WriteFile
from stoker_testkit.processes import free_port

VERSION = FileVersion(BlobId("a" * 40))
PLAN = SyncPlan(
    writes=(
        WriteFile(RelPath("projects/a"), VERSION, replaces=False),
        WriteFile(RelPath("projects/b"), VERSION, replaces=True),
    ),
    deletions=(DeleteFile(RelPath("projects/c")),),
)
CHANGE = SyncChange(CommitId("1" * 40), GitRef("main"), PLAN, initial=False)
GATEWAY = GatewayRef("filler", "plant", "line", "gateway-0")


class Service:
    """A validation service."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b'{"allowed": true}'
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, str, dict[str, object]]] = []
        self.port = free_port()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def answer(request: web.Request) -> web.Response:
            self.asked.append((request.method, request.content_type, json.loads(await request.read())))
            return web.Response(status=self.status, body=self.body, headers=self.headers)

        app = web.Application()
        app.router.add_route("*", "/{any:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def judges(self, *, timeout: float = 5.0) -> StokerError | None:
        """What comes of asking."""
        url = f"http://127.0.0.1:{self.port}/s3cret-path?token=s3cret"
        hook = ValidationHook(ValidationPolicy(webhook_url=url, webhook_timeout=timeout), GATEWAY)
        refusal: StokerError | None = None
        entered = False
        try:
            async with hook.around(CHANGE):
                entered = True
        except StokerError as error:
            refusal = error
        assert entered == (refusal is None)
        if refusal is not None:
            assert "s3cret" not in refusal.message
            assert refusal.reason is Reason.VALIDATION_REJECTED
        return refusal


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with made.running():
        yield made


async def test_the_webhook_gets_the_plan_and_agrees(service: Service) -> None:
    assert await service.judges() is None
    ((method, kind, said),) = service.asked
    assert (method, kind) == ("POST", "application/json")
    assert said == {
        "commit": "1" * 40,
        "ref": "main",
        "gateway": "filler",
        "namespace": "plant",
        "resource": "line",
        "changedFiles": [
            {"path": "projects/c", "action": "deleted"},
            {"path": "projects/b", "action": "modified"},
            {"path": "projects/a", "action": "added"},
        ],
        "planDigest": PLAN.digest,
        "counts": {"added": 1, "modified": 1, "deleted": 1, "total": 3},
    }


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b""), (204, b""), (202, b"{}"), (200, b'{"allowed": true}')],
)
async def test_a_webhook_that_does_not_refuse_agrees(service: Service, status: int, body: bytes) -> None:
    service.status, service.body = status, body
    assert await service.judges() is None


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b'{"allowed": false, "reason": "no ticket"}', "no ticket"),
        (200, b'{"allowed": false}', "without a reason"),
        (200, b'{"allowed": "false"}', "without a reason"),
        (200, b'{"allowed": null, "reason": "unsure"}', "unsure"),
        (403, b'{"reason": "not on a Friday"}', "not on a Friday"),
        (422, b'{"allowed": true}', "answers 422 without a reason"),
        (302, b"", "answers 302 without a reason"),
        (200, b"<html>please log in</html>", "not with JSON"),
        (200, b"[1]", "not with JSON"),
        (403, b"<html>", "answers 403 without a reason"),
    ],
)
async def test_a_refusal_stalls_with_its_reason(service: Service, status: int, body: bytes, why: str) -> None:
    service.status, service.body = status, body
    error = await service.judges()
    assert isinstance(error, Stalled)
    assert why in error.message


async def test_a_reason_is_one_bounded_line(service: Service) -> None:
    text = "first\nsecond\x1b[31m\t" + "x" * 5000
    service.body = json.dumps({"allowed": False, "reason": text}).encode()
    error = await service.judges()
    assert error is not None
    assert "first second" in error.message
    assert error.message.isprintable()
    assert len(error.message) < MAX_REASON_LENGTH + 60


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
async def test_who_cannot_answer_now_refuses_for_now(service: Service, status: int) -> None:
    service.status, service.headers = status, {"Retry-After": "7"}
    error = await service.judges()
    assert isinstance(error, Retry)
    assert error.after == 7.0
    assert str(status) in error.message


async def test_an_unreachable_webhook_is_a_refusal_for_now() -> None:
    error = await Service().judges()
    assert isinstance(error, Retry)
    assert "127.0.0.1" in error.message


async def test_silence_is_a_refusal_after_its_time() -> None:
    silent = Service()

    async def hang(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", hang)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", silent.port).start()
    try:
        error = await silent.judges(timeout=0.2)
    finally:
        await runner.cleanup()
    assert isinstance(error, Retry)
    assert "0.2 s" in error.message


def test_of_very_many_files_the_first_are_named_and_all_are_counted() -> None:
    writes = tuple(WriteFile(RelPath(f"projects/{n}"), VERSION, replaces=False) for n in range(MAX_PATHS + 7))
    change = SyncChange(CommitId("1" * 40), GitRef("main"), SyncPlan(writes=writes), initial=True)
    said = request_body(change, GATEWAY)
    assert len(said["changedFiles"]) == MAX_PATHS  # type: ignore[arg-type]
    assert said["counts"] == {"added": MAX_PATHS + 7, "modified": 0, "deleted": 0, "total": MAX_PATHS + 7}
