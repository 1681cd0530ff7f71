"""The options of the reverser process, and the extensions that other packages pass in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.client.token_bucket import RequestRate
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.process import ProcessPart
from stoker.reverser.authors.attribution import AuthorAttribution
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
    """The values that the command line sets."""

    config: ClusterConfig
    namespace: str
    """The reverser's own namespace: it holds the Leases and the keys for digests."""
    work_dir: Path
    namespaces: tuple[str, ...] = ()
    """The namespaces whose destinations and rules are served; empty means all."""
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
    """Whether objects are watched and written at all: `--enable-watch-ingestion`."""
    require_known_hosts: bool = False
    branch_refresh: float = 300.0
    capacity: QueueCapacity = _CAPACITY
    """How many changes may wait for one destination before the watches stop reading."""
    limits: BatchLimits = field(default_factory=BatchLimits)
    """When changes become a commit, for destinations that set no `spec.batch`."""


@dataclass(frozen=True, slots=True)
class ReverserRuntime:
    """The running process, for building the parts that extensions add."""

    client: KubeClient
    clock: Clock
    metrics: Metrics
    health: ProcessHealth
    identity: str
    namespace: str


@dataclass(frozen=True, slots=True)
class ReverserExtensions:
    """Extension points: the known author facts, further process parts, a listener for selections."""

    authors: AuthorAttribution = field(default_factory=AuthorAttribution)
    parts: Callable[[ReverserRuntime], Sequence[ProcessPart]] = lambda started: ()
    """Further parts of the process, for example the admission webhook server."""
    selected: Callable[[Selection, KindCatalog], None] = lambda selection, catalog: None
    """Called with every new selection; its `kinds` are the kinds that the admission webhook registers for."""
    author_patience: float = 0.0
    """Seconds that a change may wait for its author fact when another replica receives the facts."""
