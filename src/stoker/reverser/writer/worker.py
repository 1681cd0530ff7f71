"""One worker per branch: while it holds the branch's Lease it is the only writer of the branch.

    opened ─▶ changes wait ─▶ taken as commits ─▶ pushed ─▶ settled
                                    ▲               │ failed: the same commits again, later
                                    └───────────────┘

While the worker holds the Lease it lists the branch, opens its outboxes to the watches, and pushes due
commits. Destinations of different GitRepoConfigs on one branch share the worker and its order, but a push
carries only the commits of one GitRepoConfig, under its credentials. A commit that was not pushed is retried
unchanged: so a push with an unknown outcome is recognized, and no commit is made twice. A change counts as
written only after its push succeeded; a worker that dies loses nothing, because the next worker lists again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.deadlines import deadline, wait_for_event
from stoker.kube.leader.fencing import Leadership, LeadershipLost
from stoker.kube.runtime.result import as_stoker_error
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.writer.branch_writer import BranchWriter
from stoker.reverser.writer.context import WriterContext
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

_MAX_SLEEP_SECONDS = 3600.0
_FINAL_PUSH_SECONDS = 10.0


@dataclass(slots=True)
class PushSlots:
    """Limits how many workers push at a time: in total, and per repository."""

    in_all: asyncio.Semaphore
    per_repository: int
    _repositories: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def turn(self, place: BranchKey) -> AsyncIterator[None]:
        mine = self._repositories.setdefault(place.repository, asyncio.Semaphore(self.per_repository))
        async with mine, self.in_all:
            yield


class BranchWorker:
    """Writes the destinations of one branch while this replica holds its Lease."""

    def __init__(self, place: BranchKey, tools: WriterContext, slots: PushSlots, *, clock: Clock) -> None:
        self.place = place
        self._tools = tools
        self._slots = slots
        self._clock = clock
        self._wanted: Mapping[DestinationRef, WritableDestination] = {}
        self._writers: dict[RepoConfigRef, BranchWriter] = {}
        self._stirred = asyncio.Event()
        self._behind = False
        self.leading = False

    @property
    def writers(self) -> tuple[BranchWriter, ...]:
        return tuple(self._writers.values())

    @property
    def outboxes(self) -> dict[DestinationRef, DestinationOutbox]:
        return {ref: box for writer in self._writers.values() for ref, box in writer.outboxes.items()}

    def writer_of(self, ref: DestinationRef) -> BranchWriter | None:
        return next((each for each in self._writers.values() if ref in each.outboxes), None)

    def arrange(self, wanted: Mapping[DestinationRef, WritableDestination]) -> None:
        """Set the destinations of this branch."""
        self._wanted = wanted
        self.stir()

    def stir(self) -> None:
        """Wake the worker to check all writers again."""
        self._stirred.set()

    def tell(self) -> None:
        """Refresh statuses, because the state of the branch changed."""
        self._tools.stirred()

    async def work(self, leadership: Leadership) -> None:
        """Write the branch for one term of the Lease, until cancelled."""
        self.leading = True
        self._tools.meter.active(self.place, True)
        self._tools.stirred()
        try:
            while True:
                self._stirred.clear()
                self._arrange()
                await self._round(leadership)
                self._measure()
                await self._rest()
        except asyncio.CancelledError:
            if leadership.remaining:
                await self._finish(leadership)
            raise
        finally:
            self.leading = False
            for writer in self._writers.values():
                writer.close()
            self._writers = {}
            self._tools.meter.active(self.place, False)
            self._tools.meter.depth(self.place, 0)
            self._tools.stirred()

    def _measure(self) -> None:
        self._tools.meter.depth(self.place, sum(len(box.batcher) for box in self.outboxes.values()))
        behind = any(box.pending for box in self.outboxes.values())
        if behind is not self._behind:
            self._behind = behind
            self._tools.stirred()  # the status reports pending changes

    def _arrange(self) -> None:
        by_config: dict[RepoConfigRef, dict[DestinationRef, WritableDestination]] = {}
        for ref, destination in self._wanted.items():
            by_config.setdefault(destination.config, {})[ref] = destination
        for config in [each for each in self._writers if each not in by_config]:
            self._writers.pop(config).close()
        for config, wanted in by_config.items():
            writer = self._writers.get(config)
            if writer is not None and not writer.fits(wanted):
                writer.close()
                writer = None
            if writer is None:
                writer = self._writers[config] = BranchWriter(
                    self.place, config, self._tools, stir=self.stir, clock=self._clock
                )
            writer.arrange(wanted)

    async def _round(self, leadership: Leadership) -> None:
        for writer in self.writers:
            due = writer.next_at()
            if due is None or due > self._clock.monotonic():
                continue
            try:
                async with self._slots.turn(self.place), leadership.acting():
                    moved = await writer.act()
            except LeadershipLost:
                raise
            except Exception as error:
                writer.failed(as_stoker_error(error))
                if not isinstance(error, StokerError):
                    log.exception("worker.crashed", branch=self.place.branch)
                continue
            if moved:
                for other in self.writers:
                    if other is not writer:
                        other.branch_moved()

    async def _finish(self, leadership: Leadership) -> None:
        """Push one last time before the Lease is released: only this replica knows the authors."""
        self._arrange()
        for writer in self.writers:
            writer.hurry()
            try:
                async with deadline(self._clock, _FINAL_PUSH_SECONDS), leadership.acting():
                    await writer.act()
            except (StokerError, TimeoutError) as error:
                log.warning("branch.left_unfinished", branch=self.place.branch, error=str(error))

    async def _rest(self) -> None:
        """Wait until the worker is woken or the next writer is due."""
        dues = [due for writer in self.writers if (due := writer.next_at()) is not None]
        pause = min(dues, default=self._clock.monotonic() + _MAX_SLEEP_SECONDS) - self._clock.monotonic()
        if pause <= 0:
            await asyncio.sleep(0)
            return
        await wait_for_event(self._stirred, self._clock, pause)
