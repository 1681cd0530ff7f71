"""Fetches the object of an annotated tag into a mirror that has only the commit.

A mirror stores commits and peels tags. To verify a signed tag, `stoker.git.signature` needs the tag
object itself. This module fetches that object only: it names the commit as a negotiation tip, because
the mirror has it already. It writes no ref, so that later fetches are not affected.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import CommitId, GitRef, without_userinfo
from stoker.git.errors import GitFailed, SourceUnreachable
from stoker.git.mirror.bare_repository import QUIET_FETCH
from stoker.git.remote.remote import Remote
from stoker.git.signature.signed_objects import SignatureInvalid, SignatureMissing

MAX_TAG_BYTES = 16 << 20
_TAGS = "refs/tags/"


class TagObject(NamedTuple):
    """An annotated tag: the requested name, and the id of the tag object."""

    name: str
    id: str


def tag_name(ref: GitRef) -> str:
    """Return the name of the tag that a ref may mean; raise `SignatureMissing` if it cannot be a tag."""
    if ref.startswith(_TAGS):
        return ref.removeprefix(_TAGS)
    if ref == "HEAD" or ref.startswith("refs/") or _is_commit(ref):
        raise SignatureMissing(f"ref {str(ref)!r} is not a tag, and only signed tags are accepted")
    return ref


async def fetch_tag_object(remote: Remote, repository: Path, name: str, commit: CommitId) -> TagObject:
    """Fetch the current tag of that name into a repository that has `commit`, the expected target."""
    ref = GitRef(_TAGS + name)
    listed = await remote.git(["ls-remote", "--quiet"], [remote.url, ref, f"{ref}^{{}}"])
    found = dict(_tag_pairs(listed.decode(errors="replace"), remote))
    if ref not in found:
        raise SignatureMissing(
            f"ref {name!r} is not a tag in repository {without_userinfo(remote.url)}, "
            "and only signed tags are accepted"
        )
    if f"{ref}^{{}}" not in found:
        raise SignatureMissing(f"tag {name!r} is a lightweight tag, which cannot be signed")
    target = found[f"{ref}^{{}}"]
    if target != commit:  # the tag was moved; its new target could have any amount of history
        raise SignatureInvalid(
            f"tag {name!r} leads to {target} by now, not to commit {commit}; if there is a branch of "
            f"the same name, write {str(ref)!r}"
        )
    tag = TagObject(name, found[ref])
    if not await _has_tag(remote, repository, tag):
        await remote.git(
            [*QUIET_FETCH, f"--negotiation-tip={commit}"],
            [remote.url, tag.id],
            repository=repository,
            max_bytes=MAX_TAG_BYTES,
        )
    return tag


def _tag_pairs(listing: str, remote: Remote) -> list[tuple[str, str]]:
    try:
        return [
            (name, CommitId(id_)) for id_, _, name in (line.partition("\t") for line in listing.splitlines())
        ]
    except InvalidValue as error:
        raise SourceUnreachable(
            f"repository {without_userinfo(remote.url)} lists a ref that names no object"
        ) from error


async def _has_tag(remote: Remote, repository: Path, tag: TagObject) -> bool:
    try:
        await remote.runner.run(["cat-file", "-e"], [tag.id], repository=repository)
    except GitFailed:
        return False
    return True


def _is_commit(ref: GitRef) -> bool:
    try:
        CommitId(ref)
    except InvalidValue:
        return False
    return True
