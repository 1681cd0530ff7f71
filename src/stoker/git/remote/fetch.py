"""What is asked of the source, and with how many words.

The first fetch of a ref takes one commit and nothing of its history, without the
contents that `FetchLimits` leaves out, which are blobs of a gigabyte and more. From then on
the source is told which commit we have and sends what is new since, which costs it and
us the same whatever the size of the tree. If that becomes more than it should (a
rewritten branch drags its whole history in), one commit alone is taken again. Contents
that were left out come in one request.

Where a ref is known as a branch, asking where it is and taking what is new are one
conversation (`follow`): nobody waits for two connections, which ssh makes dear.

git fetches a missing object by itself, one request for each, as soon as it knows a
source that promised it. Only the calls made here know one: the source stands in their
arguments and never in the mirror's settings, so a git that reads cannot fetch.
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
    """How much of a source is accepted."""

    fetch: int = 4 << 30
    """Bytes of one answer."""
    news: int = 64 << 20
    """Bytes of an answer with what is new since the last one, before one commit alone is taken instead."""
    mirror: int = 8 << 30
    """Bytes of a mirror before it is built anew."""
    seconds: float = 1800.0
    """For one answer. A large repository over a slow line takes its time; silence ends it much sooner."""
    left_out: str = "blob:limit=1g"
    """Contents that are not fetched before somebody asks for them, in git's words."""
    packs: int = 100
    """Every fetch adds a pack. Building anew costs less than a repack, and bounds the disk."""


class RemoteFetcher:
    """Brings objects of one source into one repository on disk."""

    def __init__(self, remote: Remote, repository: Path, objects: MirrorObjects, limits: FetchLimits) -> None:
        self._remote = remote
        self._repository = repository
        self._objects = objects
        self._limits = limits

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Have `commit` here: by its id, else by its ref, else by looking through everything (C-025)."""
        self._forget_old_tips()
        tip = tip_path(ref)
        if (self._repository / tip).exists() and await self._news(commit, ref, tip):
            return
        if not await self._taken(_SHALLOW, commit, ref, tip, self._limits.fetch):
            await self._look_everywhere(commit, tip)
        (self._repository / STALE_REFS / tip.name).unlink(missing_ok=True)

    async def follow(self, ref: GitRef, branch: str) -> CommitId | None:
        """Where a branch is now, with what is new of it; None if it is gone or too much is new.

        `branch` is its full name: of a short one git itself takes `refs/…` and tags first.
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
        """Have these contents here; those that are missing come in one request."""
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
        """What is new since the tip; False if that is not the way."""
        try:
            return await self._taken((), commit, ref, tip, min(self._limits.news, self._limits.fetch))
        except SourceTooLarge:
            return False
        except SourceUnreachable:
            # It may be that the way from there is what takes too long; the next attempt goes the other way.
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
        """Without the largest blobs, where the source can leave something out."""
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
            "pack.threads": "1",  # each takes memory of its own
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
        """Each tip is a line in every request, so only the latest few are kept."""
        tips = [*(self._repository / TIPS).iterdir(), *(self._repository / STALE_REFS).iterdir()]
        for tip in sorted(tips, key=lambda path: path.stat().st_mtime, reverse=True)[MAX_TIPS:]:
            tip.unlink()


def tip_path(ref: GitRef) -> Path:
    """Where the last commit of a ref stands, below a repository."""
    return TIPS / hashlib.sha256(ref.encode()).hexdigest()[:32]


def _fetch_candidates(commit: CommitId, ref: GitRef) -> Iterator[str]:
    yield commit
    if str(ref) != str(commit):
        yield from full_names(ref)
