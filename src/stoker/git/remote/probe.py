"""Looking into a source's history for what its list of refs does not tell.

Which commit does a shortened id belong to, and is what a tag names a commit at all?
Both take objects. They are fetched into a repository that lives as long as the
question, commits alone where the server can leave the rest out, and under a limit
on bytes. An answer about an object id stays true for ever, so this process asks
once.
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
# From the least to the most that a server may insist on sending. git remembers a filter unless told not to.
_FILTER_FALLBACKS = (("--filter=tree:0",), ("--filter=blob:none",), ("--no-filter", f"--depth={MAX_DEPTH}"))

K = TypeVar("K")
V = TypeVar("V")


class _BoundedCache(OrderedDict[K, V], Generic[K, V]):
    """Forgets the oldest when there is too much to remember."""

    def learn(self, key: K, value: V) -> V:
        self[key] = value
        while len(self) > MAX_REMEMBERED:
            self.popitem(last=False)
        return value


_kinds = _BoundedCache[str, str]()
_completed = _BoundedCache[tuple[str, str], CommitId]()
_key = secrets.token_bytes(32)


async def object_kind(remote: Remote, target: CommitId, name: str) -> str:
    """Whether an object that a ref names is a commit, a tree or a blob."""
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
    """The commits in the history of all branches and tags whose id begins like this."""
    asker = await remote.identity(_key)
    if (asker, start) in _completed:
        return {_completed[asker, start]}
    with _temporary_repository(remote, digits) as repository:
        await _fetch_with_fallback(remote, repository, _FILTER_FALLBACKS, _BRANCHES_AND_TAGS, MAX_HISTORY)
        # rev-parse takes no --end-of-options before this; `start` is hexadecimal.
        command = ["rev-parse", f"--disambiguate={start}"]
        ids = (await remote.runner.run(command, repository=repository)).decode().split()
        kinds = await _local_object_kinds(remote, repository, ids)
    commits = {CommitId(id_) for id_, kind in kinds.items() if kind == "commit"}
    if len(commits) == 1:
        _completed.learn((asker, start), *commits)
    return commits


@contextmanager
def _temporary_repository(remote: Remote, digits: int) -> Iterator[Path]:
    """An empty bare repository for objects with ids of that length."""
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
    """Try one way after the other, as long as the server refuses to leave something out or sends too much."""
    for way in ways:
        options = [*way, "--depth=1"] if depth else way
        try:
            # A tag that names a folder is not complete without it, of which git complains in the end; what
            # we are after has arrived by then.
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
    """The kinds of those objects that are here."""
    asked = "".join(f"{id_}\n" for id_ in ids).encode()
    lines = await remote.runner.run(
        ["cat-file", "--batch-check=%(objectname) %(objecttype)"], repository=repository, stdin=asked
    )
    answers = (line.split(" ") for line in lines.decode().splitlines())
    return {id_: kind for id_, kind in answers if kind != "missing"}
