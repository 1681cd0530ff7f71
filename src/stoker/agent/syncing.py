"""One pass from git to one data folder: observe, plan, apply, report.

The wiring that `stoker sync` and the agent share; it holds no algorithm. Each step
is a verb of another room: git resolves, fetches and reads, the engine maps, guards
and plans, fs scans and applies. Nothing live is touched before every guard has let
the plan pass, and a dry run ends there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from stoker.agent.reporting import SyncReport
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured, Retry
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.source import AuthKind, Source
from stoker.domain.intent.values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.engine.features import require_running
from stoker.engine.guarding import check_sources, left_behind, over_budget
from stoker.engine.ledger import Ledger, Live
from stoker.engine.mapping import Desired, map_tree
from stoker.engine.objects import RefusalKind
from stoker.engine.planning import plan as plan_for
from stoker.fs import ledger as ledgers
from stoker.fs.applying import apply
from stoker.fs.confined import DataFolder
from stoker.fs.scanning import scan
from stoker.git.access import Access, AccessReader, always
from stoker.git.mirror import Mirror
from stoker.git.reading import find_lfs_pointers, read_blobs, read_tree
from stoker.git.remote import Remote
from stoker.git.resolving import resolve
from stoker.git.runner import GitRunner

T = TypeVar("T")


async def sync_once(
    source: Source,
    files: FilesIntent,
    values: TemplateValues,
    data_dir: Path,
    cache_dir: Path,
    *,
    access: AccessReader | None = None,
    dry_run: bool = False,
    approved_plan: str = "",
    clock: Clock | None = None,
) -> SyncReport:
    """Bring the data folder to what the ref means now; raises when a guard or the source stops it."""
    clock = clock if clock is not None else SystemClock()
    started = clock.monotonic()
    require_running(source, files)
    _require_access(source, access)
    runner = GitRunner(cache_dir)
    remote = Remote(runner, source.url, access if access is not None else always(Access(proxy=source.proxy)))
    commit = await resolve(remote, source.ref)
    mirror = await Mirror.of(remote, cache_dir, clock)
    this = _Pass(runner, mirror, source, commit, files, values, data_dir, dry_run, approved_plan)
    async with mirror.held():
        try:
            report = await this.run()
        except Retry as error:
            if error.reason is not Reason.GIT_FAILED:
                raise
            # A damaged mirror shows before anything live is touched: build it anew, once.
            mirror.discard()
            report = await this.run()
    return report.lasting(clock.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Pass:
    """One commit on its way into one data folder."""

    runner: GitRunner
    mirror: Mirror
    source: Source
    commit: CommitId
    files: FilesIntent
    values: TemplateValues
    data_dir: Path
    dry_run: bool
    approved_plan: str

    async def run(self) -> SyncReport:
        desired = await self._desired()
        with DataFolder.opened(self.data_dir) as folder, self._alone(folder):
            found = ledgers.load(folder)
            check_sources(desired, found.ledger)
            live = await _in_thread(lambda _: self._live(folder, desired, found.ledger))
            desired = await _in_thread(lambda _: self._without_pointers(desired, live))
            plan = plan_for(desired, live, found.ledger, self.files.deletion)
            stalled = left_behind(plan, desired, self.approved_plan) or over_budget(
                plan, found.ledger, self.files.deletion, self.approved_plan
            )
            report = SyncReport(self.commit, self.source.ref, plan, stalled=stalled, trouble=found.trouble)
            if self.dry_run:
                return report
            if stalled is not None:
                raise stalled
            read = partial(read_blobs, self.runner, self.mirror.path)
            return report.after(
                await _in_thread(lambda stop: apply(folder, plan, found.ledger, read, stop.is_set))
            )

    async def _desired(self) -> Desired:
        await self.mirror.fetch(self.commit, self.source.ref)
        tree = await read_tree(self.runner, self.mirror.path, self.commit)
        return map_tree(self.files, self.values.at(self.source.ref, self.commit), tree)

    def _alone(self, folder: DataFolder) -> AbstractContextManager[None]:
        """A dry run leaves no trace, so it takes no lock."""
        return nullcontext() if self.dry_run else ledgers.locked(folder)

    def _live(self, folder: DataFolder, desired: Desired, ledger: Ledger | None) -> Live:
        compared = desired.files.keys() | (ledger.paths if ledger is not None else frozenset())
        return scan(folder, desired.managed, compared, digits=len(self.commit))

    def _without_pointers(self, desired: Desired, live: Live) -> Desired:
        """Contents that are already on disk need no second look."""
        new = [version.blob for path, version in desired.files.items() if live.blob(path) != version.blob]
        pointers = find_lfs_pointers(self.runner, self.mirror.path, new)
        return desired.refusing(pointers, RefusalKind.LFS_POINTER)


def _require_access(source: Source, access: AccessReader | None) -> None:
    if access is None and source.auth.kind is not AuthKind.NONE:
        raise Misconfigured(
            f"the source asks for {source.auth.kind} authentication and no credentials were given"
        )


async def _in_thread(work: Callable[[threading.Event], T]) -> T:
    """Keep the event loop free; on cancellation wait for the work to stop, for it holds descriptors."""
    stop = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():  # however often we are told to hurry
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise
    finally:
        if running.done() and not running.cancelled():
            running.exception()  # looked at, so that nobody is told it never was
