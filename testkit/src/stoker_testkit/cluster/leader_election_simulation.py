"""A small world in virtual time: machines with clocks of their own, a network, and an API server's rules.

What runs in it is the product's own code (client, lease, fence, loop) from the
transport upwards; what is simulated are the things that no test can order from a
real cluster to the millisecond: a request that arrives late or never, an answer
that is lost after the write was made, a process that is paused meanwhile, a
clock that runs fast. To be run with `stoker_testkit.virtual_time_loop`.

The server keeps objects under their paths and holds to what optimistic writers
rely on: one version counter for all, 409 for a version that is not current.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import error_for
from stoker.kube.client.resources import LEASES
from stoker.kube.client.transport import ApiRequest, ApiResponse, Transport
from stoker.kube.config.config import ClusterConfig
from stoker.kube.leader.elector import LeaderElector
from stoker.kube.leader.fencing import Leadership
from stoker.kube.leader.lease import LeaseTerms
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.runtime import RuntimeMetrics
from stoker_testkit.manual_clock import START

LEASE, NAMESPACE = "stoker-controller-0", "stoker-system"
LEASE_PATH = LEASES.path(NAMESPACE, LEASE)
LEAST_SLEEP = 1e-6


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of one request: seconds there and back, what is lost, or the server's error."""

    there: float = 0.005
    back: float = 0.005
    lost_there: bool = False
    lost_back: bool = False
    error: int = 0


class MachineClock:
    """The clock of one machine, whose process does not run during `pauses` (in the loop's time)."""

    def __init__(
        self,
        *,
        rate: float = 1.0,
        offset: float = 0.0,
        wall_offset: float = 0.0,
        pauses: Sequence[tuple[float, float]] = (),
    ) -> None:
        self._rate = rate
        self._offset = offset
        self._wall = START + timedelta(seconds=wall_offset)
        self._pauses = list(pauses)

    def now(self) -> datetime:
        return self._wall + timedelta(seconds=_time())

    def monotonic(self) -> float:
        return self._offset + _time() * self._rate

    async def sleep(self, seconds: float) -> None:
        # Below its resolution the loop lets no time pass, and who asks for so little would ask for ever.
        await asyncio.sleep(max(seconds / self._rate, LEAST_SLEEP))
        await self.runnable()

    async def runnable(self) -> None:
        """Continue only when the process is not paused."""
        for begin, end in self._pauses:
            if begin <= _time() < end:
                await asyncio.sleep(end - _time())


class SimulatedServer:
    """Keeps objects; `history` has every accepted write in order: when, and what was written."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[float, dict[str, Any]]] = []
        self._version = 0

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Write without any condition, as a person with kubectl does."""
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = body
        self.history.append((_time(), body))
        return body

    def delete(self, path: str) -> None:
        del self.objects[path]

    def answer(self, method: str, path: str, body: bytes | None) -> tuple[int, object]:
        wanted: dict[str, Any] = msgspec.json.decode(body) if body else {}
        if method == "POST":
            path = f"{path}/{wanted['metadata']['name']}"
            return (409, _status("AlreadyExists")) if path in self.objects else (201, self.put(path, wanted))
        found = self.objects.get(path)
        if found is None:
            return 404, _status("NotFound")
        if method == "GET":
            return 200, found
        if wanted["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return 409, _status("Conflict")
        return 200, self.put(path, wanted)


class SimulatedClient(KubeClient):
    """The product's client, as it runs on one machine, over a network with a will of its own."""

    def __init__(
        self,
        server: SimulatedServer,
        clock: MachineClock,
        fate: Callable[[], RequestOutcome] = RequestOutcome,
    ) -> None:
        self.config = ClusterConfig(server="https://simulated.invalid")
        self._transport = _SimulatedTransport(server, clock, fate)


class _SimulatedTransport(Transport):
    def __init__(
        self, server: SimulatedServer, clock: MachineClock, fate: Callable[[], RequestOutcome]
    ) -> None:
        self._server = server
        self._machine = clock
        self._fate = fate

    async def send(self, request: ApiRequest) -> ApiResponse:
        """The request is carried out even if its caller was cancelled."""
        loop = asyncio.get_running_loop()
        fate = self._fate()
        answer: asyncio.Future[tuple[int, bytes]] = loop.create_future()

        def arrive() -> None:
            if fate.lost_there:
                return
            status, body = self._server.answer(request.method, request.path, request.body)
            if fate.error:  # the write was made or not; the answer does not tell
                status, body = fate.error, _status("InternalError")
            if not fate.lost_back:
                loop.call_later(fate.back, deliver, status, msgspec.json.encode(body))

        def deliver(status: int, body: bytes) -> None:
            if not answer.done():
                answer.set_result((status, body))

        loop.call_later(fate.there, arrive)
        status, body = await answer
        await self._machine.runnable()
        if status >= 300:
            raise error_for(status, body, {}, what=request.what)
        return ApiResponse(status, {}, body)


class _RecordedTerms(RuntimeMetrics):
    """Notes the terms of a candidate in the order in which it reports them."""

    def __init__(self, identity: str, calls: list[str]) -> None:
        super().__init__(Metrics())
        self._identity, self._calls, self._leads = identity, calls, False

    def lease_won(self, lease: str) -> None:
        self._leads = True
        self._calls.append(f"{self._identity} started")

    def lease_not_held(self, lease: str) -> None:
        if self._leads:
            self._leads = False
            self._calls.append(f"{self._identity} stopped")


class Candidates:
    """One server and several candidates for one lease, 15 s long and renewed every 5 s, without jitter."""

    def __init__(self) -> None:
        self.server = SimulatedServer()
        self.calls: list[str] = []
        """Which candidates won and gave up the lease, by their metrics, in order."""
        self.terms: dict[str, list[Leadership]] = {}
        """Every term of every candidate, the latest last."""
        self.electors: dict[str, LeaderElector] = {}
        self.fates: dict[str, RequestOutcome] = {}
        """The outcome of a candidate's requests from now on; without an entry they arrive."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def candidate(self, identity: str, clock: MachineClock | None = None) -> LeaderElector:
        """One that is not running yet."""
        clock = clock or MachineClock()
        client = SimulatedClient(self.server, clock, lambda: self.fates.get(identity, RequestOutcome()))
        self.electors[identity] = LeaderElector(
            client,
            LEASE,
            NAMESPACE,
            LeaseTerms(identity, 15, 5),
            clock=clock,
            metrics=_RecordedTerms(identity, self.calls),
            jitter=lambda: 0.0,
        )
        return self.electors[identity]

    def start(self, identity: str, clock: MachineClock | None = None) -> None:
        """Run one, with work that does nothing until it is cancelled."""
        elector = self.candidate(identity, clock)

        async def work(leadership: Leadership) -> None:
            self.terms.setdefault(identity, []).append(leadership)
            await asyncio.Event().wait()

        self._tasks[identity] = asyncio.create_task(elector.run(work))

    async def stop(self, identity: str) -> None:
        """As SIGTERM does, to its end."""
        task = self._tasks.pop(identity)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def kill(self, identity: str) -> None:
        """As SIGKILL does: nothing more reaches the server."""
        self.fates[identity] = RequestOutcome(lost_there=True)

    def acting(self) -> list[str]:
        """The processes that may act at this moment."""
        return [name for name, terms in self.terms.items() if any(term.remaining for term in terms)]

    async def change(self) -> None:
        """The next moment in which a process begins or stops acting."""
        before = self.acting()
        for _ in range(100_000):
            await asyncio.sleep(0.01)
            if self.acting() != before:
                return
        raise AssertionError(f"{before} acted for ever")

    @property
    def holder(self) -> str:
        """The holder that the server names."""
        return str(self.server.objects[LEASE_PATH]["spec"]["holderIdentity"])

    async def end(self) -> None:
        """Stop all."""
        for identity in list(self._tasks):
            await self.stop(identity)


def _status(reason: str) -> dict[str, str]:
    return {"kind": "Status", "status": "Failure", "reason": reason, "message": reason}


def _time() -> float:
    return asyncio.get_running_loop().time()
