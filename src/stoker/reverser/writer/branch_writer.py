"""Write all destinations of one GitRepoConfig on one branch, under its credentials.

`stoker.reverser.writer.worker` calls `act` whenever `next_at` is reached. The steps of `act`:

    open      list the branch for new outboxes
    look      fetch the branch, where other writers may have pushed
    sweep     queue deletions of orphans
    brake     hold deletions beyond the budget
    compare   withdraw changes of files that hold the same values
    take      turn due changes into commits
    push      push the commits and settle them
    reseed    list again the kinds that a full outbox missed

A failed step is retried later with growing backoff; commits that are already built stay unchanged meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.refs import CommitId, RepoUrl
from stoker.git.commit.branch import RemoteBranch
from stoker.git.remote.remote import Remote
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.writer.context import BACKOFF, SLOW_BACKOFF, WriterContext
from stoker.reverser.writer.credentials import access_reader
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.reverser.writer.push import CommitPusher
from stoker.reverser.writer.resync import OutboxResync
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


class BranchWriter:
    """The destinations of one GitRepoConfig on one branch."""

    def __init__(
        self,
        place: BranchKey,
        config: RepoConfigRef,
        tools: WriterContext,
        *,
        stir: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.place = place
        self.config = config
        self.outboxes: dict[DestinationRef, DestinationOutbox] = {}
        self.error: StokerError | None = None
        """Why the branch cannot be written now."""
        self._tools = tools
        self._stir = stir
        self._clock = clock
        self._opener = OutboxResync(tools, clock)
        self._delivery = CommitPusher(place, tools, clock)
        self._branch: RemoteBranch | None = None
        self._tip: CommitId | None = None
        self._failures = 0
        self._blocked_until = 0.0
        self._looked_at = clock.monotonic()
        self._look_again = False
        self._stale = False

    # Configuration.

    def fits(self, wanted: Mapping[DestinationRef, WritableDestination]) -> bool:
        """Return whether the writer can continue with the current GitRepoConfig."""
        mine = {_branch_inputs(box.destination) for box in self.outboxes.values()}
        return not mine or mine == {_branch_inputs(each) for each in wanted.values()}

    def arrange(self, wanted: Mapping[DestinationRef, WritableDestination]) -> None:
        """Set the destinations; a destination whose folder or file format changed gets a new outbox."""
        for ref, box in list(self.outboxes.items()):
            destination = wanted.get(ref)
            if destination is None or _file_inputs(destination) != _file_inputs(box.destination):
                self._close(self.outboxes.pop(ref))
            elif destination != box.destination:
                box.adjust(destination)
        for ref, destination in wanted.items():
            if ref not in self.outboxes:
                self.outboxes[ref] = self._outbox(destination)
        if self._branch is None and wanted:
            self._branch = self._open_branch(next(iter(wanted.values())))

    def close(self) -> None:
        for box in self.outboxes.values():
            self._close(box)
        self.outboxes = {}

    def hurry(self) -> None:
        """Make all pending changes due now, despite batch windows and push intervals: it is the last push."""
        self._delivery.is_last = True
        for box in self._open_boxes():
            box.in_a_hurry = True
            box.to_be_swept = False

    def branch_moved(self) -> None:
        """Fetch again before the next push, because another writer of the same worker has pushed."""
        self._stale = True

    def next_at(self) -> float | None:
        """Return when `act` must be called next; None if there is nothing to do."""
        if not self.outboxes:
            return None
        dues = [0.0 if self._look_again else self._looked_at + self._tools.refresh]
        dues += map(_next_due_time, self.outboxes.values())
        if self._delivery:
            dues.append(self._delivery.due_at())
        return max(min(dues), self._blocked_until)

    async def act(self) -> bool:
        """Do all due steps; return whether the branch moved."""
        if self._branch is None:
            return False
        if not self._delivery.is_last:
            await self._open_new(self._branch)
        if self._look_again or self._clock.monotonic() >= self._looked_at + self._tools.refresh:
            await self._look(self._branch)
        for box in self._open_boxes():
            await self._prepare(self._branch, box)
            self._delivery.take(box)
        moved = False
        if self._delivery and self._delivery.due_at() <= self._clock.monotonic():
            moved = await self._push(self._branch)
        self._well()
        for box in self._open_boxes():
            if box.missed and not box.batcher.is_full:
                missed, box.missed = box.missed, set()
                self._tools.watches.reseed(missed, box.destination.ref)
        return moved

    def failed(self, error: StokerError) -> None:
        """Schedule a retry after an error; the outcome of the failed step may be unknown."""
        if self._delivery.divide(error):
            return
        self._failures += 1
        self._tools.meter.push_failed(self.place, error.reason)
        backoff = SLOW_BACKOFF if isinstance(error, Stalled) else BACKOFF
        pause = backoff.delay(self._failures)
        if isinstance(error, Retry) and error.after is not None:
            pause += error.after
        self._blocked_until = self._clock.monotonic() + pause
        if self.error is None or (self.error.reason, self.error.message) != (error.reason, error.message):
            log.warning(
                "branch.failed",
                repo=self.place.repository,
                branch=self.place.branch,
                config=str(self.config),
                reason=error.reason,
                error=error.message,
            )
        self.error = error
        for box in self.outboxes.values():
            box.failing = True
            box.freed()
        self._tools.stirred()

    # Steps of `act`.

    async def _open_new(self, branch: RemoteBranch) -> None:
        now = self._clock.monotonic()
        new = [box for box in self.outboxes.values() if not box.is_open and box.retry_at <= now]
        if new:
            self._tip = await branch.refresh()
        for box in new:
            await self._opener.open(branch, box, self._tip)

    async def _look(self, branch: RemoteBranch) -> None:
        """Fetch the branch; bring objects again whose files other writers changed."""
        tip = await branch.refresh()
        self._looked_at, self._stale = self._clock.monotonic(), False
        again, self._look_again = self._look_again, False
        if tip == self._tip and not again:
            for box in self._open_boxes():
                if box.unwritten:  # perhaps the server accepts it now
                    self._opener.bring_again(box)
            return
        self._tip = tip
        for box in self._open_boxes():
            if not await self._opener.look(branch, box, self._delivery.paths):
                self._give_up(box)

    async def _prepare(self, branch: RemoteBranch, box: DestinationOutbox) -> None:
        """Complete and compare an outbox's pending changes: orphans, released deletions, equal files."""
        self._opener.calm(box)
        if box.to_be_swept:
            await self._opener.sweep(branch, box)
        if box.check_deletions():  # a release makes all pending changes due
            self._tools.stirred()
        if self._delivery.is_due(box):
            await self._opener.leave_equal(branch, box)

    async def _push(self, branch: RemoteBranch) -> bool:
        if self._stale:
            self._tip = await branch.refresh()
            self._stale = False
        pushed = await self._delivery.push(branch)
        self._tip = pushed.tip
        self._look_again |= pushed.replays > 0
        return bool(pushed.commits)

    def _well(self) -> None:
        if self.error is not None:
            log.info("branch.recovered", repo=self.place.repository, branch=self.place.branch)
            self._tools.stirred()
        self.error = None
        self._failures = 0
        self._blocked_until = 0.0
        for box in self.outboxes.values():
            box.failing = False
            box.freed()

    def _open_boxes(self) -> list[DestinationOutbox]:
        return [box for box in self.outboxes.values() if box.is_open]

    def _give_up(self, box: DestinationOutbox) -> None:
        """Replace the outbox of a folder that another installation took over: nothing is written there."""
        self._close(box)
        fresh = self._outbox(box.destination)
        fresh.marker, fresh.trouble, fresh.retry_at = box.marker, box.trouble, box.retry_at
        self.outboxes[box.destination.ref] = fresh

    def _outbox(self, destination: WritableDestination) -> DestinationOutbox:
        folder = (*destination.place, destination.base)
        record = self._tools.deletions.of(folder)
        return DestinationOutbox(
            destination, self._clock, wake=self._stir, capacity=self._tools.capacity, record=record
        )

    def _close(self, box: DestinationOutbox) -> None:
        self._delivery.forget(box)
        box.is_open = False
        self._tools.watches.closed(box)

    def _open_branch(self, destination: WritableDestination) -> RemoteBranch:
        tools = self._tools
        access = access_reader(tools.client, destination.login, require_known_hosts=tools.require_known_hosts)
        remote = Remote(tools.git, RepoUrl(destination.url), access)
        signer = tools.signer_of(self.config) if destination.signing else None
        folder = tools.folder / self.place.hash
        return RemoteBranch(remote, folder, self.place.branch, signer=signer, clock=self._clock)


def _next_due_time(box: DestinationOutbox) -> float:
    """Return when an outbox needs the next `act`."""
    if not box.is_open:
        return box.retry_at
    if box.to_be_swept or box.brake.changed or (box.missed and not box.batcher.is_full):
        return 0.0
    dues = (due for due in (box.due_at(), box.loops.next_calm()) if due is not None)
    return min(dues, default=float("inf"))


def _branch_inputs(destination: WritableDestination) -> tuple[object, ...]:
    """The settings that a branch is opened with."""
    return destination.url, destination.login, destination.signing


def _file_inputs(destination: WritableDestination) -> tuple[object, ...]:
    """The settings that every file of a destination depends on."""
    return (
        destination.uid,
        destination.base,
        destination.policy,
        destination.recipients,
        destination.exclusive,
    )
