"""What all writers of a process share: the way to git and to the cluster, and whom to tell."""

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
"""For what a person must mend: they will not be quicker than that."""

AuthorLookupAt = Callable[[ObservedEvent, float], RequestUser | None]
SignerLookup = Callable[[RepoConfigRef], CommitSigner | None]


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Handed to every writer."""

    client: KubeClient
    git: GitRunner
    folder: Path
    """Where the mirrors lie."""
    home: str
    """The reverser's own namespace."""
    origin: CommitOrigin
    author_of: AuthorLookupAt
    signer_of: SignerLookup
    watches: WatchSet
    meter: ReverserMetrics
    stirred: Callable[[], None]
    """Told that there is something new to be said in a status."""
    refresh: float = REFRESH
    """How often the branch is looked at although nobody wrote."""
    require_known_hosts: bool = False
    author_patience: float = 0.0
    """How long a change without an author waits for the fact of another replica."""
    capacity: QueueCapacity | None = None
    deletions: DeletionRecords = field(default_factory=DeletionRecords)
    """What was deleted in each folder a moment ago, however often its outbox begins anew."""
