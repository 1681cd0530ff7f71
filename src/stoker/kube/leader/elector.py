"""The loop around a lease: read, claim, renew, and run the work while we hold it.

    elector = LeaderElector(
        client, "stoker-controller-0", "stoker-system", LeaseTerms(unique_identity(), 15, 5)
    )
    await elector.run(work)       # calls work(leadership) each time the lease is won

`stoker.kube.leader.election` decides; this module sends the requests, within the time that is left, and ties
the work to the lease. The work starts when the lease is won and is cancelled when it is lost. On a graceful
stop it may finish while the lease is still renewed; the lease is then released so that another candidate can
begin at once.

The lease must never be released, nor won again, while the work still runs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TypeAlias

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import AlreadyExists, ApiServerUnreachable, Conflict, NotFound
from stoker.kube.client.resources import LEASES
from stoker.kube.leader.election import Election, ElectionPause, LeaseAction
from stoker.kube.leader.fencing import Leadership, LeadershipLost
from stoker.kube.leader.lease import Lease, LeaseTerms, claim_lease, release_lease
from stoker.telemetry.logs import get_logger
from stoker.telemetry.runtime import RuntimeMetrics

LeaderWork: TypeAlias = Callable[[Leadership], Coroutine[object, object, None]]

RELEASE_TRIES = 3

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CandidateStatus:
    """The state of a candidate, for conditions and probes."""

    leading: bool
    holder: str  # as last seen; empty while the lease is free
    transitions: int
    error: StokerError | None  # why the last request failed, if it did


class LeaderElector:
    """One candidate for one lease."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        namespace: str,
        terms: LeaseTerms,
        *,
        clock: Clock | None = None,
        metrics: RuntimeMetrics | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._terms = terms
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._election = Election(terms, jitter)
        self._error: StokerError | None = None
        self._found: Lease | None = None
        self._worker: asyncio.Task[None] | None = None
        if metrics is not None:
            metrics.lease_not_held(name)

    @property
    def standing(self) -> CandidateStatus:
        lease = self._election.lease
        return CandidateStatus(
            leading=self._election.leading and self._clock.monotonic() < self._election.deadline,
            holder=lease.holder if lease is not None else "",
            transitions=lease.transitions if lease is not None else 0,
            error=self._error,
        )

    async def run(self, work: LeaderWork) -> None:
        """Lead whenever possible, until the work ends on its own or this is cancelled."""
        try:
            ended = False
            while not ended:
                await self._win()
                ended = await self._lead(work)
        finally:
            await self._give_back()

    async def _win(self) -> None:
        """Read and claim until we hold the lease."""
        while True:
            move = self._election.next(self._clock.monotonic())
            if self._election.leading:
                return
            await self._make(move)

    async def _keep(self, leadership: Leadership) -> None:
        """Renew until the lease is lost."""
        try:
            while True:
                move = self._election.next(self._clock.monotonic())
                if not self._election.leading:
                    return
                await self._make(move)
                leadership.prolong(self._election.deadline)
        finally:
            leadership.end()

    async def _lead(self, work: LeaderWork) -> bool:
        """Run one term; return True if the work ended on its own, False if the lease was lost."""
        leadership = Leadership(
            self._name, self._terms.identity, self._clock, self._election.deadline, self._found
        )
        self._announce_start()
        worker = self._worker = asyncio.create_task(work(leadership), name=f"work under {self._name}")
        keeper = asyncio.create_task(self._keep(leadership), name=f"keeper of {self._name}")
        try:
            await asyncio.wait({keeper, worker}, return_when=asyncio.FIRST_COMPLETED)
            finished = worker.done()
        finally:
            # In this order, the last writes of the work are made under a lease that is still renewed.
            try:
                await self._end(worker)
            finally:
                leadership.end()
                await self._end(keeper)
                self._announce_stop()
        if not keeper.cancelled():
            keeper.result()  # a bug in it must not look like a lost lease
        return finished and _has_ended_by_itself(worker)

    async def _make(self, move: LeaseAction | ElectionPause) -> None:
        """Execute the decision; no request continues past the deadline."""
        if isinstance(move, ElectionPause):
            await self._clock.sleep(move.seconds)
            return
        started = self._clock.monotonic()
        # A slow server gets a whole renewal period for its response. After a failure requests time out
        # sooner, so
        # that several fit before the deadline: on a dead connection only a new one helps.
        limit = self._terms.renew if self._error is None else self._terms.renew / 2
        if self._election.leading:
            limit = min(limit, self._election.deadline - started)
        try:
            async with deadline(self._clock, limit):
                await (self._claim(started) if move is LeaseAction.CLAIM else self._look())
            self._note(None)
        except (Conflict, AlreadyExists):
            self._election.overtaken()
        except StokerError as error:
            self._failed(started, error)
        except TimeoutError:
            self._failed(started, ApiServerUnreachable(f"lease {self._name}: no answer within {limit:.1f} s"))

    def _failed(self, started: float, error: StokerError) -> None:
        self._election.failed(started, self._clock.monotonic())
        self._note(error)

    async def _look(self) -> None:
        before = self.standing.holder
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace, into=Lease)
        except NotFound:
            self._election.saw(None, self._clock.monotonic())
        else:
            self._election.saw(lease, self._clock.monotonic())
            if lease.holder not in {"", before, self._terms.identity}:
                log.info("lease.held_elsewhere", lease=self._name, holder=lease.holder)

    async def _claim(self, started: float) -> None:
        lease = self._election.lease
        # Our own claim, if its response was lost, does not show the previous holder.
        if not self._election.leading and (lease is None or lease.holder != self._terms.identity):
            self._found = lease
        wanted = claim_lease(lease, self._terms, self._name, self._namespace, self._clock.now())
        if lease is None:
            written = await self._client.create(LEASES, wanted, self._namespace, into=Lease)
        else:
            try:
                written = await self._client.replace(LEASES, wanted, self._name, self._namespace, into=Lease)
            except NotFound:
                self._election.saw(None, self._clock.monotonic())
                return
        self._election.wrote(written, started)

    async def _give_back(self) -> None:
        """Release the lease so that others can begin at once.

        A failure only costs them the lease duration.
        """
        if not self._election.may_hold or (self._worker is not None and not self._worker.done()):
            return
        self._election.stopped()
        try:
            async with deadline(self._clock, self._terms.renew):
                for _ in range(RELEASE_TRIES):
                    if await self._gave_back():
                        return
        except (StokerError, TimeoutError) as error:
            log.warning("lease.not_given_back", lease=self._name, error=error)

    async def _gave_back(self) -> bool:
        """Try once; return False if a late renewal of our own came in between."""
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace, into=Lease)
            if lease.holder == self._terms.identity:
                free = release_lease(lease, self._clock.now())
                await self._client.replace(LEASES, free, self._name, self._namespace, into=Lease)
                log.info("lease.given_back", lease=self._name)
        except Conflict:
            return False
        except NotFound:
            pass
        return True

    async def _end(self, task: asyncio.Task[None]) -> None:
        """Cancel a task and wait until it has ended, however long that takes."""
        if task.done():
            if not task.cancelled():
                task.exception()  # retrieve it, or asyncio logs "exception was never retrieved"
            return
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=self._terms.duration)
        if not done:
            log.warning("lease.work_lingers", lease=self._name, task=task.get_name())
            await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, LeadershipLost):
            log.warning("lease.work_failed_while_stopping", lease=self._name, exc_info=error)

    def _announce_start(self) -> None:
        log.info(
            "lease.won",
            lease=self._name,
            identity=self._terms.identity,
            transitions=self.standing.transitions,
        )
        if self._metrics is not None:
            self._metrics.lease_won(self._name)

    def _announce_stop(self) -> None:
        log.info(
            "lease.term_over", lease=self._name, identity=self._terms.identity, holder=self.standing.holder
        )
        if self._metrics is not None:
            self._metrics.lease_not_held(self._name)

    def _note(self, error: StokerError | None) -> None:
        """Keep the error for the status, and log it if it is a new one."""
        if error is not None and (self._error is None or self._error.reason != error.reason):
            log.warning("lease.request_failed", lease=self._name, leading=self._election.leading, error=error)
        self._error = error


def _has_ended_by_itself(worker: asyncio.Task[None]) -> bool:
    """Whether the work completed, and was not refused by the fence just before the loss was noticed."""
    try:
        worker.result()
    except LeadershipLost:
        return False
    return True
