"""The controller's side of bidirectional sync in one process: a dict, real git, a forge in memory.

What a pass does with what the acceptor finds is played here step by step, so that a test
can stop between any two of them and go on as another leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker.controller.bidirectional.inbox import change_sets_in
from stoker.controller.bidirectional.proposal import ChangeSetProcessor
from stoker.controller.bidirectional.types import (
    BidirectionalRequest,
    BidirectionalResult,
    ChangeSetSender,
    GatewayChangesState,
    RawChangeSet,
    ReceivedChangeSet,
)
from stoker.controller.bidirectional.worker import BidirectionalWorker
from stoker.controller.cache.objects import ResourceKey
from stoker.domain.clock import Clock
from stoker.domain.errors import Stalled
from stoker.domain.intent.files import ExcludePolicy, FileMapping, FilesIntent
from stoker.domain.intent.intent import GatewayIntent, ResourceIdentity, SyncResourceKind
from stoker.domain.intent.policies import BidirectionalPolicy, GatewayPolicies
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import ChangeSetReply
from stoker.domain.protocol.change_set_codec import chunk_key
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.forges import Forge
from stoker.git.auth.credentials import RepoAccess
from stoker.git.process.runner import GitRunner
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.forges.in_memory_forge import InMemoryForge
from stoker_testkit.repositories.bare_repository import Repository

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
GATEWAY = "press"
BRANCH = f"gateway-changes/plant/{GATEWAY}"
FOLDER = "site"
"""Of the repository; it is the gateway's whole data folder."""
TASKS = "accept "


class ProcessEnded(BaseException):
    """Takes the place of the kernel's OOM killer: nothing of the process runs after it."""


@dataclass
class InProcessController:
    """One resource with one gateway."""

    repository: Repository
    clock: Clock
    policy: BidirectionalPolicy
    folder: Path
    forge: InMemoryForge = field(init=False)
    acceptor: BidirectionalWorker = field(init=False)
    maps: dict[str, dict[str, bytes]] = field(default_factory=dict)
    attempts: dict[str, str] = field(default_factory=dict)
    """By map: the annotation that says which change set is being decoded."""
    process_ends_when_marked: bool = False
    processes: int = 0
    published: dict[str, ChangeSetReply] = field(default_factory=dict)
    commit: CommitId | None = None
    """The commit in the metadata for agents."""
    standings: dict[str, GatewayChangesState] = field(default_factory=dict)
    behind: frozenset[str] = frozenset()
    """Gateways that wait for a gate."""
    opened: int = 0
    forge_error: Stalled | None = None

    def __post_init__(self) -> None:
        self.forge = InMemoryForge(self.repository)
        self._git = GitRunner(self.folder / "git")
        self.acceptor = self._made()

    @property
    def source(self) -> SourceIntent:
        return SourceIntent(RepoUrl(f"file://{self.repository.path}"), GitRef("main"))

    @property
    def files(self) -> FilesIntent:
        return FilesIntent((FileMapping(FOLDER, ""),), excludes=ExcludePolicy(("projects/secret/**",)))

    @property
    def values(self) -> TemplateValues:
        return TemplateValues(gateway_name=GATEWAY, namespace="plant")

    async def restart(self, *, forgetful: bool = False) -> None:
        """Another leader, who knows what was published and, unless the status is lost, what stood there."""
        await self.acceptor.close()
        self.acceptor = self._made()
        if forgetful:
            self.standings = {}

    async def read(self, key: ResourceKey, parcel: ReceivedChangeSet) -> RawChangeSet | None:
        """As `stoker.controller.bidirectional.inbox.InboxReader`."""
        try:
            parts = tuple(self.maps[name][place] for name, place in parcel.chunks)
        except KeyError:
            return None
        return RawChangeSet(parts, self.attempts.get(parcel.chunks[0][0], ""))

    async def mark(self, key: ResourceKey, parcel: ReceivedChangeSet, attempt: str) -> None:
        """As `stoker.controller.bidirectional.inbox.InboxReader`."""
        self.attempts[parcel.chunks[0][0]] = attempt
        if self.process_ends_when_marked and attempt:
            self.process_ends_when_marked = False
            raise ProcessEnded

    def put(self, set_id: str, chunks: tuple[bytes, ...] | list[bytes]) -> None:
        """As an agent does."""
        for number, chunk in enumerate(chunks):
            self.maps.setdefault(f"map-{number}", {})[chunk_key(GATEWAY, set_id, number)] = chunk

    def look(self) -> BidirectionalResult:
        """The first half of a pass."""
        return self.acceptor.look(KEY, self.ask(), BidirectionalResult(self.published, self.standings))

    def publish(self) -> None:
        """Its second half: the commit and the replies are published to agents together."""
        self.commit = self.repository.tip()
        result = self.look()
        self.published, self.standings = dict(result.answers), dict(result.standings)

    def empty(self) -> None:
        """And its last step."""
        for parcel in self.acceptor.settled(KEY, self.published):
            for name, place in parcel.chunks:
                self.maps[name].pop(place, None)

    async def rounds(self, count: int = 3) -> None:
        """Passes that follow one another, each when the work is done that the one before began."""
        for _ in range(count):
            self.look()
            await working()
            self.publish()
            self.empty()

    def intent(self) -> GatewayIntent:
        return GatewayIntent(
            ResourceIdentity(SyncResourceKind.STOKER, "plant", "line"),
            GATEWAY,
            self.source,
            self.files,
            self.values,
            GatewayPolicies(bidirectional=self.policy),
        )

    def ask(self) -> BidirectionalRequest:
        return BidirectionalRequest(
            self.policy,
            self.source,
            self.commit or self.repository.tip(),
            60.0,
            senders={GATEWAY: ChangeSetSender(GATEWAY, GATEWAY, GATEWAY, self.intent)},
            parcels=change_sets_in(self.maps),
            behind=self.behind,
        )

    def _made(self) -> BidirectionalWorker:
        self.processes += 1
        carrier = ChangeSetProcessor(
            self._git,
            self.folder / "cache",
            _anybody,
            self._forge,
            self,
            self.clock,
            opened=self._count,
            process=f"process-{self.processes}",
        )
        ignored: Callable[[ResourceKey], None] = lambda key: None  # noqa: E731 - passes are played by hand
        return BidirectionalWorker(carrier, self.clock, found=ignored, random=lambda: 0.0)

    def _count(self, key: ResourceKey) -> None:
        self.opened += 1

    async def _forge(self, namespace: str, source: SourceIntent, policy: BidirectionalPolicy) -> Forge:
        if self.forge_error is not None:
            raise self.forge_error
        return self.forge


async def working() -> None:
    """Until whatever was begun has ended."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith(TASKS)]
    await asyncio.gather(*tasks, return_exceptions=True)


async def _anybody(namespace: str, source: SourceIntent) -> RepoAccess:
    return RepoAccess()
