"""Refuses destinations of one repository and branch that share folders.

Two replicas can admit two overlapping destinations at the same moment without knowing of each other, so
the reverser checks again before it writes; this check gives the author early feedback.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig, allows_namespace
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import Notice
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.repository_identity import may_be_same, normalize_repository
from stoker.kube.watch.store import ObjectKey

RepoConfigs = Mapping[ObjectKey, GitRepoConfig]


def check_destination(
    own: GitDestination, others: Sequence[GitDestination], repositories: RepoConfigs
) -> tuple[Notice, ...]:
    """Raise if the destination can never be written; return notices about what is still missing."""
    key = _repository(own)
    if not _is_allowed(own, repositories):
        # The same message whether the GitRepoConfig exists or not: objects of other namespaces stay hidden.
        why = f"GitRepoConfig {key} does not allow GitDestinations of namespace {own.metadata.namespace}"
        return (Notice(Reason.REPO_POLICY_DENIED, f"{why}: its owner can add it to spec.allowedNamespaces"),)
    repository = repositories.get(key)
    if repository is not None and own.spec.branch not in repository.spec.allowed_branches:
        raise InvalidValue(
            f"spec.branch: GitRepoConfig {key} does not allow branch {own.spec.branch!r}",
            reason=Reason.BRANCH_NOT_ALLOWED,
        )
    for other in others:
        if _is_allowed(other, repositories) and _overlaps(own, other, repositories):
            raise InvalidValue(
                f"spec.baseFolder: {own.spec.base_folder!r} overlaps {other.spec.base_folder!r} "
                f"of GitDestination {_key(other)} on branch {own.spec.branch!r} of the same repository",
                reason=Reason.FOLDERS_OVERLAP,
            )
    if repository is None:
        return (Notice(Reason.DESTINATION_NOT_FOUND, f"GitRepoConfig {key} does not exist yet"),)
    return ()


def check_repository(own: GitRepoConfig, destinations: Sequence[GitDestination]) -> Iterator[Notice]:
    """Yield notices about destinations that the allowed branches of this GitRepoConfig exclude."""
    for one in destinations:
        if _repository(one) == _key(own) and one.spec.branch not in own.spec.allowed_branches:
            yield Notice(
                Reason.BRANCH_NOT_ALLOWED,
                f"GitDestination {_key(one)} writes to branch {one.spec.branch!r}, "
                "which is not allowed any more",
            )


def _is_allowed(one: GitDestination, repositories: RepoConfigs) -> bool:
    """Return whether the repository's owner allows the destination; if not, it does not occupy its folder."""
    key = _repository(one)
    repository = repositories.get(key)
    allowed = repository.spec.allowed_namespaces if repository is not None else None
    return allows_namespace(key.namespace, one.metadata.namespace, allowed)


def _overlaps(own: GitDestination, other: GitDestination, repositories: RepoConfigs) -> bool:
    if _key(own) == _key(other) or own.spec.branch != other.spec.branch:
        return False
    if not may_be_same(_repository_identity(own, repositories), _repository_identity(other, repositories)):
        return False
    mine, theirs = RelPath.clean(own.spec.base_folder), RelPath.clean(other.spec.base_folder)
    return mine.is_below(theirs) or theirs.is_below(mine)


def _repository_identity(one: GitDestination, repositories: RepoConfigs) -> str:
    """Return what identifies the repository: its URL, or its config's name while that does not exist."""
    key = _repository(one)
    found = repositories.get(key)
    return str(key) if found is None else normalize_repository(found.spec.repo_url)


def _repository(one: GitDestination) -> ObjectKey:
    wanted = one.spec.repo_ref
    return ObjectKey(wanted.namespace or one.metadata.namespace, wanted.name)


def _key(one: GitDestination | GitRepoConfig) -> ObjectKey:
    return ObjectKey(one.metadata.namespace, one.metadata.name)
