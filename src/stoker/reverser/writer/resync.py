"""Bring outboxes in line with the branch: open them, compare them after other writers' pushes, sweep orphans.

A part of `stoker.reverser.writer.branch_writer`. This module never pushes; it queues changes in the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from stoker.domain.clock import Clock
from stoker.domain.errors import Stalled
from stoker.domain.git_objects import blob_of
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.git.commit.branch import RemoteBranch
from stoker.reverser.encryption.digest_keys import ensure_keys
from stoker.reverser.manifest.compare import describes, has_same_values
from stoker.reverser.manifest.path import object_at_path
from stoker.reverser.manifest.secret_policy import SecretPolicy
from stoker.reverser.writer.batch import PendingFileChange
from stoker.reverser.writer.context import SLOW_BACKOFF, WriterContext
from stoker.reverser.writer.orphans import OrphanFile, find_orphans
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.reverser.writer.ownership_marker import FolderOwnership, check_marker, marker_path
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

READ_BATCH = 50
"""The number of files of the branch whose contents are in memory at a time."""


class OutboxResync:
    """Reads the branch for the outboxes of one writer."""

    def __init__(self, tools: WriterContext, clock: Clock) -> None:
        self._tools = tools
        self._clock = clock

    async def open(self, branch: RemoteBranch, box: DestinationOutbox, tip: CommitId | None) -> None:
        """Open an outbox to the watches, unless its folder has another owner or encryption is impossible."""
        destination = box.destination
        digits = len(tip) if tip is not None else 40
        try:
            if destination.policy is SecretPolicy.ENCRYPT:
                # The ciphers take 10 MB of memory, and most destinations do not encrypt.
                from stoker.reverser.encryption.sealer import SopsSealer  # noqa: PLC0415

                keys = await ensure_keys(self._tools.client, self._tools.home)
                base, known = destination.base, box.known
                box.sealer = SopsSealer(
                    destination.recipients, keys, base, known, digits=digits, clock=self._clock
                )
        except Stalled as error:  # only this destination is affected; the others continue
            box.trouble, box.retry_at = error, self._clock.monotonic() + SLOW_BACKOFF.ceiling
            self._tools.stirred()
            return
        if not await self._may_write(branch, box):
            return
        box.open(await branch.listed(destination.base), digits)
        self._tools.watches.opened(box)
        self._tools.stirred()
        log.info("destination.opened", destination=str(destination.ref), files=len(box.files), tip=tip)

    async def look(self, branch: RemoteBranch, box: DestinationOutbox, on_their_way: set[str]) -> bool:
        """Compare a folder with its outbox; return False if another installation owns the folder now."""
        if not await self._may_write(branch, box):
            return False
        if box.compare(await branch.listed(box.destination.base), on_their_way) or box.unwritten:
            self.bring_again(box)
            box.sweep_soon()
        return True

    def bring_again(self, box: DestinationOutbox) -> None:
        """List all living objects again; files that differ by then are written."""
        feeding = [each.watched for each in self._tools.watches.feeding(box.destination.ref)]
        self._tools.watches.reseed(feeding, box.destination.ref)

    def calm(self, box: DestinationOutbox) -> None:
        """Release paths whose loop has ended, and bring their objects again in the current state."""
        watches, ref = self._tools.watches, box.destination.ref
        for path in box.loops.calmed(self._clock.monotonic()):
            key = object_at_path(path, box.destination.base)
            watched = key and watches.around.selection.listed_in(key, ref)
            if watched:
                watches.reseed((watched,), ref)
            self._tools.stirred()

    async def sweep(self, branch: RemoteBranch, box: DestinationOutbox) -> None:
        """Sweep the unclaimed files once: queue the deletion of orphans."""
        destination, watches = box.destination, self._tools.watches
        found = find_orphans(
            box.unclaimed - box.foreign,
            destination.base,
            destination.ref,
            watches.around.selection,
            lambda watched, key: watches.shows(watched, key, destination.ref),
        )
        box.to_be_swept = False
        kept, dropped = len(found.orphans), 0
        if destination.prune == "Always" and box.marker.standing is not FolderOwnership.THEIRS:
            kept, dropped = 0, await self._drop(branch, box, found.orphans)
        box.kept(kept + len(box.foreign))
        if not found.undecided:
            box.brake.all_listed(dropped)
        self._tools.stirred()

    async def _drop(self, branch: RemoteBranch, box: DestinationOutbox, orphans: Sequence[OrphanFile]) -> int:
        """Queue the deletion of orphans whose file describes their object; return their number."""
        count = 0
        for start in range(0, len(orphans), READ_BATCH):
            some = orphans[start : start + READ_BATCH]
            contents = await branch.read([orphan.path for orphan in some])
            for orphan in some:
                if orphan.path not in box.unclaimed:
                    continue  # an object claimed it meanwhile
                if describes(contents.get(orphan.path, b""), orphan.key, orphan.kind):
                    box.drop(orphan.key, orphan.path, None)
                    count += 1
                else:
                    box.foreign.add(orphan.path)
        if count:
            log.info("orphans.swept", destination=str(box.destination.ref), count=count)
            box.hurry()
        return count

    async def leave_equal(self, branch: RemoteBranch, box: DestinationOutbox) -> None:
        """Withdraw changes whose file in git holds the same values, whatever its comments and layout.

        Changes that arrive while files are read are compared too.
        """
        while some := box.batcher.over_foreign()[:READ_BATCH]:
            contents = await branch.read([change.path for change in some])
            equal = await asyncio.to_thread(_unchanged_files, some, contents)
            for change in equal:
                box.equals_git(change, blob_of(contents[change.path], digits=box.digits))
            box.batcher.compared(some)

    async def _may_write(self, branch: RemoteBranch, box: DestinationOutbox) -> bool:
        """Read the marker; refuse another installation's folder if the destination is exclusive."""
        wanted = [marker_path(box.destination.base)]
        if box.sealer is not None:
            wanted.append(box.sealer.path)
        contents = await branch.read(wanted)
        if box.sealer is not None:
            box.sealer.load(contents.get(box.sealer.path))
        known = box.marker
        marked = box.marker = check_marker(contents.get(wanted[0]), self._tools.origin)
        if marked.standing is not FolderOwnership.THEIRS:
            box.trouble = None
            return True
        ref, exclusive = box.destination.ref, box.destination.exclusive
        if marked != known:
            self._tools.meter.marker_conflict(ref)
            if exclusive:
                self._tools.meter.ownership_conflict(ref)
            log.warning("marker.mismatch", destination=str(ref), owner=marked.owner, exclusive=exclusive)
        if not exclusive:
            return True
        taken_over = known.standing is FolderOwnership.OURS or (
            box.trouble is not None and box.trouble.reason is Reason.ANOTHER_OWNER_ACTIVE
        )
        reason = Reason.ANOTHER_OWNER_ACTIVE if taken_over else Reason.MARKER_MISMATCH
        box.trouble = Stalled(f"folder {box.destination.base} belongs to {marked.owner}", reason=reason)
        box.retry_at = self._clock.monotonic() + self._tools.refresh
        self._tools.stirred()
        return False


def _unchanged_files(
    changes: Sequence[PendingFileChange], contents: Mapping[str, bytes]
) -> list[PendingFileChange]:
    return [
        change
        for change in changes
        if change.content is not None
        and (there := contents.get(change.path)) is not None
        and has_same_values(there, change.content)
    ]
