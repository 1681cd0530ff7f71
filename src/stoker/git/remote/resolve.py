"""From what a person wrote as ref to the one commit that it means now.

The only resolver: controller, agent and commands ask it, so that all of them mean
the same. A full commit id is taken as it is; `refs/…` names exactly that; any other
name is a branch before it is a tag, so that a tag pushed with the name of a followed
branch changes nothing. `refs/tags/…` pins a tag whatever branches are created. Seven or
more hexadecimal digits that are neither are the beginning of a commit id.

The common case costs one `ls-remote`. `find_ref` stops there, for whoever fetches
what was found next and sees then what it is. `resolve_ref` also makes sure that a ref
that need not name a commit (a tag can name a file) does. Whoever asks for many refs of
one source at once takes the steps one by one: `listed_names`, `list_refs`, `pick_ref`, `check_is_commit`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import CommitId, GitRef, RepoUrl, without_userinfo
from stoker.git.errors import RefAmbiguous, RefNotFound, SourceUnreachable
from stoker.git.remote.remote import Remote

MAX_LISTING = 64 << 20
MAX_NAMED = 5
_FULL_ID_PATTERN = r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}"
_SHORT_ID_PATTERN = r"[0-9a-fA-F]{7,63}"
_PEELED_SUFFIX = "^{}"
_BRANCHES = "refs/heads/"
_TAGS = "refs/tags/"


async def resolve_ref(remote: Remote, ref: GitRef) -> CommitId:
    """The commit that `ref` points at; an annotated tag is followed to its commit."""
    name, target = await find_ref(remote, ref)
    if needs_commit_check(name):
        await check_is_commit(remote, ref, name, target)
    return target


def needs_commit_check(name: str) -> bool:
    """Whether what stands under a full name need not be a commit."""
    return bool(name) and name != "HEAD" and not is_branch(name)


async def check_is_commit(remote: Remote, ref: GitRef, name: str, target: CommitId) -> None:
    """Raise unless it is a commit."""
    from stoker.git.remote.probe import object_kind  # noqa: PLC0415 - a branch does not need it

    kind = await object_kind(remote, target, name)
    if kind != "commit":
        raise RefNotFound(
            f"ref {str(ref)!r} of repository {without_userinfo(remote.url)} names a {kind}, not a commit"
        )


async def locate_ref(remote: Remote, ref: GitRef, branch: GitRef) -> tuple[str, CommitId, CommitId | None]:
    """Its full name, empty for an id, and what it points at, as unproven; and where a branch is, if it is.

    In one question, where that can be: each costs a connection.
    """
    if re.fullmatch(_FULL_ID_PATTERN, ref) or re.fullmatch(_SHORT_ID_PATTERN, ref):
        name, target = await find_ref(remote, ref)
        return name, target, (await list_refs(remote, (branch,))).get(branch)
    listed = await list_refs(remote, (*full_names(ref), branch))
    return *pick_ref(listed, ref, remote.url), listed.get(branch)


def full_names(ref: GitRef) -> tuple[str, ...]:
    """The names that a ref can stand for, the one that wins first."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"{_BRANCHES}{ref}", f"{_TAGS}{ref}")


def listed_names(ref: GitRef) -> tuple[str, ...]:
    """The names that a listing has to tell of; none where it is an id, or may be the beginning of one."""
    return (
        () if re.fullmatch(_FULL_ID_PATTERN, ref) or re.fullmatch(_SHORT_ID_PATTERN, ref) else full_names(ref)
    )


def is_branch(name: str) -> bool:
    """By its full name; what such a name points at is always a commit."""
    return name.startswith(_BRANCHES)


def are_branches_or_tags(names: Collection[str]) -> bool:
    """Whether all are branches or tags."""
    return bool(names) and all(name.startswith((_BRANCHES, _TAGS)) for name in names)


def pick_ref(listed: Mapping[str, CommitId], ref: GitRef, url: RepoUrl) -> tuple[str, CommitId]:
    """The full name of a ref that is no id, and what it points at, from a listing of its names."""
    for name in full_names(ref):
        target = listed.get(name + _PEELED_SUFFIX, listed.get(name))
        if target is not None:
            return name, target
    raise RefNotFound(f"ref {str(ref)!r} is not in repository {without_userinfo(url)}")


async def find_ref(remote: Remote, ref: GitRef) -> tuple[str, CommitId]:
    """Its full name, empty for an id, and what it points at: that it is a commit shows when it is fetched."""
    if re.fullmatch(_FULL_ID_PATTERN, ref):
        return "", CommitId(ref.lower())
    if re.fullmatch(_SHORT_ID_PATTERN, ref) is None:
        return pick_ref(await list_refs(remote, full_names(ref)), ref, remote.url)
    listed = await list_refs(remote, ())
    try:
        return pick_ref(listed, ref, remote.url)
    except RefNotFound:
        return "", await _complete_prefix(remote, ref, listed)


async def list_refs(remote: Remote, names: Collection[str]) -> dict[str, CommitId]:
    """What the source lists under these full names, or all that it lists."""
    patterns = [name + tail for name in names for tail in ("", _PEELED_SUFFIX)]
    # Forges have a ref for each pull request; a server of protocol version 2 then does not send them.
    usual = ["--heads", "--tags"] if are_branches_or_tags(names) else []
    output = await remote.git(
        ["ls-remote", "--quiet", *usual], [remote.url, *patterns], max_output=MAX_LISTING
    )
    return _parse_listing(output, remote.url)


async def _complete_prefix(remote: Remote, ref: GitRef, listed: dict[str, CommitId]) -> CommitId:
    """The commit whose id begins like this: among those that have a name, else in the history."""
    start = ref.lower()
    fitting = {
        listed.get(name.removesuffix(_PEELED_SUFFIX) + _PEELED_SUFFIX, target)
        for name, target in listed.items()
        if target.startswith(start)
    }
    if listed and not fitting:
        from stoker.git.remote.probe import commits_with_prefix  # noqa: PLC0415 - the same

        fitting = await commits_with_prefix(remote, start, len(next(iter(listed.values()))))
    place = without_userinfo(remote.url)
    if not fitting:
        raise RefNotFound(f"no ref and no commit of repository {place} is called {str(ref)!r}")
    if len(fitting) > 1:
        named = ", ".join(sorted(fitting)[:MAX_NAMED]) + (", …" if len(fitting) > MAX_NAMED else "")
        raise RefAmbiguous(
            f"commit id {str(ref)!r} fits {len(fitting)} commits of repository {place}: {named}"
        )
    return fitting.pop()


def _parse_listing(output: bytes, url: RepoUrl) -> dict[str, CommitId]:
    found: dict[str, CommitId] = {}
    for line in output.decode(errors="replace").splitlines():
        target, _, name = line.partition("\t")
        try:
            found[name] = CommitId(target)
        except InvalidValue as error:
            raise SourceUnreachable(
                f"repository {without_userinfo(url)} lists a ref that names no object"
            ) from error
    return found
