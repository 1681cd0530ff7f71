"""What a command line says about a reverser, and what other rooms hand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stoker.domain.clock import Clock
from stoker.kube.client.client import Client
from stoker.kube.client.served_kinds import Catalog
from stoker.kube.client.token_bucket import Rate
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.process import Part
from stoker.reverser.authors.attribution import Authors, Observed
from stoker.reverser.authors.facts import User
from stoker.reverser.selection.preset import EXCLUDED, MAX_KINDS, GroupResource
from stoker.reverser.selection.selection import Selection
from stoker.reverser.watch.discovery import REFRESH
from stoker.reverser.writer.batch import Capacity, Limits
from stoker.telemetry.health import Health
from stoker.telemetry.metrics import Metrics

NAME = "gitops-reverser"
_CAPACITY = Capacity()


@dataclass(frozen=True, slots=True)
class Settings:
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
    rate: Rate = field(default_factory=lambda: Rate(5, 10))
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
    capacity: Capacity = _CAPACITY
    """What may wait for one destination before who brings changes has to wait, too."""
    limits: Limits = field(default_factory=Limits)
    """When changes become a commit, for destinations that do not say so."""


class AuthorFacts(Protocol):
    """Who knows whose a change is."""

    def author_of(self, seen: Observed, now: float) -> User | None: ...


@dataclass(frozen=True, slots=True)
class Started:
    """What others may build their parts around."""

    client: Client
    clock: Clock
    metrics: Metrics
    health: Health
    identity: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Seams:
    """What other rooms and other ways to know an author hand in."""

    authors: AuthorFacts = field(default_factory=Authors)
    parts: Callable[[Started], Sequence[Part]] = lambda started: ()
    """Further parts of the process, such as the server that admission asks."""
    selected: Callable[[Selection, Catalog], None] = lambda selection, catalog: None
    """Told of every new selection; its `kinds` are what admission is to be asked about."""
    author_patience: float = 0.0
    """How long a change may wait for the fact that tells its author, where facts come from elsewhere."""
