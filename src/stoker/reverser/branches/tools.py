"""What all writers of a process share: the way to git and to the cluster, and whom to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.git.running.runner import GitRunner
from stoker.git.writing.values import Signer
from stoker.kube.backoff import Backoff
from stoker.kube.client import Client
from stoker.reverser.authors.authoring import Observed
from stoker.reverser.authors.facts import User
from stoker.reverser.branches.batching import Capacity
from stoker.reverser.branches.messages import Origin
from stoker.reverser.branches.sweeping import DELETE_CAP
from stoker.reverser.destinations import ConfigRef
from stoker.reverser.metering import Meter
from stoker.reverser.watched.watches import Watches

REFRESH = 300.0
BACKOFF = Backoff(base=0.5, ceiling=30.0)
SLOW_BACKOFF = Backoff(base=5.0, ceiling=30.0)
"""For what a person must mend: they will not be quicker than that."""

AuthorOf = Callable[[Observed, float], User | None]
SignerOf = Callable[[ConfigRef], Signer | None]


@dataclass(frozen=True, slots=True)
class Tools:
    """Handed to every writer."""

    client: Client
    git: GitRunner
    folder: Path
    """Where the mirrors lie."""
    home: str
    """The reverser's own namespace."""
    origin: Origin
    author_of: AuthorOf
    signer_of: SignerOf
    watches: Watches
    meter: Meter
    stirred: Callable[[], None]
    """Told that there is something new to be said in a status."""
    delete_cap: int = DELETE_CAP
    refresh: float = REFRESH
    """How often the branch is looked at although nobody wrote."""
    require_known_hosts: bool = False
    author_patience: float = 0.0
    """How long a change without an author waits for the fact of another replica."""
    capacity: Capacity | None = None
