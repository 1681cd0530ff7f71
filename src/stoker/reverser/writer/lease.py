"""Compete for the Lease of one branch, hold it, and hand it over to the replica that is assigned to it.

Every replica is a candidate for every branch, so that any replica can take over a branch whose holder died.
`stoker.reverser.writer.replica_assignment` computes which replica a branch is assigned to. Other replicas
wait briefly before they claim a free branch, and release a branch once its assigned replica has been alive
for a while.
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
    """One replica's candidacy for one branch."""

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
        """Whether another living replica holds the branch, and so writes its statuses."""
        holder = self._elector.standing.holder
        return not self.worker.leading and holder != self._terms.identity and holder in self._members.living

    async def run(self) -> None:
        """Run the worker whenever this replica holds the branch, until cancelled."""
        while True:
            if not self._is_mine():
                await self._hold_back()
            try:
                await self._stand()
            except Exception:
                log.exception("worker.crashed", lease=self.worker.place.lease)
                await self._clock.sleep(_AFTER_A_CRASH)

    async def _stand(self) -> None:
        """Be a candidate until this replica holds a branch that is assigned to another replica."""
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
        """Leave a free branch to its assigned replica for a while."""
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
