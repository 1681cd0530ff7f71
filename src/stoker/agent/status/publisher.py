"""Publishes the agent's report under its own key of the status ConfigMap.

A task of its own holds only the newest report, so that no sync ever waits for the API server. It writes by
forced server-side apply with its own field manager: it needs no read before the write, cannot conflict, and a
new pod takes over from its predecessor. An unchanged report is not written again, except for a heartbeat
every few minutes. Failed writes are retried with growing pauses.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random as chance
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from stoker.agent.desired_state import ReportAddress
from stoker.agent.identity import AgentIdentity
from stoker.agent.sidecar.informers import AgentConfigMap
from stoker.agent.status.status_report import AddressedReport
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.errors import StokerError
from stoker.domain.protocol import GatewayReport, SyncState, resource_labels
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import NotFound
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry import tracing
from stoker.telemetry.logs import get_logger

HEARTBEAT = 300.0
SYNCING_AFTER = 1.0
"""A sync that ends sooner is not reported as running."""
WRITE_SECONDS = 10.0
FINAL_REPORT_SECONDS = 5.0
MAX_MANAGER_LENGTH = 128

log = get_logger(__name__)


class StatusPublisher:
    """Publishes the reports it is offered."""

    def __init__(
        self,
        client: KubeClient,
        identity: AgentIdentity,
        clock: Clock,
        *,
        backoff: Backoff | None = None,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._backoff = backoff if backoff is not None else Backoff(base=1.0, ceiling=60.0)
        self._random = random
        self._manager = manager_for(identity.pod)
        self._latest: AddressedReport | None = None
        self._written: AddressedReport | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._failures = 0
        self._not_before = -math.inf
        self._offered_at = -math.inf
        self._heartbeat_at = math.inf
        self._trouble = ""
        self._traceparent = ""

    def offer(self, posting: AddressedReport) -> None:
        """Take the newest report; it replaces an earlier report that is not written yet."""
        if self._latest is None or _without_heartbeat(posting.report) != _without_heartbeat(
            self._latest.report
        ):
            self._offered_at = self._clock.monotonic()
        self._latest = posting
        self._traceparent = tracing.traceparent()
        self._wake.set()

    def again(self) -> None:
        """Write the report again although it has not changed: the ConfigMap may have been recreated."""
        self._written = None
        self._wake.set()

    def hurry(self) -> None:
        """End the backoff and write a pending report now."""
        self._not_before = -math.inf
        self._wake.set()

    async def earlier(self, address: ReportAddress) -> GatewayReport | None:
        """Return the report that an earlier agent wrote to this address; None if it cannot be read."""
        try:
            async with deadline(self._clock, WRITE_SECONDS):
                found = await self._client.get(
                    CONFIG_MAPS, address.map, self._identity.namespace, into=AgentConfigMap
                )
            text = (found.data or {}).get(address.key, "")
            return GatewayReport.parse(text) if text else None
        except (StokerError, TimeoutError):
            return None

    async def run(self) -> None:
        """Write reports until stopped, then write the last report once more."""
        while not self._stopping:
            await self._until_due()
            if not self._stopping and self._due() <= 0:
                await self._write(WRITE_SECONDS)
        if self._latest is not None:
            self.again()
            await self._write(FINAL_REPORT_SECONDS)

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def _until_due(self) -> None:
        self._wake.clear()
        pause = self._due()
        if pause <= 0:
            return
        sleeping = asyncio.ensure_future(self._clock.sleep(min(pause, HEARTBEAT)))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sleeping, waking):
                task.cancel()
            await asyncio.gather(sleeping, waking, return_exceptions=True)

    def _due(self) -> float:
        """Return the seconds until the next write."""
        now, latest = self._clock.monotonic(), self._latest
        if latest is None:
            return math.inf
        if self._written != latest:
            quick = latest.report.sync_status is not SyncState.SYNCING or latest.report.reason != ""
            due = self._offered_at + (0.0 if quick else SYNCING_AFTER)
        else:
            due = self._heartbeat_at
        return max(due, self._not_before) - now

    async def _write(self, seconds: float) -> None:
        posting = self._latest
        if posting is None:
            return
        try:
            async with deadline(self._clock, seconds):
                with self._traced():
                    await self._leave(posting.address)
                    await self._apply(posting)
        except (StokerError, TimeoutError) as error:
            self._failed(error)
            return
        if self._trouble:
            log.info("status.written", map=posting.address.map, key=posting.address.key)
        self._written, self._failures, self._not_before, self._trouble = posting, 0, -math.inf, ""
        # After the deletion is acknowledged, no heartbeat is expected and the ConfigMap may be gone.
        gone = posting.report.terminating_ack or not posting.may_create
        self._heartbeat_at = (
            math.inf if gone else self._clock.monotonic() + HEARTBEAT * (1.0 - 0.1 * self._random())
        )

    def _traced(self) -> AbstractContextManager[object]:
        """Return the span of the report's trace; a heartbeat belongs to no trace."""
        trace, self._traceparent = self._traceparent, ""
        return tracing.span("status.report", parent=trace) if trace else nullcontext()

    async def _apply(self, posting: AddressedReport) -> None:
        address = posting.address
        if not posting.may_create and not await self._is_there(address.map):
            return
        beating = replace(posting.report, heartbeat_at=rfc3339(self._clock.now()))
        await self._put(address.map, {address.key: beating.json()})

    async def _leave(self, address: ReportAddress) -> None:
        """Remove the key from the ConfigMap used before, so that readers find this gateway only once."""
        before = self._written.address if self._written is not None else None
        if before is not None and before.map != address.map and await self._is_there(before.map):
            await self._put(before.map, {})

    async def _is_there(self, name: str) -> bool:
        try:
            await self._client.get(CONFIG_MAPS, name, self._identity.namespace, into=ObjectHeader)
        except NotFound:
            return False
        return True

    async def _put(self, name: str, data: dict[str, str]) -> None:
        labels = resource_labels(self._identity.door, self._identity.resource)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self._identity.namespace, "labels": labels},
            "data": data,
        }
        await self._client.apply(
            CONFIG_MAPS,
            body,
            name,
            self._identity.namespace,
            manager=self._manager,
            force=True,
            into=ObjectHeader,
        )

    def _failed(self, error: StokerError | TimeoutError) -> None:
        message = error.message if isinstance(error, StokerError) else "the API server did not answer in time"
        if message != self._trouble:
            log.warning("status.unwritten", error=message)
        self._trouble = message
        self._failures += 1
        self._not_before = self._clock.monotonic() + self._backoff.delay(self._failures)


def manager_for(pod: str) -> str:
    """Return the field manager of a pod's agent, short enough for Kubernetes and unique to the pod."""
    name = f"stoker-agent-{pod}"
    if len(name) <= MAX_MANAGER_LENGTH:
        return name
    return f"{name[: MAX_MANAGER_LENGTH - 9]}-{hashlib.sha256(pod.encode()).hexdigest()[:8]}"


def _without_heartbeat(report: GatewayReport) -> GatewayReport:
    return report.without_heartbeat()
