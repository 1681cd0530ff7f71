"""Builds a `FolderSync` for a git repository, an OCI registry or an S3 bucket from a job and credentials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.hooks import SyncHook
from stoker.agent.sync.jobs import SyncJob
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import GitAuthKind
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.engine.source_protocol import SourceReader
from stoker.fs.apply_plan import StagingProgress
from stoker.git.auth.credentials import RepoAccess, RepoAccessReader, credentials_of, fixed_access
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.signature.policy import CommitRules, TrustedKeysReader
from stoker.git.source.git import GitSource
from stoker.git.source.shared import SharedVolumeSource

if TYPE_CHECKING:
    from stoker.agent.rollback.rollback import FolderRollback
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.gateway_hook import GatewayHook


def open_keeper(
    job: SyncJob,
    *,
    access: RepoAccessReader | None = None,
    keys: TrustedKeysReader | None = None,
    hooks: Sequence[SyncHook] = (),
    gateway: GatewayHook | None = None,
    rollback: FolderRollback | None = None,
    noise: ResourceNoise | None = None,
    clock: Clock | None = None,
    progress: StagingProgress | None = None,
    shared: Path | None = None,
) -> FolderSync:
    """Return the `FolderSync`; raise at once if the job is invalid.

    `shared` is a mirror that the fetcher maintains.
    """
    clock = clock if clock is not None else SystemClock()
    if access is None:
        if job.source.auth.kind is not GitAuthKind.NONE:
            raise Misconfigured(
                f"the source needs {job.source.auth.kind} authentication, but no credentials were given"
            )
        access = fixed_access(RepoAccess())
    runner = GitRunner(job.cache_dir)
    rules = CommitRules(job.source.signatures.mode, keys, job.source.allow_rewrite)
    remote = Remote(runner, job.source.url, access)
    reader: SourceReader
    if job.source.url.is_artifact:
        reader = _open_artifact_source(remote, access, job.cache_dir, clock, rules)
    elif shared is not None:
        reader = SharedVolumeSource(runner, shared, clock, (rules.check,))
    else:
        reader = GitSource(remote, job.cache_dir, clock, rules=(rules.check,))
    return FolderSync(
        job,
        reader,
        hooks=hooks,
        gateway=gateway,
        rollback=rollback,
        noise=noise,
        clock=clock,
        progress=progress,
    )


def _open_artifact_source(
    remote: Remote, access: RepoAccessReader, cache: Path, clock: Clock, rules: CommitRules
) -> SourceReader:
    """Open a registry or a bucket.

    The imports are local, so that an agent of a git repository does not load this code.
    """
    from stoker.artifacts.origin import open_origin  # noqa: PLC0415
    from stoker.git.source.artifact import ArtifactSource  # noqa: PLC0415

    async def credentials() -> ArtifactCredentials:
        return credentials_of(await access())

    origin = open_origin(remote.url, credentials)
    return ArtifactSource(origin, remote, cache, clock, rules=rules)
