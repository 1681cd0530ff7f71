"""A worker's way to its Lease: claim it, keep it, and give it back to the replica that it is meant for.

Every replica is a candidate for every branch, so that a branch whose holder dies is taken
over by whoever sees it first. `stoker.reverser.writer.replica_assignment` says whose it ought to be:
others wait a moment before they claim what is free, and give back what is not theirs
once the one that it is meant for has lived for a while.
"""

from __future__ import annotations

import asyncio
import contextlib

from stoker.domain.clock import Clock
from stoker.kube.client.client import KubeClient
from stoker.kube.leader.elector import CandidateStatus, LeaderElector
from stoker.kube.leader.lease import LeaseTerms
from stoker.reverser.metrics import ReverserMetrics
from stoker.reverser.status.conditions import LeaseFacts
from stoker.reverser.writer.replica_assignment import LiveReplicas
from stoker.reverser.writer.worker import BranchWorker
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

_LOOK = 1.0
_AFTER_A_CRASH = 5.0


class BranchCandidate:
    """One replica's claim to one branch."""

    def __init__(
        self,
        worker: BranchWorker,
        client: KubeClient,
        namespace: str,
        terms: LeaseTerms,
        members: LiveReplicas,
        clock: Clock,
        meter: ReverserMetrics,
    ) -> None:
        self.worker = worker
        self._members = members
        self._terms = terms
        self._clock = clock
        self._meter = meter
        self._standing: CandidateStatus | None = None
        self._elector = LeaderElector(client, worker.place.lease, namespace, terms, clock=clock)

    @property
    def lease(self) -> LeaseFacts:
        standing = self._elector.standing
        return LeaseFacts(self.worker.leading, standing.holder, standing.error)

    @property
    def is_spoken_for(self) -> bool:
        """Whether another replica that lives holds the branch, and so tells about it."""
        holder = self._elector.standing.holder
        return not self.worker.leading and holder != self._terms.identity and holder in self._members.living

    async def run(self) -> None:
        """Work whenever the branch is ours, until cancelled."""
        while True:
            if not self._is_mine():
                await self._hold_back()
            try:
                await self._stand()
            except Exception:
                log.exception("worker.crashed", lease=self.worker.place.lease)
                await self._clock.sleep(_AFTER_A_CRASH)

    async def _stand(self) -> None:
        """Be a candidate until the branch is held and meant for another."""
        election = asyncio.create_task(self._elector.run(self.worker.work), name=self.worker.place.lease)
        strange_since: float | None = None
        try:
            while not election.done():
                await asyncio.wait({election}, timeout=_LOOK)
                self._notice(self._elector.standing)
                now = self._clock.monotonic()
                if self._is_mine() or not self.worker.leading:
                    strange_since = None
                elif strange_since is None:
                    strange_since = now
                elif now - strange_since > self._terms.renew:
                    log.info("lease.handed_over", lease=self.worker.place.lease)
                    return
            election.result()
        finally:
            election.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({election})

    async def _hold_back(self) -> None:
        """Leave what is free to the one that it is meant for, for a while."""
        until = self._clock.monotonic() + self._terms.renew
        while self._clock.monotonic() < until and not self._is_mine():
            await self._clock.sleep(min(_LOOK, self._terms.renew))

    def _is_mine(self) -> bool:
        return self._members.is_mine(self.worker.place.lease)

    def _notice(self, now: CandidateStatus) -> None:
        before, self._standing = self._standing, now
        if now.error is not None and (before is None or now.error is not before.error):
            self._meter.lease_failed(self.worker.place)
        if before is None or (now.holder, now.error is None) != (before.holder, before.error is None):
            self.worker.tell()
