"""Check GitRepoConfigs before anything is written: repository, push access and signing key.

A repository that no destination uses yet is checked too, so that its user sees at once whether the
GitRepoConfig is right. Signing keys are checked for all GitRepoConfigs, because people need the public key
before the first commit. Each GitRepoConfig has its own task: a server that does not answer delays no other
check.

This module never writes. A working repository is checked again as often as a branch is fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from stoker.api.kinds.destinations import GitRepoConfig
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.refs import GitRef, RepoUrl
from stoker.git.commit.push_check import check_push_access
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.kube.client.client import KubeClient
from stoker.kube.runtime.result import as_stoker_error
from stoker.reverser.destinations import RepoConfigRef
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.writer.context import SLOW_BACKOFF
from stoker.reverser.writer.credentials import access_reader
from stoker.reverser.writer.signing_keys import SigningKeys
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

MAX_CONCURRENT_CHECKS = 4


class RepoCheckSubject(NamedTuple):
    """The inputs of a check; if one of them changes, the check runs again."""

    ref: RepoConfigRef
    url: RepoUrl
    branches: tuple[str, ...]
    login: SecretRef | None
    signing: SecretRef | None
    is_idle: bool
    """Whether no destination uses it: no branch writer would then notice that it does not work."""


class RepoCheckResult(NamedTuple):
    """The result of the last check."""

    error: StokerError | None = None


class RepoChecks:
    """Runs one repeated check per GitRepoConfig."""

    def __init__(
        self,
        client: KubeClient,
        git: GitRunner,
        keys: SigningKeys,
        clock: Clock,
        *,
        refresh: float,
        require_known_hosts: bool,
        stirred: Callable[[], None],
    ) -> None:
        self._client = client
        self._git = git
        self._keys = keys
        self._clock = clock
        self._refresh = refresh
        self._require_known_hosts = require_known_hosts
        self._stirred = stirred
        self._at_once = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)
        self._running: dict[RepoCheckSubject, asyncio.Task[None]] = {}
        self._outcomes: dict[RepoConfigRef, RepoCheckResult] = {}

    def follow(
        self, configs: Sequence[GitRepoConfig], used: Collection[RepoConfigRef], *, speaks: bool
    ) -> None:
        """Set the GitRepoConfigs to check; only the replica that `speaks` checks unused repositories."""
        wanted = {
            subject
            for one in configs
            if (subject := _repo_check_subject(one, used, speaks=speaks)).is_idle
            or subject.signing is not None
        }
        for subject in self._running.keys() - wanted:
            self._running.pop(subject).cancel()
            self._outcomes.pop(subject.ref, None)
        for subject in wanted - self._running.keys():
            task = asyncio.get_running_loop().create_task(self._try_for_ever(subject), name=str(subject.ref))
            self._running[subject] = task

    def outcome(self, ref: RepoConfigRef) -> RepoCheckResult | None:
        """Return the result of the last check; None before the first."""
        return self._outcomes.get(ref)

    async def stop(self) -> None:
        tasks = [*self._running.values()]
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _try_for_ever(self, subject: RepoCheckSubject) -> None:
        failures = 0
        while True:
            async with self._at_once:
                error = await self._try(subject)
            failures = 0 if error is None else failures + 1
            before = self._outcomes.get(subject.ref)
            self._outcomes[subject.ref] = RepoCheckResult(error)
            if error is not None and (before is None or str(before.error) != str(error)):
                log.warning(
                    "repository.failed", config=str(subject.ref), reason=error.reason, error=error.message
                )
            self._stirred()
            await self._clock.sleep(self._refresh if error is None else SLOW_BACKOFF.delay(failures))

    async def _try(self, subject: RepoCheckSubject) -> StokerError | None:
        try:
            for branch in subject.branches:
                GitRef(f"refs/heads/{branch}")
            if subject.signing is not None:
                await self._keys.look(subject.ref)
            if subject.is_idle:
                access = access_reader(
                    self._client, subject.login, require_known_hosts=self._require_known_hosts
                )
                await check_push_access(Remote(self._git, subject.url, access))
        except Exception as error:
            if not isinstance(error, StokerError):
                log.exception("trial.crashed", config=str(subject.ref))
            return as_stoker_error(error)
        return None


def _repo_check_subject(
    one: GitRepoConfig, used: Collection[RepoConfigRef], *, speaks: bool
) -> RepoCheckSubject:
    ref = RepoConfigRef(one.metadata.namespace, one.metadata.name)
    login, signing = one.spec.secret_ref, one.spec.signing
    return RepoCheckSubject(
        ref,
        RepoUrl(one.spec.repo_url),
        one.spec.allowed_branches,
        SecretRef(ref.namespace, login.name) if login else None,
        SecretRef(ref.namespace, signing.secret_ref.name) if signing else None,
        speaks and ref not in used and not one.spec.suspend,
    )
