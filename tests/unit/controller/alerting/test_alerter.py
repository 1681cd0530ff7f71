"""Alerts from a pass to the services, which are doubles that check what they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.meta import Condition
from stoker.api.spec.status import GatewayStatus, QuarantineStatus, SyncStatus
from stoker.api.to_intent import SettledResource, intent_for, merge_spec
from stoker.controller.alerting.alerter import Alerter
from stoker.controller.alerting.queue import BURST, PAUSES, WINDOW, AlertQueue
from stoker.controller.alerting.send import AlertSender
from stoker.controller.cache.objects import ResourceKey, decode_object
from stoker.controller.context import ReconcileContext
from stoker.controller.spec.load import LoadedSpec
from stoker.controller.status.events import status_events
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.processes import free_port
from stoker_testkit.services.alert_receivers import ROUTING_KEY, AlertServices
from stoker_testkit.wait_until import eventually_async

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
WELL = ("Ready", "True", "GatewaysSynced")
PAUSED = ("Ready", "False", "Paused")
MISSING = ("Ready", "False", "SecretNotFound")
DAMAGED = ("Ready", "False", "RefNotFound")


def status(*conditions: tuple[str, str, str], message: str = "", **more: Any) -> SyncStatus:
    made = tuple(
        Condition(
            type=kind,
            status=value,  # type: ignore[arg-type]  # tables are shorter with plain text
            reason=reason,
            message=message or f"about {kind}",
            last_transition_time="2026-03-02T08:15:00Z",
        )
        for kind, value, reason in conditions
    )
    return SyncStatus(conditions=made, observed_generation=1, **more)


def gateway(name: str, **more: Any) -> GatewayStatus:
    return GatewayStatus(name=name, pod_name=f"{name}-0", **{"sync_status": "Synced", **more})


class Bench:
    """One resource, whose status is changed by hand, and the alerter of a term."""

    def __init__(self, services: AlertServices, client: KubeClient, clock: ManualClock) -> None:
        self.services, self.clock = services, clock
        self.counted: list[tuple[str, str]] = []
        self.events = EventRecorder(client, component="test", instance="test", clock=clock)
        self.outbox = AlertQueue(capacity=5)
        self.alerter = Alerter(
            AlertSender(client, services.pagerduty_url, timeout=2.0),
            self.events,
            clock,
            cluster="north",
            counted=lambda key, kind, result: self.counted.append((str(kind), result)),
            outbox=self.outbox,
        )
        self.status = status(WELL)
        self.webhooks: list[dict[str, Any]] = []

    def target(self, kind: str, *on: str) -> None:
        secret = {"integrationKey": ROUTING_KEY} if kind == "pagerduty" else {"url": self.services.url(kind)}
        self.webhooks.append({"type": kind, **secret, **({"on": list(on)} if on else {})})

    def becomes(self, *conditions: tuple[str, str, str], message: str = "", **more: Any) -> None:
        """A pass writes this status."""
        after = status(*conditions, message=message, **more)
        meta = {"name": "line", "namespace": "plant", "uid": "uid-1", "generation": 1}
        spec = {
            "git": {"repo": "https://git.test/plant.git", "ref": "main"},
            "alerting": {"enabled": True, "webhooks": self.webhooks},
        }
        settled: SettledResource[Any] = merge_spec(from_wire({"metadata": meta, "spec": spec}, Stoker))
        # Secrets in a spec are a warning of their own, which is not what is shown here.
        known = LoadedSpec(settled, replace(intent_for(settled), notices=()), (), (), (), ())
        kept = decode_object(json.dumps({"metadata": meta}).encode())
        context = ReconcileContext(KEY, kept, self.status, understood=known)
        self.alerter.saw(context, after, tuple(status_events(context, after)))
        self.status = after

    async def expect(self, service: str, count: int) -> list[dict[str, Any]]:
        await eventually_async(
            lambda: len(self.services.heard(service)) >= count,
            10.0,
            lambda: f"{count} at {service}: {self.services.heard(service)}, {self.services.complaints}",
        )
        await self.at_rest()
        found = self.services.heard(service)
        assert len(found) == count
        return found

    async def asked(self, count: int) -> None:
        """Until services were asked so often, and the answers are in."""
        await eventually_async(lambda: len(self.services.asked) >= count, 10.0, lambda: str(self.counted))
        await self.at_rest()
        assert len(self.services.asked) == count

    async def at_rest(self) -> None:
        """Until nothing is under way."""
        await eventually_async(lambda: not self.outbox._under_way and self.outbox.next_due() > 0, 10.0)
        await eventually_async(lambda: not self.alerter._tasks, 10.0)


@pytest.fixture
def services() -> Iterator[AlertServices]:
    with AlertServices.start() as made:
        yield made
        assert made.complaints == []


@pytest.fixture
async def bench(services: AlertServices) -> AsyncIterator[Bench]:
    async with KubeClient(ClusterConfig(server=f"http://127.0.0.1:{free_port()}")) as client:
        made = Bench(services, client, ManualClock())
        running = asyncio.create_task(made.alerter.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_each_service_gets_a_warning_in_its_own_form(bench: Bench) -> None:
    for kind in ("slack", "teams", "pagerduty", "webhook"):
        bench.target(kind)
    bench.becomes(MISSING, message="Secret 'a<b>&c' does not exist")
    slack = (await bench.expect("slack", 1))[0]
    assert slack["text"].startswith("SecretNotFound: Stoker plant/line, north: ")
    assert "a&lt;b&gt;&amp;c" in slack["blocks"][1]["text"]["text"]
    teams = (await bench.expect("teams", 1))[0]
    assert "Secret 'a<b>&c' does not exist" in json.dumps(teams)
    page = (await bench.expect("pagerduty", 1))[0]
    assert (page["routing_key"], page["event_action"]) == (ROUTING_KEY, "trigger")
    assert page["dedup_key"] == "stoker/uid-1/SecretNotFound/"
    plain = (await bench.expect("webhook", 1))[0]
    assert plain == {
        "version": "1",
        "status": "firing",
        "key": "stoker/uid-1/SecretNotFound/",
        "reason": "SecretNotFound",
        "cause": "",
        "severity": "error",
        "message": "Secret 'a<b>&c' does not exist",
        "kind": "Stoker",
        "namespace": "plant",
        "name": "line",
        "gateway": "",
        "cluster": "north",
        "time": "2026-01-01T00:00:00Z",
    }
    assert sorted(bench.counted) == [(kind, "sent") for kind in ("pagerduty", "slack", "teams", "webhook")]


async def test_texts_of_any_length_and_kind_are_taken(bench: Bench) -> None:
    for kind in ("slack", "teams", "pagerduty", "webhook"):
        bench.target(kind)
    name = "g" * 253
    broken = gateway(name, sync_status="Error", reason="X", error_message="<&>é漢" * 20_000)
    bench.becomes(WELL, discovered_gateways=(broken,))
    for kind in ("slack", "teams", "pagerduty", "webhook"):
        await bench.expect(kind, 1)
    assert len(bench.services.heard("pagerduty")[0]["dedup_key"]) <= 255


async def test_recovery_resolves_the_page_and_tells_no_chat(bench: Bench) -> None:
    for kind in ("slack", "pagerduty", "webhook"):
        bench.target(kind)
    bench.becomes(MISSING)
    await bench.expect("pagerduty", 1)
    bench.becomes(WELL)
    first, second = await bench.expect("pagerduty", 2)
    assert (second["event_action"], second["dedup_key"]) == ("resolve", first["dedup_key"])
    assert (await bench.expect("webhook", 2))[1]["status"] == "resolved"
    await bench.expect("slack", 1)


async def test_a_new_leader_resolves_what_another_one_alerted(bench: Bench) -> None:
    bench.target("pagerduty")
    bench.target("slack")
    bench.status = status(MISSING, discovered_gateways=(gateway("g", sync_status="Error"),))
    bench.becomes(WELL, discovered_gateways=(gateway("g"),))
    ends = await bench.expect("pagerduty", 2)
    assert {one["event_action"] for one in ends} == {"resolve"}
    assert {one["dedup_key"] for one in ends} == {
        "stoker/uid-1/SecretNotFound/",
        "stoker/uid-1/SyncFailed/g",
    }
    assert bench.services.heard("slack") == []


async def test_a_lasting_condition_is_alerted_once(bench: Bench) -> None:
    bench.target("slack")
    bench.becomes(MISSING)
    await bench.expect("slack", 1)
    for _ in range(5):
        bench.becomes(MISSING, message="in other words")
    await bench.clock.advance(3 * WINDOW)
    await bench.expect("slack", 1)


async def test_a_flapping_condition_is_alerted_at_most_every_ten_minutes(bench: Bench) -> None:
    bench.target("slack")
    bench.target("pagerduty")
    for _ in range(10):
        bench.becomes(MISSING)
        await bench.at_rest()
        bench.becomes(WELL)
        await bench.at_rest()
    assert [one["event_action"] for one in await bench.expect("pagerduty", 2)] == ["trigger", "resolve"]
    await bench.expect("slack", 1)
    bench.becomes(MISSING)
    await bench.at_rest()
    await bench.expect("slack", 1)
    await bench.clock.advance(WINDOW + 1)
    await bench.expect("slack", 2)
    assert (await bench.expect("pagerduty", 3))[2]["event_action"] == "trigger"


async def test_a_delayed_alert_that_is_over_is_not_sent(bench: Bench) -> None:
    bench.target("slack")
    for _ in range(2):
        bench.becomes(MISSING)
        await bench.at_rest()
        bench.becomes(WELL)
    await bench.clock.advance(2 * WINDOW)
    await bench.expect("slack", 1)


async def test_another_message_is_sent_at_once_and_a_flood_is_not(bench: Bench) -> None:
    bench.target("slack")
    for number in range(BURST + 5):
        bench.becomes(MISSING, message=f"number {number}")
        await bench.at_rest()
        bench.becomes(WELL)
        await bench.at_rest()
    await bench.expect("slack", BURST)


@pytest.mark.parametrize(
    ("on", "heard"),
    [
        pytest.param(
            (), {"SecretNotFound", "SyncFailed", "SidecarMissing", "AutoRollback"}, id="every warning"
        ),
        pytest.param(("SyncFailed",), {"SyncFailed"}, id="a reason"),
        pytest.param(("SyncFAILED",), {"SyncFailed"}, id="in any case of letters"),
        pytest.param(("ConfigSyntaxError",), {"SyncFailed"}, id="the gateway's own reason"),
        pytest.param(("InjectionFailed",), {"SidecarMissing"}, id="a failed injection"),
        pytest.param(("AutoRollback",), {"AutoRollback"}, id="the specification's word"),
        pytest.param(("ScanFailure", "SecretNotFound"), {"SecretNotFound"}, id="two words"),
        pytest.param(("PendingApproval",), {"PlanPending"}, id="a Normal one that is named"),
        pytest.param(("Nonsense",), set(), id="a word that nothing has"),
    ],
)
async def test_targets_hear_of_what_they_name(bench: Bench, on: tuple[str, ...], heard: set[str]) -> None:
    bench.target("webhook", *on)
    bench.becomes(
        MISSING,
        ("SidecarInjected", "False", "SidecarMissing"),
        ("PendingApproval", "True", "PlanPending"),
        discovered_gateways=(
            gateway("g", sync_status="Error", reason="ConfigSyntaxError", error_message="no JSON"),
            gateway(
                "h", quarantine=QuarantineStatus(commit="a" * 40, reason="AutoRollback", message="faulted")
            ),
        ),
    )
    found = await bench.expect("webhook", len(heard))
    assert {one["reason"] for one in found} == heard


async def test_a_pause_is_sent_to_targets_of_all_alerts(bench: Bench) -> None:
    bench.target("slack")
    bench.target("teams", "SyncFailed")
    bench.target("webhook", "Paused")
    bench.becomes(PAUSED)
    await bench.expect("slack", 1)
    assert (await bench.expect("webhook", 1))[0]["severity"] == "warning"
    await bench.expect("teams", 0)


async def test_a_service_that_is_away_is_tried_again_with_growing_pauses(bench: Bench) -> None:
    bench.target("slack")
    bench.services.fail("slack", 503, times=3)
    bench.becomes(MISSING)
    for number, pause in enumerate(PAUSES[:3], start=1):
        await bench.asked(number)
        await bench.clock.advance(pause - 1)
        assert len(bench.services.asked) == number
        await bench.clock.advance(1)
    await bench.expect("slack", 1)
    assert bench.counted == [("slack", "sent")]
    assert bench.events.snapshot().reported == 0


async def test_an_alert_that_cannot_be_sent_is_an_event_on_the_resource_once(bench: Bench) -> None:
    bench.target("slack")
    bench.services.fail("slack", 500, times=5)
    bench.becomes(MISSING)
    for number, pause in enumerate((*PAUSES, 0.0), start=1):
        await bench.asked(number)
        assert bench.events.snapshot().reported == (number == 5)
        await bench.clock.advance(pause)
    assert bench.counted == [("slack", "failed")]
    bench.services.fail("slack", 404, times=2)
    bench.becomes(DAMAGED)
    await eventually_async(lambda: len(bench.counted) == 2, 10.0)
    assert bench.events.snapshot().reported == 1, "it is known already"
    bench.becomes(WELL)
    bench.becomes(("Ready", "False", "HostKeyNotTrusted"))
    await eventually_async(lambda: len(bench.counted) == 3, 10.0)
    bench.becomes(("Ready", "False", "SourceEmpty"))
    await bench.expect("slack", 1)
    bench.services.fail("slack", 403)
    bench.becomes(("Ready", "False", "GitFailed"))
    await eventually_async(lambda: bench.events.snapshot().reported == 2, 10.0, "it failed anew")


async def test_a_refusal_is_final_and_a_rate_limit_names_its_time(bench: Bench) -> None:
    bench.target("slack")
    bench.services.fail("slack", 429, retry_after=100)
    bench.becomes(MISSING)
    await bench.asked(1)
    await bench.clock.advance(99)
    assert len(bench.services.asked) == 1
    await bench.clock.advance(1)
    await bench.expect("slack", 1)
    bench.services.fail("slack", 410)
    bench.becomes(DAMAGED)
    await eventually_async(lambda: ("slack", "failed") in bench.counted, 10.0)
    await bench.clock.advance(2000)
    await bench.expect("slack", 1)


async def test_one_service_that_is_silent_holds_up_no_other(bench: Bench) -> None:
    bench.target("slack")
    bench.target("webhook")
    bench.services.fail("slack", 0, times=1)
    bench.becomes(MISSING)
    await eventually_async(lambda: len(bench.services.heard("webhook")) == 1, 5.0)
    assert bench.services.heard("slack") == []


async def test_the_oldest_go_when_there_is_no_room(bench: Bench) -> None:
    bench.target("slack")
    bench.services.fail("slack", 500, times=100)
    reasons = (
        "RefNotFound",
        "SourceEmpty",
        "GitFailed",
        "SecretNotFound",
        "InvalidSpec",
        "Rejected",
        "Conflict",
    )
    for reason in reasons:
        bench.becomes(("Ready", "False", reason))
        await bench.at_rest()
    assert len(bench.outbox) == 5
    assert bench.counted == [("slack", "dropped")] * 2


async def test_a_pending_alert_is_tried_once_more_at_the_end(bench: Bench) -> None:
    bench.target("slack")
    bench.services.fail("slack", 500)
    bench.becomes(MISSING)
    await bench.asked(1)
    await bench.alerter.stop()
    assert len(bench.services.heard("slack")) == 1


async def test_a_resource_that_is_gone_has_no_open_pages(bench: Bench) -> None:
    bench.target("pagerduty")
    bench.becomes(MISSING)
    await bench.expect("pagerduty", 1)
    bench.alerter.forget(KEY)
    assert (await bench.expect("pagerduty", 2))[1]["event_action"] == "resolve"


async def test_no_alert_is_sent_where_alerting_is_off(bench: Bench) -> None:
    bench.becomes(MISSING)
    await bench.at_rest()
    assert len(bench.outbox) == 0
    assert bench.services.asked == []
