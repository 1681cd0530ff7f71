"""Resolves the ref that a user wrote to the commit that it names now.

This is the only resolver: controller, agent and commands all use it, so that a ref means the same to
all of them. The rules, in order:

- A full commit id is taken as it is.
- `refs/…` is an exact name. `refs/tags/…` therefore pins a tag, whatever branches are created.
- Any other name is a branch before it is a tag, so that pushing a tag with the name of a followed
  branch changes nothing.
- Seven or more hexadecimal digits that name neither are the prefix of a commit id.

The common case costs one `ls-remote`. `find_ref` stops there; it is for callers that fetch the result
next and see then whether it is a commit. `resolve_ref` also verifies that a ref that can name another
object (a tag can name a file) names a commit. Callers that resolve many refs of one source at once
combine the steps themselves: `listed_names`, `list_refs`, `pick_ref`, `check_is_commit`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import CommitId, GitRef, RepoUrl, without_userinfo
from stoker.domain.text import first_names
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
    """Return the commit that `ref` points at; an annotated tag is peeled to its commit."""
    name, target = await find_ref(remote, ref)
    if needs_commit_check(name):
        await check_is_commit(remote, ref, name, target)
    return target


def needs_commit_check(name: str) -> bool:
    """Whether a ref of this full name can point at an object that is not a commit."""
    return bool(name) and name != "HEAD" and not is_branch(name)


async def check_is_commit(remote: Remote, ref: GitRef, name: str, target: CommitId) -> None:
    """Raise `RefNotFound` unless the target is a commit."""
    from stoker.git.remote.probe import object_kind  # noqa: PLC0415 - a branch does not need it

    kind = await object_kind(remote, target, name)
    if kind != "commit":
        raise RefNotFound(
            f"ref {str(ref)!r} of repository {without_userinfo(remote.url)} names a {kind}, not a commit"
        )


async def locate_ref(remote: Remote, ref: GitRef, branch: GitRef) -> tuple[str, CommitId, CommitId | None]:
    """Return the ref's full name (empty for an id), its target, and the commit of `branch` if it exists.

    The target is not verified to be a commit. One `ls-remote` answers both where possible, because each
    costs a connection.
    """
    if re.fullmatch(_FULL_ID_PATTERN, ref) or re.fullmatch(_SHORT_ID_PATTERN, ref):
        name, target = await find_ref(remote, ref)
        return name, target, (await list_refs(remote, (branch,))).get(branch)
    listed = await list_refs(remote, (*full_names(ref), branch))
    return *pick_ref(listed, ref, remote.url), listed.get(branch)


def full_names(ref: GitRef) -> tuple[str, ...]:
    """Return the full names that a ref can mean, the preferred name first."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"{_BRANCHES}{ref}", f"{_TAGS}{ref}")


def listed_names(ref: GitRef) -> tuple[str, ...]:
    """Return the full names to list for a ref; none if it is an id or may be the prefix of an id."""
    return (
        () if re.fullmatch(_FULL_ID_PATTERN, ref) or re.fullmatch(_SHORT_ID_PATTERN, ref) else full_names(ref)
    )


def is_branch(name: str) -> bool:
    """Whether a full name is that of a branch, which always points at a commit."""
    return name.startswith(_BRANCHES)


def are_branches_or_tags(names: Collection[str]) -> bool:
    """Whether there are names and all are branches or tags."""
    return bool(names) and all(name.startswith((_BRANCHES, _TAGS)) for name in names)


def pick_ref(listed: Mapping[str, CommitId], ref: GitRef, url: RepoUrl) -> tuple[str, CommitId]:
    """Return the full name and the target of a ref that is not an id, from a listing of its names."""
    for name in full_names(ref):
        target = listed.get(name + _PEELED_SUFFIX, listed.get(name))
        if target is not None:
            return name, target
    raise RefNotFound(f"ref {str(ref)!r} is not in repository {without_userinfo(url)}")


async def find_ref(remote: Remote, ref: GitRef) -> tuple[str, CommitId]:
    """Return the ref's full name (empty for an id) and its target, which a fetch proves to be a commit."""
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
    """List the refs of the source with these full names, or all refs if there are no names."""
    patterns = [name + tail for name in names for tail in ("", _PEELED_SUFFIX)]
    # Forges have a ref for each pull request; with these options a protocol version 2 server omits them.
    usual = ["--heads", "--tags"] if are_branches_or_tags(names) else []
    output = await remote.git(
        ["ls-remote", "--quiet", *usual], [remote.url, *patterns], max_output=MAX_LISTING
    )
    return _parse_listing(output, remote.url)


async def _complete_prefix(remote: Remote, ref: GitRef, listed: dict[str, CommitId]) -> CommitId:
    """Return the commit whose id has this prefix: among the listed refs, else in the history."""
    start = ref.lower()
    fitting = {
        listed.get(name.removesuffix(_PEELED_SUFFIX) + _PEELED_SUFFIX, target)
        for name, target in listed.items()
        if target.startswith(start)
    }
    if listed and not fitting:
        from stoker.git.remote.probe import commits_with_prefix  # noqa: PLC0415 - most refs do not need it

        fitting = await commits_with_prefix(remote, start, len(next(iter(listed.values()))))
    place = without_userinfo(remote.url)
    if not fitting:
        raise RefNotFound(f"no ref and no commit of repository {place} is called {str(ref)!r}")
    if len(fitting) > 1:
        raise RefAmbiguous(
            f"commit id {str(ref)!r} fits {len(fitting)} commits of repository {place}: "
            f"{first_names(sorted(fitting), MAX_NAMED)}"
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
