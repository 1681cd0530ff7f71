"""From what a person wrote as ref to the one commit that it means now.

The only resolver: controller, agent and commands ask it, so that all of them mean
the same. Nothing is fetched. A full commit id is taken as it is; `refs/…` names
exactly that; any other name is a tag before it is a branch, because a release that
is pinned must not change when somebody creates a branch of its name.
"""

from __future__ import annotations

import re

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import CommitId, GitRef, RepoUrl, without_userinfo
from stoker.git.credentials import Credentials
from stoker.git.errors import RefNotFound, SourceUnreachable
from stoker.git.runner import GitRunner

_SHORTENED = re.compile(r"[0-9a-f]{7,63}")
_PEELED = "^{}"


async def resolve(
    runner: GitRunner, url: RepoUrl, ref: GitRef, credentials: Credentials | None = None
) -> CommitId:
    """The commit that `ref` points at; an annotated tag is followed to its commit."""
    try:
        return CommitId(ref)
    except InvalidValue:
        names = full_names(ref)
    patterns = [name + tail for name in names for tail in ("", _PEELED)]
    output = await runner.run(["ls-remote", "--quiet"], [url, *patterns], url=url, credentials=credentials)
    found = _parsed(output, url)
    for name in names:
        target = found.get(name + _PEELED, found.get(name))
        if target is not None:
            return target
    hint = "; a commit id must be written in full" if _SHORTENED.fullmatch(ref) else ""
    raise RefNotFound(f"ref {str(ref)!r} is not in repository {without_userinfo(url)}{hint}")


def full_names(ref: GitRef) -> tuple[str, ...]:
    """The names that a ref can stand for, the one that wins first."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"refs/tags/{ref}", f"refs/heads/{ref}")


def _parsed(output: bytes, url: RepoUrl) -> dict[str, CommitId]:
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
