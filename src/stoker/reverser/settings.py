"""What a command line says about a reverser, and what other rooms hand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stoker.domain.clock import Clock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.client.token_bucket import RequestRate
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.process import ProcessPart
from stoker.reverser.authors.attribution import AuthorAttribution, ObservedEvent
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.selection.preset import EXCLUDED, MAX_KINDS, GroupResource
from stoker.reverser.selection.selection import Selection
from stoker.reverser.watch.discovery import REFRESH
from stoker.reverser.writer.batch import BatchLimits, QueueCapacity
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.metrics import Metrics

NAME = "gitops-reverser"
_CAPACITY = QueueCapacity()


@dataclass(frozen=True, slots=True)
class ReverserOptions:
    """What a command line can say about a reverser."""

    config: ClusterConfig
    namespace: str
    """The reverser's own: its Leases, and the keys for digests."""
    work_dir: Path
    namespaces: tuple[str, ...] = ()
    """Whose destinations and rules are served; none named means all."""
    identity: str = ""
    excluded: frozenset[GroupResource] = EXCLUDED
    watch_all: bool = False
    max_kinds: int = MAX_KINDS
    max_concurrent_watches: int = 50
    rate: RequestRate = field(default_factory=lambda: RequestRate(5, 10))
    discovery_refresh: float = REFRESH
    max_workers: int = 24
    max_workers_per_repo: int = 5
    lease_seconds: int = 24
    renew_seconds: float = 8.0
    health_address: str = ":8081"
    metrics_address: str = ":8080"
    metrics_prefix: str = ""
    include_secrets: bool = False
    ingest: bool = True
    """`--enable-watch-ingestion`."""
    require_known_hosts: bool = False
    branch_refresh: float = 300.0
    capacity: QueueCapacity = _CAPACITY
    """What may wait for one destination before who brings changes has to wait, too."""
    limits: BatchLimits = field(default_factory=BatchLimits)
    """When changes become a commit, for destinations that do not say so."""


class AuthorSource(Protocol):
    """Who knows whose a change is."""

    def author_of(self, seen: ObservedEvent, now: float) -> RequestUser | None: ...


@dataclass(frozen=True, slots=True)
class ReverserRuntime:
    """What others may build their parts around."""

    client: KubeClient
    clock: Clock
    metrics: Metrics
    health: ProcessHealth
    identity: str
    namespace: str


@dataclass(frozen=True, slots=True)
class ReverserExtensions:
    """What other rooms and other ways to know an author hand in."""

    authors: AuthorSource = field(default_factory=AuthorAttribution)
    parts: Callable[[ReverserRuntime], Sequence[ProcessPart]] = lambda started: ()
    """Further parts of the process, such as the server that admission asks."""
    selected: Callable[[Selection, KindCatalog], None] = lambda selection, catalog: None
    """Told of every new selection; its `kinds` are what admission is to be asked about."""
    author_patience: float = 0.0
    """How long a change may wait for the fact that tells its author, where facts come from elsewhere."""
