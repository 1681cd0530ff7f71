"""A keeper whose source is a git repository, put together from a job and what opens the repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stoker.agent.hooks import Noise, PassHook
from stoker.agent.jobs import SyncJob
from stoker.agent.keeping import Keeper
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import AuthKind
from stoker.engine.sources import SourceReader
from stoker.fs.applying import Progress
from stoker.git.access import Access, AccessReader, always
from stoker.git.remote import Remote
from stoker.git.runner import GitRunner
from stoker.git.shared_source import SharedSource
from stoker.git.source import GitSource
from stoker.git.trusting import KeysReader, Rules


def open_keeper(
    job: SyncJob,
    *,
    access: AccessReader | None = None,
    keys: KeysReader | None = None,
    hooks: Sequence[PassHook] = (),
    noise: Noise | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
    shared: Path | None = None,
) -> Keeper:
    """Raises at once if the job cannot be done; `shared` is a mirror that somebody else keeps."""
    clock = clock if clock is not None else SystemClock()
    if access is None:
        if job.source.auth.kind is not AuthKind.NONE:
            raise Misconfigured(
                f"the source asks for {job.source.auth.kind} authentication and no credentials were given"
            )
        access = always(Access())
    runner = GitRunner(job.cache_dir)
    rules = (Rules(job.source.signatures.mode, keys, job.source.allow_rewrite).check,)
    reader: SourceReader
    if shared is not None:
        reader = SharedSource(runner, shared, clock, rules)
    else:
        reader = GitSource(Remote(runner, job.source.url, access), job.cache_dir, clock, rules=rules)
    return Keeper(job, reader, hooks=hooks, noise=noise, clock=clock, progress=progress)
