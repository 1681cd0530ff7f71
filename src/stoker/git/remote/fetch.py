"""Fetches commits and blobs from a remote into a mirror: shallow first, then incremental.

`stoker.git.mirror.mirror` calls it. The first fetch of a ref is a shallow partial clone: one commit
without history, and without the blobs that `FetchLimits.left_out` filters (1 GiB and larger). Later
fetches negotiate from the commit that the mirror has, so their cost does not depend on the size of
the tree. If such a fetch exceeds its limit (a rewritten branch brings its whole history), the fetcher
takes one shallow commit again. Filtered blobs come later, all in one request.

For a ref that is known to be a branch, `follow` resolves and fetches over one connection. A second
connection would cost a second handshake, which is slow over ssh.

git fetches a missing object of a promisor remote by itself, with one request for each object. Only the
commands in this module name a promisor remote, in their arguments and never in the mirror's config, so
a git process that only reads can never fetch.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import BlobId
from stoker.domain.refs import CommitId, GitRef, without_userinfo
from stoker.git.errors import FilterRefused, GitFailed, RefNotFound, SourceTooLarge, SourceUnreachable
from stoker.git.mirror.bare_repository import QUIET_FETCH
from stoker.git.mirror.layout import ALL_REFS, STALE_REFS, TIPS, remove_temporary_packs
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.private_files import remove_tree
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import full_names

MAX_TIPS = 8
_SHALLOW = ("--depth=1",)
_NO_NEGOTIATION = ("-c", "fetch.negotiationAlgorithm=noop")


class FetchLimits(NamedTuple):
    """Limits on what a fetch accepts from a source."""

    fetch: int = 4 << 30
    """Maximum bytes of one fetch."""
    news: int = 64 << 20
    """Maximum bytes of an incremental fetch; above it the fetcher takes one shallow commit instead."""
    mirror: int = 8 << 30
    """Maximum bytes of a mirror; above it the mirror is rebuilt."""
    seconds: float = 1800.0
    """Timeout of one fetch: long, for a large repository over a slow line. A stalled one ends much sooner."""
    left_out: str = "blob:limit=1g"
    """Filter, in git's syntax, for the blobs that are fetched only when a reader needs them."""
    packs: int = 100
    """Maximum packs of a mirror, above which it is rebuilt.

    Every fetch adds a pack. A rebuild costs less than a repack, and bounds the disk.
    """


class RemoteFetcher:
    """Fetches objects of one remote into one repository on disk."""

    def __init__(self, remote: Remote, repository: Path, objects: MirrorObjects, limits: FetchLimits) -> None:
        self._remote = remote
        self._repository = repository
        self._objects = objects
        self._limits = limits

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Fetch `commit`: by its id, else by its ref, else by fetching all branches and tags."""
        self._forget_old_tips()
        tip = tip_path(ref)
        if (self._repository / tip).exists() and await self._news(commit, ref, tip):
            return
        if not await self._taken(_SHALLOW, commit, ref, tip, self._limits.fetch):
            await self._look_everywhere(commit, tip)
        (self._repository / STALE_REFS / tip.name).unlink(missing_ok=True)

    async def follow(self, ref: GitRef, branch: str) -> CommitId | None:
        """Fetch a branch and return its commit; None if the branch is gone or the fetch is too large.

        `branch` is the full name, because git resolves a short name to `refs/…` or a tag first.
        """
        tip = tip_path(ref)
        if not (self._repository / tip).exists():
            return None
        self._forget_old_tips()
        try:
            await self._partial(QUIET_FETCH, [f"+{branch}:{tip}"], min(self._limits.news, self._limits.fetch))
        except (RefNotFound, SourceTooLarge):
            return None
        return CommitId((self._repository / tip).read_text().strip())

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Fetch those of the blobs that are missing, in one request."""
        missing = await self._objects.missing(blobs)
        if not missing:
            return
        try:
            await self._git(
                [*_NO_NEGOTIATION, *QUIET_FETCH, "--no-filter", "--stdin"],
                stdin="".join(f"{blob}\n" for blob in missing),
                max_bytes=self._limits.fetch,
            )
        except RefNotFound as error:
            raise GitFailed(
                f"blob {missing[0]} and {len(missing) - 1} more are not in the mirror, and {error.message}"
            ) from error

    async def _news(self, commit: CommitId, ref: GitRef, tip: Path) -> bool:
        """Fetch incrementally from the tip; return False if a shallow fetch is needed instead."""
        try:
            return await self._taken((), commit, ref, tip, min(self._limits.news, self._limits.fetch))
        except SourceTooLarge:
            return False
        except SourceUnreachable:
            # The incremental fetch itself may be too slow, so the next attempt, without the tip, is shallow.
            with contextlib.suppress(OSError):
                (self._repository / tip).rename(self._repository / STALE_REFS / tip.name)
            raise

    async def _taken(
        self, options: Sequence[str], commit: CommitId, ref: GitRef, tip: Path, max_bytes: int
    ) -> bool:
        for name in _fetch_candidates(commit, ref):
            try:
                await self._partial([*QUIET_FETCH, *options], [f"+{name}:{tip}"], max_bytes)
            except RefNotFound:
                continue
            if await self._objects.has(commit):
                return True
            if name == commit:
                raise RefNotFound(
                    f"{commit} is no commit with a tree in repository "
                    f"{without_userinfo(self._remote.url)} (ref {str(ref)!r})"
                )
        return False

    async def _look_everywhere(self, commit: CommitId, tip: Path) -> None:
        deepen = ["--unshallow"] if (self._repository / "shallow").exists() else []
        refspecs = [f"+refs/{kind}/*:{ALL_REFS}/{kind}/*" for kind in ("heads", "tags")]
        try:
            await self._partial([*QUIET_FETCH, *deepen], refspecs, self._limits.fetch)
        finally:
            remove_tree(self._repository / ALL_REFS)
        if not await self._objects.has(commit):
            raise RefNotFound(f"commit {commit} is not in repository {without_userinfo(self._remote.url)}")
        (self._repository / tip).write_text(f"{commit}\n")

    async def _partial(self, command: Sequence[str], refspecs: Sequence[str], max_bytes: int) -> None:
        """Fetch without the largest blobs, or with them if the server does not support filters."""
        try:
            await self._git([*command, f"--filter={self._limits.left_out}"], refspecs, max_bytes=max_bytes)
        except FilterRefused:
            await self._git([*command, "--no-filter"], refspecs, max_bytes=max_bytes)

    async def _git(
        self, command: Sequence[str], refspecs: Sequence[str] = (), *, stdin: str = "", max_bytes: int
    ) -> None:
        source = {
            "remote.origin.url": self._remote.url,
            "remote.origin.promisor": "true",
            "remote.origin.partialclonefilter": self._limits.left_out,
            "pack.threads": "1",  # each thread takes memory of its own
        }
        reach_failpoint("fetch.before")
        try:
            await self._remote.git(
                [*(word for key, value in source.items() for word in ("-c", f"{key}={value}")), *command],
                ["origin", *refspecs],
                repository=self._repository,
                stdin=stdin.encode(),
                max_bytes=max_bytes,
                timeout=self._limits.seconds,
            )
            reach_failpoint("fetch.after")
        finally:
            remove_temporary_packs(self._repository)

    def _forget_old_tips(self) -> None:
        """Remove all but the latest tips, because git sends a line for each in every negotiation."""
        tips = [*(self._repository / TIPS).iterdir(), *(self._repository / STALE_REFS).iterdir()]
        for tip in sorted(tips, key=lambda path: path.stat().st_mtime, reverse=True)[MAX_TIPS:]:
            tip.unlink()


def tip_path(ref: GitRef) -> Path:
    """The file, relative to the mirror, that holds the last fetched commit of a ref."""
    return TIPS / hashlib.sha256(ref.encode()).hexdigest()[:32]


def _fetch_candidates(commit: CommitId, ref: GitRef) -> Iterator[str]:
    yield commit
    if str(ref) != str(commit):
        yield from full_names(ref)
