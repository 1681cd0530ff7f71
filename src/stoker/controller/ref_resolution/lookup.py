"""Looks up the ref of one source and returns the commit or the error.

`stoker.controller.ref_resolution.resolver` decides when to look up. Each lookup reads the login from the
current Secrets. If another lookup already lists the ref, git is not started
(`stoker.controller.ref_resolution.shared_lookup`). A lookup holds a place at the host while it talks to the
host, and never while it waits for another lookup.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from stoker.controller.priority_semaphore import HostLimiter
from stoker.controller.ref_resolution.shared_lookup import (
    SharedLookupRequest,
    SharedLookupResult,
    SharedLookups,
    answer_within,
    ref_lister,
    source_host,
)
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.intent.source import GitAuthKind, SourceIntent
from stoker.domain.refs import CommitId
from stoker.domain.secrets import Secret
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.git.auth.credentials import (
    GitPassword,
    RepoAccess,
    RepoAccessReader,
    credentials_of,
)
from stoker.git.errors import SourceAuthFailed
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import (
    check_is_commit,
    listed_names,
    needs_commit_check,
    pick_ref,
    resolve_ref,
)
from stoker.kube.runtime.result import as_stoker_error

MAX_CONCURRENT_LOOKUPS = 16
PER_HOST = 4

SourceAccessReader = Callable[[str, SourceIntent], Awaitable[RepoAccess]]
"""Returns the access to a source for a namespace, from its current Secrets."""


@dataclass(frozen=True, slots=True)
class RefLookupResult:
    """The commit of the ref, or the error."""

    commit: CommitId | None = None
    error: StokerError | None = None
    token: Secret | None = None
    """The token of a GitHub App, which its gateways use too."""
    asked_for: bool = False
    """A request caused the lookup, not polling or a changed spec."""

    def says_the_same(self, other: RefLookupResult | None) -> bool:
        return other is not None and _answer_identity(self) == _answer_identity(other)


class TimedRefLookupResult(NamedTuple):
    """A result, the seconds that the source took, and the clock's `monotonic` time of the answer."""

    answer: RefLookupResult
    seconds: float
    at: float


class RefLookupRequest(NamedTuple):
    """The parameters of a lookup."""

    namespace: str
    source: SourceIntent
    since: float
    """A result found before this moment is not an answer."""
    hurried: bool
    again_in: float
    keeps: CommitId | None = None
    """The commit to return without a lookup: only the login is renewed."""


@dataclass(slots=True)
class _LookupProgress:
    """The state of one lookup."""

    began: float
    ended: float | None = None
    token: Secret | None = None


class RefLookup:
    """Looks up refs in repositories, registries and buckets."""

    def __init__(self, git: GitRunner, access: SourceAccessReader, clock: Clock, timeout: float) -> None:
        self._git = git
        self._access = access
        self._clock = clock
        self._timeout = timeout
        self._hosts = HostLimiter(MAX_CONCURRENT_LOOKUPS, PER_HOST)
        self._looks = SharedLookups(ref_lister(git, clock, timeout), self._hosts, clock)

    async def ask(self, asking: RefLookupRequest) -> TimedRefLookupResult:
        """Return the result; errors are part of it and are never raised."""
        course = _LookupProgress(self._clock.monotonic())
        commit: CommitId | None = None
        trouble: StokerError | None = None
        try:
            commit = await self._commit(asking, course)
        except Exception as error:
            trouble = as_stoker_error(error)
        ended = course.ended if course.ended is not None else self._clock.monotonic()
        return TimedRefLookupResult(
            RefLookupResult(commit, trouble, course.token), ended - course.began, ended
        )

    async def _commit(self, asking: RefLookupRequest, course: _LookupProgress) -> CommitId:
        source = asking.source
        login = self._login(asking, course)
        if asking.keeps is not None:
            async with self._place(asking):
                await login()
            return asking.keeps
        if source.url.is_artifact:
            async with self._place(asking):
                course.began = self._clock.monotonic()
                return await _resolve_artifact(source, login)
        remote, names = Remote(self._git, source.url, login), listed_names(source.ref)
        if not names:
            async with self._place(asking):
                course.began = self._clock.monotonic()
                if source.auth.kind is GitAuthKind.GITHUB_APP:
                    await login()  # a commit id needs no lookup, but the gateways need the token
                return await resolve_ref(remote, source.ref)
        found = await self._found(
            asking, login, SharedLookupRequest(names, asking.since, asking.hurried, asking.again_in)
        )
        course.began, course.ended = found.begun, found.ended
        if found.error is not None:
            raise found.error.with_traceback(None)  # other callers raise the same error
        name, target = pick_ref(found.refs, source.ref, source.url)
        if needs_commit_check(name):
            async with self._place(asking):
                await check_is_commit(remote, source.ref, name, target)
        return target

    async def _found(
        self, asking: RefLookupRequest, login: RepoAccessReader, wanted: SharedLookupRequest
    ) -> SharedLookupResult:
        """Look up, and after a refused login try once more with a newly read login, as `Remote.git` does."""
        url = asking.source.url
        async with self._place(asking):
            access = await login()
        found = await self._looks.ask(url, access, wanted)
        if not isinstance(found.error, SourceAuthFailed):
            return found
        if access.refused is not None:
            access.refused()
        async with self._place(asking):
            renewed = await login()
        return found if renewed == access else await self._looks.ask(url, renewed, wanted)

    def _login(self, asking: RefLookupRequest, course: _LookupProgress) -> RepoAccessReader:
        async def read() -> RepoAccess:
            given = await self._access(asking.namespace, asking.source)
            if asking.source.auth.kind is GitAuthKind.GITHUB_APP and isinstance(given.login, GitPassword):
                course.token = given.login.password
            return given

        return read

    @asynccontextmanager
    async def _place(self, asking: RefLookupRequest) -> AsyncIterator[None]:
        """Hold a place at the host. The timeout begins when the place is taken, not while queueing."""
        url = asking.source.url
        turn = self._hosts.turn(source_host(url), hurried=asking.hurried)
        async with turn, answer_within(self._clock, self._timeout, url):
            yield


async def _resolve_artifact(source: SourceIntent, access: RepoAccessReader) -> CommitId:
    """Resolve a tag or prefix of a registry or a bucket without pulling content."""
    from stoker.artifacts.origin import open_origin  # noqa: PLC0415 - most follow repositories

    async def credentials() -> ArtifactCredentials:
        return credentials_of(await access())

    return await open_origin(source.url, credentials).resolve(source.ref)


def _answer_identity(answer: RefLookupResult) -> tuple[object, ...]:
    error = answer.error
    return answer.commit, answer.token, None if error is None else (error.reason, error.message)
