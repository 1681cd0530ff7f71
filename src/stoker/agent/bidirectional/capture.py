"""The steps for one gateway's own changes: look, decide, compose, send, record, report.

Capture runs beside the syncs, not as a part of them. A step and a sync exclude each other (`lock`), because
both read the ledger and the mirror. As a sync hook it returns the paths to hold, and checks again after
staging, so that a save at that very moment is not overwritten either. Only one change set is sent at a time;
the controller's reply arrives in the metadata ConfigMap (`told`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from stoker.agent.bidirectional import holds, state
from stoker.agent.bidirectional.compose import ChangeComposer, ComposedChanges
from stoker.agent.bidirectional.local_changes import UNREAD_VERSION, LocalChanges
from stoker.agent.bidirectional.outbox import ChangeTooLarge, OutboxSender, pack_changes
from stoker.agent.bidirectional.significance import ChangeSignificance
from stoker.agent.bidirectional.state import CaptureState, SentChanges
from stoker.agent.bidirectional.status import CaptureStatus
from stoker.agent.bidirectional.types import CaptureStep, OutboxAddress, OutgoingChangeSet, next_id
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.sync_report import SyncReport
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.deletion_guard import deletions_digest
from stoker.domain.errors import Retry, StokerError
from stoker.domain.git_objects import FileVersion, HeldPath, PathNote
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.protocol import ChangeSet, ChangeSetReply, GatewayChangesReport
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.engine.layout.reverse_map import CapturablePaths
from stoker.engine.plan.approvals import unused
from stoker.engine.plan.guards import held_deletions_reason
from stoker.engine.plan.ledger import Ledger
from stoker.engine.source_protocol import SourceReader
from stoker.fs.apply_plan import ApplyResult
from stoker.fs.data_folder import DataFolder
from stoker.fs.watch.paths import ChangedPaths
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.ignition.content.noise import ResourceNoise

MANY_FOLDERS = 32
"""For more folders, one walk over everything is cheaper."""

log = get_logger(__name__)

_CapturedVersions = Mapping[str, FileVersion | None]


class ChangeCapture:
    """Captures the changes of one data folder (`stoker.agent.sync.hooks.SyncHook`)."""

    def __init__(
        self,
        policy: BidirectionalPolicy,
        keeper: FolderSync,
        sender: OutboxSender,
        postal: OutboxAddress,
        clock: Clock,
        *,
        noise: ResourceNoise | None = None,
        tell: Callable[[GatewayChangesReport | None], None],
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may` returns whether the first sync and first boot are over; nothing is captured before."""
        self.lock = asyncio.Lock()
        self.poked = asyncio.Event()
        ignored = [rule.path for rule in keeper.job.ignore if not rule.json_pointer]
        excludes = (*policy.excludes, *ignored)
        self.allowed = CapturablePaths(policy.watch_paths, excludes, keeper.job.files.excludes)
        self._policy = policy
        self._keeper = keeper
        self._sender = sender
        self._postal = postal
        self._clock = clock
        self._tell = tell
        self._may = may
        self._sight = LocalChanges(self.allowed)
        self._meaning = ChangeSignificance(noise)
        self._settings = hashlib.sha256(json.dumps([policy.watch_paths, excludes]).encode()).hexdigest()
        self._memory: CaptureState | None = None
        self._changes: _CapturedVersions = {}
        self._standing = CaptureStatus(policy.max_files_per_pr)
        self._holds: frozenset[str] = frozenset()
        self._cleared: _CapturedVersions = {}
        self._saving = asyncio.Lock()
        self._approved: frozenset[PlanApproval] = frozenset()

    @property
    def may(self) -> bool:
        return self._may()

    async def told(
        self, answer: ChangeSetReply | None, approved: frozenset[PlanApproval] = frozenset()
    ) -> None:
        """Process the controller's reply, which may be repeated, and the approved plans."""
        if approved != self._approved:
            self._approved = approved
            self.poked.set()
        self._holds = frozenset(answer.holds) if answer is not None else frozenset()
        await self._update(lambda memory: memory.approved_by(self._approved))
        if await self._update(lambda memory: memory.answered(answer)) and answer is not None:
            log.info("changes.answered", id=answer.id, result=str(answer.result), refused=len(answer.refused))
            self.say()
            self.poked.set()

    def passed(self, report: SyncReport) -> None:
        """After a sync: report the paths that it left alone because of captured changes."""
        if report.applied is not None:
            self._standing.held = len(holds.captured_holds(report.plan.held))
        self.say()

    def say(self) -> None:
        """Report the state; None while changes are not captured."""
        told = self._standing.told(self._changes, self._memory or CaptureState(), self._holds)
        self._tell(told if self.may else None)

    def still_held(self, held: Sequence[HeldPath]) -> bool:
        memory = self._memory or CaptureState()
        return holds.are_still_held(held, self._changes, self._holds, memory.has)

    async def check_sent(self) -> None:
        """Check that the sent change set is still in the outbox; an earlier agent may have been killed."""
        sent = (await self._remembered()).sent
        if sent is None or await self._sender.is_there(self._postal.key, sent.id):
            return
        if await self._update(lambda memory: memory.unsent(sent.id)):
            log.info("changes.lost", id=sent.id)

    async def step(self, noticed: ChangedPaths) -> CaptureStep:
        """Look at the noticed paths and prepare a change set; the caller holds the lock."""
        if not self.may:
            return CaptureStep(done=False)
        with DataFolder.opened(self._keeper.job.data_dir) as folder:
            ledger = self._keeper.read(folder)
            if ledger is None:
                return CaptureStep(done=False)
            if noticed.everything or len(noticed.folders) > MANY_FOLDERS:
                await self._sight.walk(folder, ledger)
            else:
                await self._sight.look(folder, ledger, noticed)
            raw = self._sight.changes(ledger)
            await self._judge(raw, ledger, folder)
            self._changes = self._meaning.of(raw, ledger)
            undone = self._sight.undone((await self._remembered()).recorded, ledger)
            ids = {path: holds.version_id(version) for path, version in raw.items()}
            terms = f"{self._settings} {ledger.commit}"  # a new commit may accept what was refused
            await self._update(lambda memory: memory.under(terms).knowing(ids, undone))
            undecided = self._meaning.undecided(raw, ledger)
            try:
                parcel = await self._parcel(folder, ledger, undone, undecided)
                self._standing.trouble = None
            except StokerError as error:
                self._standing.trouble = error
                raise
            finally:
                self.say()
        return CaptureStep(parcel=parcel, again=bool(undecided or self._sight.unread))

    async def post(self, parcel: OutgoingChangeSet) -> None:
        """Send a change set; if it cannot be stored, it stays on the gateway and is composed again."""
        try:
            await self._sender.send(self._postal.key, parcel.id, parcel.chunks)
            self._standing.trouble = None
            log.info("changes.sent", id=parcel.id, chunks=len(parcel.chunks))
        except StokerError as error:
            self._standing.trouble = error
            await self._update(lambda memory: memory.unsent(parcel.id))
            raise
        finally:
            self.say()

    @asynccontextmanager
    async def beside_passes(self) -> AsyncIterator[None]:
        """Hold the reader for a caller that changes the folder outside a sync."""
        async with self._keeper.reader.held():
            yield

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        """Return paths that the plan would overwrite or delete and that were changed on the gateway."""
        ledger = change.before
        if ledger is None or change.initial or not self._may():
            return ()
        self._changes = self._cleared = await self._now(change, ledger)
        memory = await self._remembered()
        held = holds.held_paths(change.plan, self._changes, ledger, self._holds, memory.has)
        if held:
            self.poked.set()
        return held

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        """Check again before the first byte is written; raise if a file was saved meanwhile."""
        ledger = change.before
        if ledger is not None and not change.initial and self._may():
            now, before = await self._now(change, ledger), self._cleared
            touched = holds.paths_changed_by(change.plan)
            new = [
                path for path in touched if path in now and (path not in before or before[path] != now[path])
            ]
            if new:
                self.poked.set()
                raise Retry(
                    f"{new[0]} was changed on the gateway while the sync ran; nothing was written, and the "
                    "sync is retried",
                    reason=Reason.CHANGE_HELD,
                )
            await self._update(lambda memory: memory.without(touched))
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        """Forget the written paths, so that later changes to them are noticed."""
        modes = (action.path for action in change.plan.modes)
        written = frozenset(map(str, (*applied.added, *applied.modified, *applied.deleted, *modes)))
        self._sight.forget(written)
        self._changes = {path: it for path, it in self._changes.items() if path not in written}
        return ()

    async def _now(self, change: SyncChange, ledger: Ledger) -> dict[str, FileVersion | None]:
        """Return the changes, with the paths of the plan read again now; the sync holds the reader."""
        with DataFolder.opened(self._keeper.job.data_dir) as folder:
            await self._sight.check(folder, ledger, holds.paths_changed_by(change.plan))
            raw = self._sight.changes(ledger)
            undecided = self._meaning.undecided(raw, ledger)
            if undecided:
                await self._meaning.judge(undecided, folder, self._keeper.reader)
        return {**self._meaning.of(raw, ledger), **dict.fromkeys(self._sight.unread, UNREAD_VERSION)}

    async def _judge(self, raw: _CapturedVersions, ledger: Ledger, folder: DataFolder) -> None:
        undecided = self._meaning.undecided(raw, ledger)
        if not undecided:
            return
        try:
            async with self._source(CommitId(ledger.commit)) as reader:
                await self._meaning.judge(undecided, folder, reader)
        except StokerError:
            await self._meaning.judge(undecided, folder, None)

    @asynccontextmanager
    async def _source(self, commit: CommitId) -> AsyncIterator[SourceReader]:
        """Provide the source with this commit; a restarted pod has to fetch it first."""
        reader = self._keeper.reader
        async with reader.held():
            await reader.fetch(commit, self._keeper.job.source.ref)
            yield reader

    async def _parcel(
        self, folder: DataFolder, ledger: Ledger, undone: _CapturedVersions, undecided: Container[str]
    ) -> OutgoingChangeSet | None:
        """Return the change set that can be sent now; it is recorded as sent before it is sent."""
        memory = await self._remembered()
        ready = {
            path: version
            for path, version in {**undone, **self._changes}.items()
            if not memory.has(path, holds.version_id(version)) and path not in undecided
        }
        ready = self._standing.sorted(ready, memory, ledger.commit)
        gone = [path for path, version in ready.items() if version is None]
        released = unused(self._approved, memory)
        self._standing.unapproved = held_deletions_reason(
            gone, ledger, self._keeper.job.files.deletion, released
        )
        if memory.sent is not None or not ready or self._standing.too_many or self._standing.unapproved:
            return None
        composed = await self._composed(folder, ledger, ready)
        name = next_id(self._clock, memory.last_id)
        whole = ChangeSet(
            name, self._postal.gateway, composed.commit, composed.files, rfc3339(self._clock.now())
        )
        try:
            sent, chunks = await run_in_thread(lambda _: pack_changes(whole))
        except ChangeTooLarge as unfit:
            self._standing.refuse(unfit.path, holds.version_id(ready[unfit.path]), unfit.message)
            self.poked.set()
            return None
        if not sent.files:
            return None
        files = {one.path: holds.version_id(ready[one.path]) for one in sent.files}
        log.info("changes.made", id=name, files=len(files), commit=sent.base_commit.short)
        used = frozenset(one.text for one in self._approved if one.digest == deletions_digest(gone))
        await self._update(lambda memory: memory.sending(SentChanges(name, files), used))
        return OutgoingChangeSet(name, chunks)

    async def _composed(
        self, folder: DataFolder, ledger: Ledger, ready: _CapturedVersions
    ) -> ComposedChanges:
        composer = ChangeComposer(self._keeper.job, self._keeper.reader, folder, ledger)
        commit = composer.commit_for(ready)
        async with self._source(commit):
            composed = await composer.compose(ready, commit, self._policy.max_file_bytes)
        for path, why in composed.refused.items():
            self._standing.refuse(path, holds.version_id(ready[path]), why)
            log.warning("changes.refused", path=path, why=why)
        self._sight.unread.update(composed.moving)
        return composed

    async def _remembered(self) -> CaptureState:
        if self._memory is None:
            with DataFolder.opened(self._keeper.job.data_dir) as folder:
                loaded = await run_in_thread(lambda _: state.load(folder))
            self._memory = self._memory or loaded
        return self._memory

    async def _update(self, change: Callable[[CaptureState], CaptureState]) -> bool:
        """Change the state in one step, also under concurrency, and save it; return whether it changed."""
        await self._remembered()
        before = self._memory or CaptureState()
        self._memory = now = change(before)
        if now == before:
            return False
        async with self._saving:
            with DataFolder.opened(self._keeper.job.data_dir) as folder:
                await run_in_thread(lambda _: state.save(folder, self._memory or now))
        return True
