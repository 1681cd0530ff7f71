"""Answers questions about a remote that need objects, not only the list of its refs.

`stoker.git.remote.resolve` needs it for two questions: which commit a shortened id belongs to, and
whether a tag names a commit at all. Each probe fetches into a temporary repository and removes it
afterwards. It fetches commits only, where the server supports filters, and under a limit on bytes.
The answer for an object id never changes, so this process caches it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

from stoker.domain.refs import CommitId, without_userinfo
from stoker.git.errors import FilterRefused, GitFailed, SourceTooLarge, SourceUnreachable
from stoker.git.mirror.bare_repository import QUIET_FETCH, make_bare
from stoker.git.private_files import folder_for_one_call
from stoker.git.remote.remote import Remote

MAX_HISTORY = 256 << 20
MAX_OBJECT = 64 << 20
MAX_DEPTH = 100
MAX_REMEMBERED = 4096

_BRANCHES_AND_TAGS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
# Ordered from the smallest to the largest transfer, for servers that refuse a filter. The last has an
# explicit --no-filter, because git remembers the filter of an earlier fetch.
_FILTER_FALLBACKS = (("--filter=tree:0",), ("--filter=blob:none",), ("--no-filter", f"--depth={MAX_DEPTH}"))

K = TypeVar("K")
V = TypeVar("V")


class _BoundedCache(OrderedDict[K, V], Generic[K, V]):
    """A dict that drops its oldest entry when it is full."""

    def learn(self, key: K, value: V) -> V:
        self[key] = value
        while len(self) > MAX_REMEMBERED:
            self.popitem(last=False)
        return value


_kinds = _BoundedCache[str, str]()
_completed = _BoundedCache[tuple[str, str], CommitId]()
_key = secrets.token_bytes(32)


async def object_kind(remote: Remote, target: CommitId, name: str) -> str:
    """Return whether the object that a ref names is a commit, a tree or a blob."""
    if target in _kinds:
        return _kinds[target]
    with _temporary_repository(remote, len(target)) as repository:
        await _fetch_with_fallback(
            remote, repository, _FILTER_FALLBACKS, [f"+{name}:refs/probed"], MAX_OBJECT, depth=True
        )
        answers = await _local_object_kinds(remote, repository, [target])
    if target not in answers:
        raise SourceUnreachable(
            f"ref {name} of repository {without_userinfo(remote.url)} moved while it was read"
        )
    return _kinds.learn(target, answers[target])


async def commits_with_prefix(remote: Remote, start: str, digits: int) -> set[CommitId]:
    """Return the commits in the history of all branches and tags whose id has this prefix."""
    asker = await remote.identity(_key)
    if (asker, start) in _completed:
        return {_completed[asker, start]}
    with _temporary_repository(remote, digits) as repository:
        await _fetch_with_fallback(remote, repository, _FILTER_FALLBACKS, _BRANCHES_AND_TAGS, MAX_HISTORY)
        # rev-parse does not accept --end-of-options before this; `start` is hexadecimal, so it is safe.
        command = ["rev-parse", f"--disambiguate={start}"]
        ids = (await remote.runner.run(command, repository=repository)).decode().split()
        kinds = await _local_object_kinds(remote, repository, ids)
    commits = {CommitId(id_) for id_, kind in kinds.items() if kind == "commit"}
    if len(commits) == 1:
        _completed.learn((asker, start), *commits)
    return commits


@contextmanager
def _temporary_repository(remote: Remote, digits: int) -> Iterator[Path]:
    """Yield an empty bare repository for ids of that length, and remove it afterwards."""
    try:
        with folder_for_one_call(remote.runner.home) as folder:
            yield make_bare(folder / "repository", digits)
    except OSError as error:
        raise GitFailed(f"folder {remote.runner.home} cannot be written: {error.strerror}") from error


async def _fetch_with_fallback(
    remote: Remote,
    repository: Path,
    ways: Sequence[Sequence[str]],
    refspecs: Sequence[str],
    max_bytes: int,
    *,
    depth: bool = False,
) -> None:
    """Try the option sets in order, until the server accepts a filter and the result is small enough."""
    for way in ways:
        options = [*way, "--depth=1"] if depth else way
        try:
            # For a tag that names a tree, a filtered fetch lacks that tree, and git fails its final
            # connectivity check. The object that the probe needs has arrived by then.
            with suppress(GitFailed):
                await remote.git(
                    [*QUIET_FETCH, *options],
                    [remote.url, *refspecs],
                    repository=repository,
                    max_bytes=max_bytes,
                )
        except (FilterRefused, SourceTooLarge):
            if way == ways[-1]:
                raise
        else:
            return


async def _local_object_kinds(remote: Remote, repository: Path, ids: Sequence[str]) -> dict[str, str]:
    """Return the kinds of those objects that the repository has."""
    asked = "".join(f"{id_}\n" for id_ in ids).encode()
    lines = await remote.runner.run(
        ["cat-file", "--batch-check=%(objectname) %(objecttype)"], repository=repository, stdin=asked
    )
    answers = (line.split(" ") for line in lines.decode().splitlines())
    return {id_: kind for id_, kind in answers if kind != "missing"}
