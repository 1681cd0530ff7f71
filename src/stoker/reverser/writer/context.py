"""The dependencies that all branch writers of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker.git.commit.types import CommitSigner
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import KubeClient
from stoker.kube.runtime.backoff import Backoff
from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.destinations import RepoConfigRef
from stoker.reverser.metrics import ReverserMetrics
from stoker.reverser.watch.watch_set import WatchSet
from stoker.reverser.writer.batch import QueueCapacity
from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.deletion_brake import DeletionRecords

REFRESH = 300.0
BACKOFF = Backoff(base=0.5, ceiling=30.0)
SLOW_BACKOFF = Backoff(base=5.0, ceiling=30.0)
"""For errors that a person must fix: a faster retry would not help."""

AuthorLookupAt = Callable[[ObservedEvent, float], RequestUser | None]
SignerLookup = Callable[[RepoConfigRef], CommitSigner | None]


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Passed to every branch writer."""

    client: KubeClient
    git: GitRunner
    folder: Path
    """The folder of the git mirrors."""
    home: str
    """The reverser's own namespace."""
    origin: CommitOrigin
    author_of: AuthorLookupAt
    signer_of: SignerLookup
    watches: WatchSet
    meter: ReverserMetrics
    stirred: Callable[[], None]
    """Called when a status may have changed."""
    refresh: float = REFRESH
    """Seconds between two fetches of a branch while there is nothing to write."""
    require_known_hosts: bool = False
    author_patience: float = 0.0
    """Seconds that a change without an author waits for the fact of another replica."""
    capacity: QueueCapacity | None = None
    deletions: DeletionRecords = field(default_factory=DeletionRecords)
    """The recent deletions of each folder; they outlive the folder's outbox."""
