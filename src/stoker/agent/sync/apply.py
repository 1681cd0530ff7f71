"""Apply a plan together with its hooks, or only rehearse it.

`stoker.agent.sync.run` calls this module after the guards have accepted the plan. It requests all contents
that the local copy of the source lacks at once, then stages them. Hooks are entered only after every content
is staged and before any live file changes, so that a gateway's scan lock is held for the renames and not for
the download. A rehearsal reads the same contents, so that an error that would stop the real apply shows up
earlier.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack
from contextvars import copy_context

from stoker.agent.sync.contents import ContentDerivation, PlanContents
from stoker.agent.sync.diff import diff_lines
from stoker.agent.sync.hooks import SyncChange, SyncHook
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import BlobId, PathNote
from stoker.engine.plan.plan import SyncPlan
from stoker.engine.source_protocol import SourceReader
from stoker.fs.apply_plan import ApplyResult, BlobReader, FileRules, StagingProgress, SyncStopped, apply_plan
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import LedgerStore
from stoker.telemetry import tracing

_STOP_CHECK_SECONDS = 0.1


async def plan_contents(
    reader: SourceReader, derived: Mapping[BlobId, ContentDerivation], plan: SyncPlan
) -> PlanContents:
    """Return the contents that the plan writes; those that the local copy of the source lacks are fetched."""
    contents = PlanContents.of(reader, derived, plan.writes)
    if plan.writes:
        await reader.complete({contents.source(write.version.blob) for write in plan.writes})
    return contents


async def rehearse(
    plan: SyncPlan, folder: DataFolder, contents: PlanContents, *, diff: bool
) -> tuple[str, ...]:
    """Read the contents and raise an error that would stop the apply; with `diff`, return the diff."""
    if diff:
        return await run_in_thread(lambda _: tuple(diff_lines(folder, plan, contents)))
    await run_in_thread(lambda _: _prefetch_blobs(contents, [write.version.blob for write in plan.writes]))
    return ()


async def apply_change(
    change: SyncChange,
    folder: DataFolder,
    book: LedgerStore,
    contents: BlobReader,
    rules: FileRules,
    hooks: Sequence[SyncHook],
    progress: StagingProgress | None = None,
    then: Callable[[], None] | None = None,
) -> tuple[ApplyResult, tuple[PathNote, ...]]:
    """Apply the change with its hooks, whatever the contents' source; return the hooks' notes as well.

    The caller holds the folder lock. `then` runs in the worker thread, before the hooks' `after`.
    """
    plan = change.plan
    reach_failpoint("carry.before")
    if not plan.actions:
        hooks = ()
    async with AsyncExitStack() as around:

        async def enter() -> None:
            for hook in hooks:
                await around.enter_async_context(hook.around(change))

        loop, context = asyncio.get_running_loop(), copy_context()

        def carry(stop: threading.Event) -> ApplyResult:
            def ready() -> None:
                laps.lap("files.merge")
                if not hooks:
                    return
                # The worker thread has no logging context; without this copy, lines logged by hooks lack the
                # id of the sync.
                _wait_for_hooks(context.run(asyncio.run_coroutine_threadsafe, enter(), loop), stop)

            applied = apply_plan(
                folder,
                plan,
                book,
                contents,
                rules=rules,
                ready=ready,
                stopped=stop.is_set,
                progress=progress,
            )
            if then is not None:
                then()
            return applied

        with tracing.laps("files.stage") as laps:
            applied = await run_in_thread(carry)
        reach_failpoint("carry.after")
        notes = [note for hook in hooks for note in await hook.after(change, applied)]
    return applied, tuple(notes)


def _prefetch_blobs(contents: PlanContents, blobs: Collection[BlobId]) -> None:
    for blob in contents(tuple(blobs)):
        for _ in blob.chunks:
            pass


def _wait_for_hooks(entering: Future[None], stop: threading.Event) -> None:
    """Wait until the hooks are entered; raise `SyncStopped` if the sync is stopped meanwhile."""
    while not entering.done():
        wait([entering], _STOP_CHECK_SECONDS)
        if stop.is_set():
            entering.cancel()
            raise SyncStopped("the sync was stopped")
    entering.result()
