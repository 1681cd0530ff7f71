"""Health checks and announcements, done beside the passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.api.spec.status import ApprovalRequest
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.health_checks_and_notices import BackgroundTasks
from stoker.controller.rollout import StageHealthCheck
from stoker.controller.rollout.callouts import ATTEMPTS, ApprovalNotifier, StageHealthChecker, announcement
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.certificates import Authority
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.processes import free_port
from stoker_testkit.services.stub_http_service import StubHttpService
from stoker_testkit.wait_until import eventually_async

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))


async def no_secret(namespace: str, wanted: SecretKey) -> Secret:
    raise AssertionError("none was named")


@pytest.fixture
def service() -> Iterator[StubHttpService]:
    with StubHttpService.start() as made:
        yield made


async def test_a_task_is_run_once_and_enqueues_the_resource() -> None:
    ran: list[str] = []
    found: list[ResourceKey] = []
    gate = asyncio.Event()

    async def do(key: ResourceKey, what: str) -> str:
        ran.append(what)
        await gate.wait()
        if what == "broken":
            raise RuntimeError("our own mistake")
        return what.upper()

    errands: BackgroundTasks[str, str] = BackgroundTasks(do, found.append)
    assert errands.look(KEY, "one") is None
    assert errands.look(KEY, "one") is None, "it is on its way"
    gate.set()
    await eventually_async(lambda: found)
    assert (errands.look(KEY, "one"), ran) == ("ONE", ["one"])
    assert errands.look(KEY, "two") is None, "another one is another errand"
    await eventually_async(lambda: len(found) == 2)
    assert errands.look(KEY, "two") == "TWO"
    errands.forget(KEY)
    assert errands.look(KEY, "two") is None, "a dropped task is done anew"
    await eventually_async(lambda: len(found) == 3)

    assert errands.look(KEY, "broken") is None
    await eventually_async(lambda: ran.count("broken") == 1)
    await eventually_async(lambda: errands.look(KEY, "broken") is None and ran.count("broken") == 2)

    gate.clear()
    standing_by = asyncio.create_task(errands.run())
    assert errands.look(KEY, "late") is None
    await eventually_async(lambda: "late" in ran)
    standing_by.cancel()
    await asyncio.gather(standing_by, return_exceptions=True)
    gate.set()
    await asyncio.sleep(0)
    assert len(found) == 3, "nothing runs on when the term is over"


async def test_a_health_check_passes_with_200_alone_and_names_the_host_alone(
    service: StubHttpService,
) -> None:
    def what(url: str) -> StageHealthCheck:
        return StageHealthCheck("pilot", "a" * 40, "2026-03-02T08:15:00Z", url)

    check = StageHealthChecker(ManualClock(), no_secret).check
    assert (await check(KEY, what(f"{service.url}/ok?key=hidden"))).trouble == ""
    for status in (204, 302, 500):
        service.status = status
        checked = await check(KEY, what(f"{service.url}/x?key=hidden"))
        assert checked.trouble == f"127.0.0.1 answered {status}"
    gone = await check(KEY, what(f"http://127.0.0.1:{free_port()}/x?key=hidden"))
    assert "cannot be reached" in gone.trouble
    assert "hidden" not in gone.trouble


async def test_a_gateway_is_believed_by_the_authority_that_agents_believe(tmp_path: Path) -> None:
    authority = Authority("plant")
    named = SecretKey("gateway-ca", "ca.crt")

    async def secret(namespace: str, wanted: SecretKey) -> Secret:
        assert (namespace, wanted) == ("plant", named)
        return Secret(authority.pem)

    with StubHttpService.start(authority.server().save(tmp_path, "gateway")) as service:
        what = StageHealthCheck("pilot", "a" * 40, "2026-03-02T08:15:00Z", f"{service.url}/StatusPing")
        check = StageHealthChecker(ManualClock(), secret).check
        assert "certificate" in (await check(KEY, what)).trouble
        assert (await check(KEY, what._replace(ca=named))).trouble == ""
        assert (await check(KEY, what._replace(verified=False))).trouble == ""


async def test_the_check_that_decides_has_ten_seconds_for_a_200(service: StubHttpService) -> None:
    clock = ManualClock()
    last = StageHealthCheck("pilot", "a" * 40, "2026-03-02T08:15:00Z", f"{service.url}/x", last=True)
    service.status = 503
    checking = asyncio.create_task(StageHealthChecker(clock, no_secret).check(KEY, last))
    await eventually_async(lambda: clock.alarms)
    service.status = 200
    await clock.advance(1.0)
    assert (await checking).trouble == ""

    service.status, service.asked = 503, []
    checking = asyncio.create_task(StageHealthChecker(clock, no_secret).check(KEY, last))
    while not checking.done():
        await eventually_async(lambda: clock.alarms or checking.done())
        await clock.advance(1.0)
    assert (await checking).trouble == "127.0.0.1 answered 503"
    assert len(service.asked) == 10


async def test_a_requested_approval_is_notified_until_a_target_accepts_it(service: StubHttpService) -> None:
    clock = ManualClock()
    said: list[tuple[bool, Reason, str]] = []
    announcer = ApprovalNotifier(clock, lambda key, *what: said.append(what))
    request = ApprovalRequest(
        commit="a" * 40, ref="main", state="Pending", digest="d" * 64, files_added=1, expires_at="later"
    )
    what = announcement(KEY, f"{service.url}/approve?key=hidden", request)
    service.status = 500
    telling = asyncio.create_task(announcer.tell(KEY, what))
    await eventually_async(lambda: len(service.sent) == 1 and clock.alarms)
    service.status = 202
    await clock.advance(2.0)
    assert await telling is True
    assert service.sent[1] == {
        "kind": "Stoker",
        "namespace": "plant",
        "name": "line",
        "commit": "a" * 40,
        "ref": "main",
        "digest": "d" * 64,
        "filesAdded": 1,
        "expiresAt": "later",
    }
    assert [(warning, reason) for warning, reason, _ in said] == [
        (True, Reason.SERVICE_UNREACHABLE),
        (False, Reason.PENDING_APPROVAL),
    ]
    assert not any("hidden" in message for *_, message in said)

    service.status = 500
    telling = asyncio.create_task(announcer.tell(KEY, what))
    for _ in range(ATTEMPTS):
        await eventually_async(lambda: clock.alarms or telling.done())
        await clock.advance(300.0)
    assert await telling is False
    assert said[-1][2] == "approval.webhook was not notified of the request: 127.0.0.1 answered 500"
