"""The right to act, and a client that cannot act without it.

`stoker.kube.leader.elector` hands a `Leadership` to the work it starts. Whoever changes
something outside asks it immediately before, with `check`, or does it inside of
`acting`: a leader that was stopped, cut off or too slow finds its time over, without
asking anybody, before another candidate can have begun (`stoker.kube.leader.election` says
why). `FencedClient` does so by itself for every verb that changes something, so that
no reconciler can forget it.

What a fence on this side cannot stop is a request that has left: its connection
is closed when the time is over, the margin of the lease is there for it to arrive,
and what arrives later still must be defeated by the resourceVersion it was
written against. So write with `replace`, or with a resourceVersion in the patch,
where a late write would do harm.
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
    """The time of this leader is over; whatever it was about to do is another's to do now."""

    default_reason = Reason.LEADERSHIP_LOST


class Leadership:
    """One term of one leader, from winning the lease to losing it; it never comes back to life."""

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
        """Seconds for which this leader may still act; nothing once its time is over."""
        return 0.0 if self._over else max(0.0, self._deadline - self._clock.monotonic())

    def check(self) -> None:
        """Raise unless this leader may act now. To be called right before anything is sent."""
        if not self.remaining:
            raise LeadershipLost(
                f"{self.identity} no longer leads: lease {self.lease} is not its own any more"
            )

    @asynccontextmanager
    async def acting(self) -> AsyncIterator[None]:
        """Do something that takes its time, and be cancelled in it when the leadership ends.

        The limit is the event loop's own timer: after a pause of the whole process it
        is served before whatever was waited for.
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
        """The lease was renewed."""
        self._deadline = deadline
        self._set_limits()

    def end(self) -> None:
        """The lease is lost or given back."""
        self._over = True
        self._set_limits()

    def _set_limits(self) -> None:
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time() + self.remaining)


class FencedClient(KubeClient):
    """The client that a leader works with: reads pass, and changes are sent only while it leads.

    It shares the connections of the client it is made from and must not outlive it.
    """

    def __init__(self, client: KubeClient, leadership: Leadership) -> None:
        self.config = client.config
        self._transport = _FencedTransport(client._transport, leadership)


class _FencedTransport(Transport):
    """Another client's transport behind the fence; opening and closing it stays with that client."""

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
        # Sending can wait, for credentials or because the server said when to come back. The loop's timer
        # ends that, except after a suspension of the machine, which the clock counts and no timer does.
        permitted = dataclasses.replace(request, permit=self._leadership.check)
        async with self._leadership.acting():
            return await self._inner.send(permitted)

    @asynccontextmanager
    async def stream(self, request: ApiRequest, *, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._inner.stream(request, silence=silence) as chunks:
            yield chunks
