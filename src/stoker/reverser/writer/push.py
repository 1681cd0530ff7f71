"""Build commits from the outboxes, push them, settle them, and split them when the server refuses them.

A part of `stoker.reverser.writer.branch_writer`. Built commits stay unchanged until the server has answered:
the same commits are pushed again, so that a push with an unknown outcome is recognized. Only a permanent
refusal (too large, declined) splits them, down to single objects. If a single object is declined and the next
object is accepted, the cause is that object. If both are declined, the cause is the branch, and everything
waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.refs import CommitId
from stoker.git.commit.branch import RemoteBranch
from stoker.git.commit.push import PushDeclined, PushTooLarge
from stoker.git.commit.types import PushResult
from stoker.reverser.destinations import BranchKey
from stoker.reverser.writer.commits import BuiltCommit, CommitBuilder
from stoker.reverser.writer.context import WriterContext
from stoker.reverser.writer.outbox import DeliveredCommit, DestinationOutbox
from stoker.reverser.writer.ownership_marker import FolderOwnership, OwnershipMarker, marker_path
from stoker.telemetry import tracing
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

_MAX_SHOWN = 5


class CommitPusher:
    """Holds the commits of one writer that are built and not pushed yet."""

    def __init__(self, place: BranchKey, tools: WriterContext, clock: Clock) -> None:
        self._place = place
        self._tools = tools
        self._clock = clock
        self._maker = CommitBuilder(tools.origin)
        self._made: list[BuiltCommit] = []
        self._aside: list[BuiltCommit] = []
        """Single objects that were declined, while it is unknown whether they or the branch are the cause."""
        self._portion: int | None = None
        """The number of objects per push, while the cause of a refusal is searched."""
        self.is_last = False
        """Whether this is the final push: batch windows, push intervals and late authors no longer matter."""

    def __bool__(self) -> bool:
        return bool(self._made)

    @property
    def paths(self) -> set[str]:
        """All paths of unsettled commits."""
        return {change.path for made in (*self._made, *self._aside) for change in made.planned.changes}

    def due_at(self) -> float:
        """Return when the commits must be pushed."""
        if self.is_last or self._portion is not None:
            return 0.0
        cadence = self._made[0].outbox.destination.cadence
        return cadence.due_at(self._made[0].at, len(self._made))

    def forget(self, outbox: DestinationOutbox) -> None:
        """Drop the commits of an outbox that is closed."""
        self._made = [each for each in self._made if each.outbox is not outbox]
        self._aside = [each for each in self._aside if each.outbox is not outbox]

    def is_due(self, box: DestinationOutbox) -> bool:
        """Return whether pending changes of an outbox must become commits."""
        due = box.due_at()
        return due is not None and due <= self._clock.monotonic()

    def take(self, box: DestinationOutbox) -> None:
        """Build commits from due changes, except held deletions and files that were not compared.

        Both are checked again here, because changes arrive while files of the branch are read.
        """
        now = self._clock.monotonic()
        if box.check_deletions():
            self._tools.stirred()
        if not self.is_due(box) or box.batcher.over_foreign():
            return
        reach_failpoint("batch.take.before")
        first = box.batcher.oldest_at()
        plans = box.batcher.take(
            lambda seen: self._tools.author_of(seen, now),
            now=now,
            patience=0.0 if self.is_last else self._tools.author_patience,
        )
        box.in_a_hurry = False
        if not plans:
            return
        changes = (change for plan in plans for change in plan.changes)
        box.brake.taken([change.path for change in changes if change.content is None], now)
        when = int(self._clock.now().timestamp())
        self._made += self._maker.made(box, plans, self._made, at=now, when=when)
        if first is not None:
            self._tools.meter.taken(self._place, now - first)
        reach_failpoint("batch.take.after")

    async def push(self, branch: RemoteBranch) -> PushResult:
        """Push the next commits. If it raises, nothing changed, and the same commits can be pushed again."""
        started = self._clock.monotonic()
        made = self._next()
        reach_failpoint("batch.deliver.before")
        pushed = await self._brought(branch, made)
        reach_failpoint("batch.deliver.after")
        self._made = self._made[len(made) :]
        reach_failpoint("batch.settle.before")
        self._settle(made, pushed, self._clock.monotonic() - started)
        reach_failpoint("batch.settle.after")
        return pushed

    async def _brought(self, branch: RemoteBranch, made: list[BuiltCommit]) -> PushResult:
        """Push, inside a trace that begins when the first of these changes was noticed."""
        commits = [each.commit for each in made]
        if not tracing.is_tracing():
            return await branch.commit(commits)
        now = self._clock.monotonic()
        changes = [change for each in made for change in each.planned.changes]
        noticed = now - min((change.at for change in changes), default=now)
        place = {"repo": self._place.repository, "branch": self._place.branch}
        with tracing.past("reverser.change", noticed, **place, changes=len(changes)) as told:
            objects = ", ".join(f"{change.operation} {change.key}" for change in changes[:_MAX_SHOWN])
            tracing.passed("watch.event", noticed, now - min(each.at for each in made), objects=objects)
            with tracing.step("git.push", commits=len(commits)):
                pushed = await branch.commit(commits)
            told.say(tip=str(pushed.tip or ""))
            return pushed

    def divide(self, error: StokerError) -> bool:
        """After a failed push, return whether the same changes can be pushed in another way at once."""
        if not isinstance(error, (PushTooLarge, PushDeclined)) or not self._made:
            return False
        tried = self._made[:1] if self._portion is not None else self._made
        count = sum(each.size for each in tried)
        if count > 1:
            self._portion = max(1, count // 2)
            self._made = self._maker.cut(self._made, self._portion)
            return True
        if isinstance(error, PushTooLarge):
            self._refuse(self._made.pop(0), error.message)
        elif len(self._made) > 1 and not self._aside:
            self._aside.append(self._made.pop(0))  # the next push shows if the branch is the cause
        else:
            self._made = [*self._aside, *self._made]
            self._aside = []
            return False
        if not self._made:
            self._portion = None
        return True

    def _next(self) -> list[BuiltCommit]:
        """Return the commits of the next push."""
        return self._made[:1] if self._portion is not None else list(self._made)

    def _settle(self, made: list[BuiltCommit], pushed: PushResult, seconds: float) -> None:
        now, meter = self._clock.monotonic(), self._tools.meter
        refused = {note.path: note.why for note in pushed.refused}
        meter.pushed(self._place, len(pushed.commits), pushed.bytes, pushed.replays, seconds)
        for each in made:
            meter.arrived(self._place, now - min(change.at for change in each.planned.changes))
        # A commit without remaining changes is not created; the commit ids can then not be assigned.
        arrived = list(zip(made, pushed.commits, strict=True)) if len(made) == len(pushed.commits) else []
        for box in dict.fromkeys(each.outbox for each in made):
            plans = [each.planned for each in made if each.outbox is box]
            box.batcher.settle(plans)
            meter.wrote(box.destination.ref, plans, self._tools.watches.around.kinds)
            box.settled([change.path for plan in plans for change in plan.changes], refused)
            self._note_marker(box, refused.get(marker_path(box.destination.base), ""))
            written = _written_commits(
                [each for each in arrived if each[0].outbox is box], self._clock.now(), now
            )
            box.arrived(pushed.tip if pushed.commits else None, self._clock.now(), written)
        if pushed.commits:
            self._tell(made, pushed)
        for one in self._aside:  # a later object was accepted, so these objects are the cause
            self._refuse(one, "the repository declines it")
        self._aside = []
        if self._portion is not None:
            self._portion = self._portion * 2 if self._made else None
            self._made = self._made if self._portion is None else self._maker.cut(self._made, self._portion)
        self._tools.stirred()

    def _note_marker(self, box: DestinationOutbox, refused: str) -> None:
        box.marker_trouble = refused
        if refused:
            self._tools.meter.marker_conflict(box.destination.ref)
        elif box.marker.standing is FolderOwnership.FREE:
            box.marker = OwnershipMarker(FolderOwnership.OURS)

    def _refuse(self, one: BuiltCommit, why: str) -> None:
        one.outbox.batcher.settle([one.planned])
        paths = [change.path for change in one.planned.changes]
        one.outbox.settled(paths, dict.fromkeys(paths, why))
        one.outbox.freed()
        self._tools.stirred()

    def _tell(self, made: list[BuiltCommit], pushed: PushResult) -> None:
        changes = [change for each in made for change in each.planned.changes]
        log.info(
            "push.done",
            repo=self._place.repository,
            branch=self._place.branch,
            destinations=sorted({str(each.outbox.destination.ref) for each in made}),
            commits=[*pushed.commits[:_MAX_SHOWN]],
            count=len(pushed.commits),
            objects=[f"{change.operation} {change.key}" for change in changes[:_MAX_SHOWN]],
            changes=len(changes),
            replays=pushed.replays,
        )


def _written_commits(
    arrived: Sequence[tuple[BuiltCommit, CommitId]], at: datetime, now: float
) -> list[DeliveredCommit]:
    """Convert commits for the status, in order."""
    found = []
    for made, commit in arrived:
        author = made.planned.author
        subject = made.commit.message.partition("\n")[0]
        waited = now - min(change.at for change in made.planned.changes)
        found.append(
            DeliveredCommit(commit, author.name if author is not None else None, subject, at, waited)
        )
    return found
