"""Wires the parts of one replica together and keeps them in line with the configuration.

`process` builds it behind the client. On every change of the configuration or of the served kinds, the
supervisor computes a `DestinationPlan` (`destinations`) and a `Selection` (`selection`), and starts, updates
and stops watches, workers and statuses to match. It makes no decision of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from stoker.domain.clock import Clock
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import KubeClient
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.client.token_bucket import TokenBucket
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.leader.lease import LeaseTerms
from stoker.kube.runtime.process import ProcessPart
from stoker.kube.watch.reflector import Reflector
from stoker.reverser.destinations import BranchKey, DestinationPlan, arrange_destinations
from stoker.reverser.metrics import ReverserMetrics
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.selection import Selection, select_objects
from stoker.reverser.settings import NAME, ReverserExtensions, ReverserOptions
from stoker.reverser.status.status_facts import StatusFacts
from stoker.reverser.status.status_writer import StatusWriter
from stoker.reverser.watch.config_watch import ConfigWatch
from stoker.reverser.watch.discovery import DiscoveryLoop
from stoker.reverser.watch.ingest import IngestContext
from stoker.reverser.watch.throttled_source import WatchBudget
from stoker.reverser.watch.watch_set import WatchSet
from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.context import WriterContext
from stoker.reverser.writer.lease import BranchCandidate
from stoker.reverser.writer.replica_assignment import LiveReplicas
from stoker.reverser.writer.repo_check import RepoChecks
from stoker.reverser.writer.signing_keys import SigningKeys
from stoker.reverser.writer.worker import BranchWorker, PushSlots
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

SECRETS = GroupResource("", "secrets")


class ReverserSupervisor:
    """Owns the configuration watch, discovery, object watches, branch candidates and status writer."""

    def __init__(
        self,
        settings: ReverserOptions,
        seams: ReverserExtensions,
        clock: Clock,
        client: KubeClient,
        origin: CommitOrigin,
        terms: LeaseTerms,
        meter: ReverserMetrics,
    ) -> None:
        self._settings = settings
        self._seams = seams
        self._clock = clock
        self._client = client
        self._terms = terms
        self._meter = meter
        self._stirred = asyncio.Event()
        self._relabelled = False
        self._candidates: dict[BranchKey, tuple[BranchCandidate, asyncio.Task[None]]] = {}
        self._leaving: dict[BranchKey, asyncio.Task[None]] = {}
        """Candidates that are ending. A branch is not claimed again before its Lease was released."""
        rate = TokenBucket(settings.rate, clock)
        self._stating = ConfigWatch(
            client,
            clock,
            home=settings.namespace,
            namespaces=settings.namespaces,
            with_secrets=settings.include_secrets,
            stirred=self._stir,
            relabelled=self._relabel,
        )
        self._survey = DiscoveryLoop(
            client,
            clock,
            changed=self._stating.kinds_changed,
            rate=rate,
            found=self._stir,
            refresh=settings.discovery_refresh,
        )
        opening = asyncio.Semaphore(settings.max_concurrent_watches)
        turns = WatchBudget(opening, rate, clock, meter.scanned, self._tell, meter.listed, meter.watch_failed)
        self._watches = WatchSet(client, turns, IngestContext(select_objects((), KindCatalog())))
        self._members = LiveReplicas(client, settings.namespace, terms, clock, self._stir)
        self._keys = SigningKeys(client, settings.work_dir)
        git = GitRunner(settings.work_dir)
        self._trials = RepoChecks(
            client,
            git,
            self._keys,
            clock,
            refresh=settings.branch_refresh,
            require_known_hosts=settings.require_known_hosts,
            stirred=self._tell,
        )
        self._truths = StatusFacts(
            self._stating,
            self._watches,
            self._candidate_of,
            self._members,
            ingests=settings.ingest,
            keys=self._keys,
            trials=self._trials,
        )
        self._events = EventRecorder(client, component=NAME, instance=terms.identity, clock=clock)
        self._reporter = StatusWriter(client, self._truths, self._events, clock)
        self._slots = PushSlots(asyncio.Semaphore(settings.max_workers), settings.max_workers_per_repo)
        self._tools = WriterContext(
            client=client,
            git=git,
            folder=settings.work_dir,
            home=settings.namespace,
            origin=origin,
            author_of=seams.authors.author_of,
            author_patience=seams.author_patience,
            signer_of=self._keys.signer_of,
            watches=self._watches,
            meter=meter,
            stirred=self._tell,
            refresh=settings.branch_refresh,
            require_known_hosts=settings.require_known_hosts,
            capacity=settings.capacity,
        )

    @property
    def parts(self) -> list[ProcessPart]:
        """The parts in start order: each part needs the parts before it."""
        return [
            ProcessPart("events", self._events.run, self._events.stop),
            ProcessPart("reporting", self._reporter.run),
            ProcessPart("members", self._members.run),
            ProcessPart("stating", self._stating.run),
            ProcessPart("surveying", self._survey.run),
            ProcessPart("working", self._work),
        ]

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return (*self._stating.reflectors, *(watch.reflector for watch in self._watches.all))

    def why_unready(self) -> str | None:
        if not self._stating.listed.is_set():
            return "the objects of the reverser have not been listed yet"
        return (
            None if self._survey.catalog is not None else "the server has not said yet which kinds it serves"
        )

    async def _work(self) -> None:
        """Apply every change of the configuration and of the served kinds, until cancelled."""
        try:
            await self._members.look()
            await self._stating.listed.wait()
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                await asyncio.sleep(0)
                if self._survey.catalog is not None or not self._settings.ingest:
                    self._follow(self._survey.catalog or KindCatalog())
        finally:
            tasks = [task for _, task in self._candidates.values()] + [*self._leaving.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._trials.stop()
            await self._watches.stop()

    def _follow(self, catalog: KindCatalog) -> None:
        settings, stated = self._settings, self._stating.stated()
        arrangement = arrange_destinations(stated, limits=settings.limits)
        if not settings.ingest:
            self._truths.arrangement = arrangement
            self._tell()
            return
        excluded = settings.excluded | ({SECRETS} if self._stating.why_no_secrets else set())
        selection = select_objects(
            arrangement.rules,
            catalog,
            excluded=excluded,
            watch_all=settings.watch_all,
            max_kinds=settings.max_kinds,
        )
        self._warn(selection)
        labelled = frozenset(
            rule.destination for rule in selection.rules if rule.namespace_labels.requirements
        )
        if labelled:
            self._stating.want_labels()
        self._keys.follow(stated.configs)
        used = {each.config for each in arrangement.destinations.values()}
        self._trials.follow(stated.configs, used, speaks=self._members.speaks)
        self._watches.follow(IngestContext(selection, arrangement.own, self._stating.labels_of))
        if self._relabelled:
            self._relabelled = False
            self._watches.seed(labelled)
        self._truths.arrangement = arrangement
        self._staff(arrangement)
        self._seams.selected(selection, catalog)
        self._tell()

    def _staff(self, arrangement: DestinationPlan) -> None:
        """Run one candidate per planned branch, and stop the candidates of all other branches."""
        for place in self._candidates.keys() - arrangement.places:
            candidate, task = self._candidates.pop(place)
            candidate.worker.arrange({})  # so that the final push skips changes that are no longer wanted
            task.cancel()
            self._leaving[place] = task
        for place in sorted(arrangement.places):
            wanted = {ref: each for ref, each in arrangement.destinations.items() if each.place == place}
            if place not in self._candidates:
                worker = BranchWorker(place, self._tools, self._slots, clock=self._clock)
                candidate = BranchCandidate(
                    worker,
                    self._client,
                    self._settings.namespace,
                    self._terms,
                    self._members,
                    self._clock,
                    self._meter,
                )
                standing = _run_after(self._leaving.pop(place, None), candidate)
                task = asyncio.get_running_loop().create_task(standing, name=place.lease)
                task.add_done_callback(partial(self._left, place))
                self._candidates[place] = candidate, task
                self._meter.active(place, False)  # a branch without a writer shows 0, not a missing series
            self._candidates[place][0].worker.arrange(wanted)

    def _left(self, place: BranchKey, _: asyncio.Task[None]) -> None:
        """Drop the metrics of a branch whose worker ended, unless a new worker has taken its place."""
        if place not in self._candidates:
            self._meter.gone(place)

    def _candidate_of(self, place: BranchKey) -> BranchCandidate | None:
        found = self._candidates.get(place)
        return None if found is None else found[0]

    def _warn(self, selection: Selection) -> None:
        known = {str(each) for each in self._watches.around.selection.inert}
        for each in selection.inert:
            if str(each) not in known:
                log.warning("rule.inert", why=each.why, rule=str(each.rule), sentence=str(each))

    def _stir(self) -> None:
        self._stirred.set()

    def _relabel(self) -> None:
        self._relabelled = True
        self._stirred.set()

    def _tell(self) -> None:
        self._reporter.stir()


async def _run_after(previous: asyncio.Task[None] | None, candidate: BranchCandidate) -> None:
    if previous is not None:
        await asyncio.wait({previous})
    await candidate.run()
