"""The steps of one sync from a source to one data folder: observe, plan, apply, report.

This module holds no algorithm. The source fetches and reads, the engine maps, guards and plans, fs scans and
applies. No live file changes before every guard has accepted the plan; a dry run ends there.

The cost of a sync depends on the work to do. The ledger records the commit and the settings of the folder. If
both are current, the sync does not contact the source, and it walks the folder only to find drift. If only
the commit moved, it maps the changes between the two commits and nothing else. It maps all files again when
the settings changed, when an earlier sync was incomplete, and whenever mapping only the changes might not
give the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from stoker.agent.sync.apply import apply_change, plan_contents, rehearse
from stoker.agent.sync.contents import ContentDerivation, LfsPointersFound, derive_blob_ids
from stoker.agent.sync.hooks import SyncChange, SyncHook
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.module_order import sort_modules
from stoker.agent.sync.noise_filter import NoiseContext, without_ignored, without_noise
from stoker.agent.sync.sync_report import SyncReport
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import BlobId, RefusedEntryKind
from stoker.domain.intent.files import BinaryPolicy, FilesIntent
from stoker.domain.intent.source import SignatureMode
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.engine.layout.desired_files import DesiredFiles, ManagedPaths
from stoker.engine.layout.layout import Layout
from stoker.engine.plan.approvals import named_as_used, unused, using, withdrawn
from stoker.engine.plan.drift import FolderDrift, find_drift
from stoker.engine.plan.drift_ignore import NO_DRIFT_IGNORED, DriftIgnoreRules
from stoker.engine.plan.guards import plan_objection, stale_approval_error
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.live import LiveDifferences, entry_content
from stoker.engine.plan.plan import LedgerFacts, SyncPlan
from stoker.engine.plan.planner import make_plan as plan_for
from stoker.engine.plan.skipped import SkippedContent
from stoker.engine.source_protocol import SourceReader
from stoker.engine.transform.transform import TransformSet
from stoker.fs.apply_plan import ApplyResult, FileRules, StagingProgress
from stoker.fs.clean_folders import CleanFolderCache
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import LedgerStore
from stoker.fs.staging import discard_staging
from stoker.telemetry import tracing

if TYPE_CHECKING:
    from stoker.ignition.content.noise import ResourceNoise

# The settings digest does not depend on the commit time; `_all` reads the real time when it maps all files.
_SOME_TIME = 0


class _SyncDecision(NamedTuple):
    """The plan, how to derive its contents, and the report so far."""

    plan: SyncPlan
    derived: Mapping[BlobId, ContentDerivation]
    report: SyncReport


@dataclass(slots=True)
class SyncPass:
    """One sync of one commit into one data folder."""

    job: SyncJob
    wish: SyncOptions
    commit: CommitId
    reader: SourceReader
    hooks: Sequence[SyncHook]
    folder: DataFolder
    book: LedgerStore
    visits: CleanFolderCache | None = None
    progress: StagingProgress | None = None
    noise: ResourceNoise | None = None
    pointers: frozenset[BlobId] = frozenset()
    """Contents found to be Git LFS pointers so far; they are not delivered."""
    ignored: DriftIgnoreRules = NO_DRIFT_IGNORED

    async def run(self) -> SyncReport:
        if not self.wish.dry_run and (gone := withdrawn(self.wish.approved, self._ledger)):
            self.book.forget_approvals(self.folder, gone)
        layout = self._layout(self.job.values.at(self.job.source.ref, self.commit, _SOME_TIME))
        live = None
        if self._is_current(layout):
            live = await self._look(None) if self.wish.walk else LiveDifferences()
            live_now = self.ignored.without(live, self._ledger or Ledger())
            if self._is_at_rest(live_now):
                if not self.wish.dry_run:
                    # A killed sync may have left its staging folder, and its commit may since have been
                    # reverted; no later step would remove the folder.
                    with suppress(OSError):  # the next sync that stages files reports the error
                        discard_staging(self.folder)
                found = find_drift(self._ledger or Ledger(), live_now)
                plan = self._nothing(live_now, found.extra)
                report = self._report(plan, found)
                if (stale := self._stale(plan)) is None:
                    return report
                if self.wish.dry_run:
                    return replace(report, stalled=stale)
                raise stale
        async with self.reader.held():
            try:
                return await self._bring(layout, live)
            except Retry as error:
                if error.reason is not Reason.GIT_FAILED:
                    raise
                # Damage of the local copy shows before any live file changes: rebuild the copy, once.
                self.reader.discard()
                return await self._bring(layout, live)

    @property
    def _ledger(self) -> Ledger | None:
        return self.book.ledger

    @property
    def _approved(self) -> frozenset[str]:
        """Digests of approved plans that were not applied since their approval."""
        return unused(self.wish.approved, self._ledger)

    def _is_current(self, layout: Layout) -> bool:
        ledger = self._ledger
        return (
            ledger is not None
            and ledger.complete
            and (ledger.commit, ledger.settings) == (self.commit, layout.settings)
        )

    def _is_at_rest(self, live: LiveDifferences) -> bool:
        """Return whether no difference needs a change: each is excluded or an unmanaged file that stays."""
        ledger = self._ledger
        if ledger is None or (self._approved and ledger.awaiting_approval):
            return False
        if not ledger.files.keys().isdisjoint(live.found):
            return False
        # First contact records every unmanaged file as present before the sync, so it cannot be skipped.
        extra = find_drift(ledger, live).extra
        return not extra if self.wish.first_contact else not any(map(ledger.mirrors, extra))

    def _nothing(self, live: LiveDifferences, extra: Collection[str]) -> SyncPlan:
        ledger = self._ledger or Ledger()
        waiting = [path for path in ledger.awaiting_approval if path in live.found]
        welcome = [path for path in ledger.kept if path in live.found and not ledger.mirrors(path)]
        return SyncPlan(
            orphans_kept=tuple(map(RelPath.known, waiting)),
            not_ours=tuple(map(RelPath.known, sorted((*welcome, *extra)))),
            skipped=SkippedContent.stored(ledger.skipped, ledger.skipped_total).notes,
            facts=LedgerFacts(
                mirrored=ledger.mirrored, skipped=ledger.skipped, skipped_total=ledger.skipped_total
            ),
        )

    def _layout(self, values: TemplateValues) -> Layout:
        return Layout(self.job.files, values, TransformSet(self.job.files.transforms, values))

    async def _bring(self, layout: Layout, live: LiveDifferences | None) -> SyncReport:
        """Fetch and verify the commit, plan and apply; plan again without Git LFS pointers if any exist."""
        ref, ledger = self.job.source.ref, self._ledger
        follows = ledger is not None and ledger.ref == ref and ledger.commit
        if self.progress is not None:
            self.progress("fetching", 0, 0)
        with tracing.step("git.fetch", commit=str(self.commit), ref=str(ref)):
            await self.reader.fetch(self.commit, ref)
        await self.reader.vouch(self.commit, ref, CommitId(ledger.commit) if ledger and follows else None)
        while True:
            with tracing.step("files.plan"):
                decision = await self._decide(layout, live)
            try:
                return await self._carry_out(decision)
            except LfsPointersFound as found:
                self.pointers |= found.blobs

    async def _decide(self, layout: Layout, live: LiveDifferences | None) -> _SyncDecision:
        """Observe and plan.

        Returning frees the desired files, up to 100,000, before the sync writes any.
        """
        desired = await self._changed(layout, ())
        if desired is None:
            desired = await self._all(layout)
        if live is None:
            live = await self._look(desired)
        if desired.partial and (lost := self._lost(layout, live)):
            desired = await self._changed(layout, lost) or await self._all(layout)
        desired, derived = await self._shaped(desired)
        desired = desired.refusing(self.pointers, RefusedEntryKind.LFS_POINTER)
        live = self.ignored.without(live, self._ledger or Ledger(), desired)
        plan = await self._quieted(self._plan(desired, live), live, derived)
        plan = await sort_modules(plan, self.job.module_order, self.reader, derived)
        if plan.orphans_kept and plan.digest in self._approved:
            plan = plan.with_orphans()
        report = replace(
            self._report(plan, self._drift(plan, live)), stalled=self._why_stalled(plan, desired)
        )
        return _SyncDecision(plan, derived, report)

    async def _changed(self, layout: Layout, lost: Collection[str]) -> DesiredFiles | None:
        """Map only the commit's changes and the `lost` files; None if all files have to be mapped."""
        ledger = self._ledger
        if ledger is None or not ledger.complete or ledger.settings != layout.settings or layout.volatile:
            return None
        before = CommitId(ledger.commit)
        changes = () if before == self.commit else await self.reader.changes(before, self.commit)
        if changes is None:
            return None
        asked = layout.questions(changes, lost)
        answers = await self.reader.look_up(self.commit, asked) if asked else {}
        return layout.map_changes(changes, answers, ledger, drifted=lost)

    async def _all(self, layout: Layout) -> DesiredFiles:
        if _uses_commit_time(self.job.files):
            made = await self.reader.committed_at(self.commit)
            layout = self._layout(self.job.values.at(self.job.source.ref, self.commit, made))
        tree = await self.reader.tree(self.commit)
        return await run_in_thread(lambda _: layout.map(tree))

    async def _look(self, desired: DesiredFiles | None) -> LiveDifferences:
        """Return the differences between disk and ledger that matter for the desired files."""
        ledger = self._ledger or Ledger()
        managed = desired.managed if desired is not None else ManagedPaths()
        return await run_in_thread(
            lambda stop: scan_folder(
                self.folder,
                ledger,
                managed_folders=managed.folders | ledger.folders,
                managed_files=managed.files,
                compared=desired.paths.union(ledger.intended) if desired is not None else (),
                walk=self.wish.walk or desired is None or not desired.partial,
                digits=len(self.commit),
                visits=self.visits,
                stopped=stop.is_set,
            )
        )

    def _lost(self, layout: Layout, live: LiveDifferences) -> frozenset[str]:
        """Return touched files with transformed content, which has to be derived again."""
        ledger = self._ledger
        if ledger is None:
            return frozenset()
        return frozenset(path for path in live.found if path in ledger.files and layout.derives(path))

    async def _shaped(self, desired: DesiredFiles) -> tuple[DesiredFiles, Mapping[BlobId, ContentDerivation]]:
        """Return the desired files with the blob ids that templates, normalization and patches produce."""
        if not desired.recipes:
            return desired, {}
        wanted = {path: (desired.files[path].blob, recipe) for path, recipe in desired.recipes.items()}
        await self.reader.complete({blob for blob, _ in wanted.values()})
        results, derived = await run_in_thread(lambda _: derive_blob_ids(self.reader, wanted))
        return desired.derived(results), derived

    async def _quieted(
        self, plan: SyncPlan, live: LiveDifferences, derived: Mapping[BlobId, ContentDerivation]
    ) -> SyncPlan:
        """Return the plan without writes that would change nothing that matters."""
        if not plan.writes:
            return plan
        around = NoiseContext(live, self._ledger or Ledger(), self.folder, self.reader, derived)
        plan = await without_ignored(plan, self.ignored, around)
        return plan if self.noise is None else await without_noise(plan, self.noise, around)

    def _drift(self, plan: SyncPlan, live: LiveDifferences) -> FolderDrift:
        """Return changes made by other writers; differences that are noise stay on disk and are not drift."""
        ledger = self._ledger
        if ledger is None or not live.walked:
            return FolderDrift()
        found, kept = find_drift(ledger, live), plan.facts.kept.union(plan.orphans_kept)
        return replace(
            found,
            modified=tuple(path for path in found.modified if path not in plan.remembered),
            extra=tuple(path for path in found.extra if path not in kept),
        )

    async def _carry_out(self, decision: _SyncDecision) -> SyncReport:
        plan, derived, report = decision
        ledger = self._ledger
        change = SyncChange(self.commit, self.job.source.ref, plan, initial=ledger is None, before=ledger)
        if self.wish.dry_run:
            return await self._rehearse(decision)
        if self._is_another(plan):
            report = replace(report, applied=None, stalled=report.stalled or _plan_not_approved(plan))
            return await self._rehearse(decision._replace(report=report))
        if report.stalled is not None:
            raise report.stalled
        # An unreadable ledger is not a first sync, so it waits for its window. An interrupted apply is
        # finished even outside a maintenance window.
        free = (change.initial and not self.book.trouble) or (ledger is not None and bool(ledger.intended))
        if self.wish.waits is not None and plan.actions and not free:
            await rehearse(plan, self.folder, await plan_contents(self.reader, derived, plan), diff=False)
            return replace(report, applied=None, waits=self.wish.waits)
        if plan.actions:
            held = [place for hook in self.hooks for place in await hook.hold(change)]
            plan = plan.holding(held, self._ledger)
            report = replace(report, plan=plan)
        # While hooks hold every path, each sync makes the same plan again and needs its approval.
        released_by = decision.plan.digest if plan.actions else None
        plan = using(plan, self.wish.approved, ledger, released_by)
        applied, unverified = await apply_change(
            replace(change, plan=plan),
            self.folder,
            self.book,
            await plan_contents(self.reader, derived, plan),
            FileRules(self.job.owner, self.job.umask),
            self.hooks,
            self.progress,
        )
        return replace(report, applied=applied, unverified=unverified)

    def _is_another(self, plan: SyncPlan) -> bool:
        """Return whether this is not the approved plan; syncs that continue a begun plan need no approval."""
        ledger, only = self._ledger, self.wish.only
        return bool(only) and ledger is not None and ledger.commit != self.commit and plan.digest != only

    async def _rehearse(self, decision: _SyncDecision) -> SyncReport:
        plan, derived, report = decision
        try:
            contents = await plan_contents(self.reader, derived, plan)
            return replace(report, diff=await rehearse(plan, self.folder, contents, diff=self.wish.diff))
        except Stalled as error:
            return replace(report, stalled=report.stalled or error)

    def _plan(self, desired: DesiredFiles, live: LiveDifferences) -> SyncPlan:
        plan = plan_for(
            desired,
            live,
            self._ledger,
            self.job.files.deletion,
            commit=str(self.commit),
            first_contact=self.wish.first_contact,
        )
        plan = replace(plan, facts=replace(plan.facts, ref=str(self.job.source.ref)))
        if self.wish.first_contact and self._ledger is not None:
            return plan.without_writes(self._changed_by_people(plan, live, self._ledger))
        return plan

    def _stale(self, plan: SyncPlan) -> Stalled | None:
        """Return why an approval for this sync alone does not match; None if none was given."""
        return stale_approval_error(plan, self._approved) if self.wish.approval_must_match else None

    def _changed_by_people(self, plan: SyncPlan, live: LiveDifferences, ledger: Ledger) -> frozenset[str]:
        """Return files that a person changed since the first boot and git did not: they stay, as drift."""
        return frozenset(
            path
            for path, version in [(str(one.path), one.version) for one in plan.writes]
            + [(str(one.path), one.version) for one in plan.modes]
            if path in live.found
            and ledger.version(path) == version
            and entry_content(live.found[path]) != self.wish.made_by_boot.get(path)
        )

    def _why_stalled(self, plan: SyncPlan, desired: DesiredFiles) -> Stalled | None:
        stalled = plan_objection(plan, desired, self._ledger, self.job.files.deletion, self._approved)
        stalled = named_as_used(stalled, self.wish.approved) or self._stale(plan)
        if stalled is not None or self.job.binaries is BinaryPolicy.ALLOW:
            return stalled
        from stoker.ignition.content.binaries import binary_refusal  # noqa: PLC0415 - few policies restrict binaries

        signed = self.job.source.signatures.mode is not SignatureMode.NONE  # `vouch` has verified it
        return binary_refusal([write.path for write in plan.writes], self.job.binaries, signed=signed)

    def _report(self, plan: SyncPlan, found: FolderDrift) -> SyncReport:
        return SyncReport(
            self.commit,
            self.job.source.ref,
            plan,
            applied=None if self.wish.dry_run else ApplyResult(),
            drift=found,
            trouble=self.book.trouble,
        )


def _plan_not_approved(plan: SyncPlan) -> Stalled:
    return Stalled(
        f"plan {plan.digest} is not the one that was approved; nothing was changed",
        reason=Reason.PLAN_PENDING,
    )


def _uses_commit_time(files: FilesIntent) -> bool:
    """Return whether a content may contain the commit time, which takes another request to the source."""
    texts = [files.transforms.system_name or "", *(one.value_template for one in files.transforms.fields)]
    texts += [value for patch in files.transforms.patches for _, value in patch.values]
    return any(mapping.template for mapping in files.mappings) or any(".Timestamp" in text for text in texts)
