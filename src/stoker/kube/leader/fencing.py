"""Leadership, and a client that sends no writes without it.

`stoker.kube.leader.elector` passes a `Leadership` to the work that it starts. Code that changes anything
outside must call `check` immediately before, or run inside `acting`. A leader that was paused, disconnected
or
too slow then finds its time expired, without any request, before another candidate can have begun
(`stoker.kube.leader.election` explains why). `FencedClient` does so automatically for every verb that changes
something, so that no reconciler can forget it.

A fence on this side cannot stop a request that was already sent. Its connection is closed when the time is
over, and the margin of the lease gives it time to arrive. A request that arrives even later must fail on the
resourceVersion it was written against. So use `replace`, or a resourceVersion in the patch, where a late
write would do harm.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import timeout_scope
from stoker.kube.client.transport import ApiRequest, ApiResponse, Transport
from stoker.kube.leader.lease import Lease

_READ_METHODS = frozenset({"GET", "HEAD"})


class LeadershipLost(Retry):
    """This leader's time is over; another leader may already do its work."""

    default_reason = Reason.LEADERSHIP_LOST


class Leadership:
    """One term of one leader, from winning the lease to losing it; an ended term never resumes."""

    def __init__(
        self, lease: str, identity: str, clock: Clock, deadline: float, found: Lease | None = None
    ) -> None:
        self.lease = lease
        self.identity = identity
        self.found = found
        """The lease as it was before this leader claimed it."""
        self._clock = clock
        self._deadline = deadline
        self._over = False
        self._limits: set[asyncio.Timeout] = set()

    @property
    def remaining(self) -> float:
        """Seconds for which this leader may still act; 0 once its time is over."""
        return 0.0 if self._over else max(0.0, self._deadline - self._clock.monotonic())

    def check(self) -> None:
        """Raise unless this leader may act now. Call it right before anything is sent."""
        if not self.remaining:
            raise LeadershipLost(
                f"{self.identity} no longer leads: lease {self.lease} is not its own any more"
            )

    @asynccontextmanager
    async def acting(self) -> AsyncIterator[None]:
        """Run something that takes time, and cancel it when the leadership ends.

        The limit is the event loop's own timer: after a pause of the whole process the loop handles it before
        any other event.
        """
        self.check()
        limit = asyncio.timeout(self.remaining)
        try:
            async with timeout_scope(limit):
                self._limits.add(limit)
                yield
        except TimeoutError:
            if limit.expired():
                raise LeadershipLost(f"{self.identity} lost lease {self.lease} while it was acting") from None
            raise
        finally:
            self._limits.discard(limit)

    def prolong(self, deadline: float) -> None:
        """Extend the term after a renewal of the lease."""
        self._deadline = deadline
        self._set_limits()

    def end(self) -> None:
        """End the term: the lease is lost or released."""
        self._over = True
        self._set_limits()

    def _set_limits(self) -> None:
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time() + self.remaining)


class FencedClient(KubeClient):
    """The client of a leader: reads always pass, and changes are sent only while it leads.

    It shares the connections of the client that it is made from and must not outlive it.
    """

    def __init__(self, client: KubeClient, leadership: Leadership) -> None:
        self.config = client.config
        self._transport = _FencedTransport(client._transport, leadership)


class _FencedTransport(Transport):
    """The transport of another client behind the fence; that client opens and closes it."""

    def __init__(self, inner: Transport, leadership: Leadership) -> None:
        self._inner = inner
        self._leadership = leadership

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def send(self, request: ApiRequest) -> ApiResponse:
        if request.method in _READ_METHODS:
            return await self._inner.send(request)
        # Sending can wait, for credentials or for a delay that the server requested. The loop's timer ends
        # that,
        # except after a suspension of the machine, which the clock counts and no timer does.
        permitted = dataclasses.replace(request, permit=self._leadership.check)
        async with self._leadership.acting():
            return await self._inner.send(permitted)

    @asynccontextmanager
    async def stream(self, request: ApiRequest, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._inner.stream(request, silence=silence) as chunks:
            yield chunks
