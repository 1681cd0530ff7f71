"""Converts a GitDestination, with its GitRepoConfig, to its view. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from stoker.api.kinds.destinations import GitDestinationStatus, HeldDeletions, WrittenCommit
from stoker.dashboard.cluster.kinds import DESTINATION
from stoker.dashboard.cluster.object_header import ReverserObjectMeta, ReverserObjectRef
from stoker.dashboard.cluster.resources import resource_id
from stoker.dashboard.cluster.rules import CachedWatchRule
from stoker.dashboard.view_models import CommitView, DestinationView, HeldDeletionsView
from stoker.domain.reasons import ConditionType, Reason

_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)s")
_WARNINGS = (
    ConditionType.SECRETS_IN_CLEAR,
    ConditionType.MARKER_CONFLICT,
    ConditionType.LEASE_NOT_ACQUIRED,
)


class _DestinationSpec(msgspec.Struct, frozen=True, rename="camel"):
    repo_ref: ReverserObjectRef = ReverserObjectRef()
    branch: str = ""
    base_folder: str = ""
    suspend: bool | None = None


class _DestinationBody(msgspec.Struct, frozen=True):
    metadata: ReverserObjectMeta
    spec: _DestinationSpec = _DestinationSpec()
    status: GitDestinationStatus = msgspec.field(default_factory=GitDestinationStatus)


class _RepoConfigSpec(msgspec.Struct, frozen=True, rename="camel"):
    repo_url: str = ""
    suspend: bool | None = None


class _RepoConfigBody(msgspec.Struct, frozen=True):
    spec: _RepoConfigSpec = _RepoConfigSpec()


class RepoConfigKey(NamedTuple):
    """The namespace and name of a GitRepoConfig."""

    namespace: str
    name: str


class CachedDestination(NamedTuple):
    """The part of a GitDestination that is kept in memory, with the key of its GitRepoConfig."""

    now: DestinationView
    config: RepoConfigKey


class CachedRepoConfig(NamedTuple):
    """The part of a GitRepoConfig that is kept in memory."""

    repo: str
    suspended: bool


class JoinedDestination(NamedTuple):
    """A destination with its GitRepoConfig and its rules."""

    destination: CachedDestination
    config: CachedRepoConfig | None
    rules: tuple[CachedWatchRule, ...] = ()


_body = msgspec.json.Decoder(_DestinationBody)
_config = msgspec.json.Decoder(_RepoConfigBody)


def decode_config(raw: bytes) -> CachedRepoConfig:
    spec = _config.decode(raw).spec
    return CachedRepoConfig(spec.repo_url, bool(spec.suspend))


def decode_destination(raw: bytes) -> CachedDestination:
    body = _body.decode(raw)
    of, spec, status = body.metadata, body.spec, body.status
    conditions = status.conditions or ()
    ready = next((one for one in conditions if one.type == ConditionType.READY), None)
    true = {one.type: one.message or "" for one in conditions if one.status == "True"}
    recent = status.recent_commits or ()
    now = DestinationView(
        id=resource_id(DESTINATION, of.namespace, of.name),
        namespace=of.namespace,
        name=of.name,
        branch=spec.branch,
        folder=spec.base_folder,
        commit=status.last_commit or "",
        committed_at=status.last_push_time,
        authors=tuple(dict.fromkeys(one.author for one in recent if one.author)),
        recent=tuple(map(_commit_view, recent)),
        lag_seconds=_parse_seconds(recent[0].waited) if recent else None,
        pending=status.pending_changes or 0,
        pending_since=status.pending_since if status.pending_changes else None,
        ready=ready.status if ready is not None else "Unknown",
        reason=(ready.reason or "") if ready is not None else Reason.NOT_YET_SEEN,
        message=(ready.message or "") if ready is not None else "no reverser has looked at it yet",
        stalled=ConditionType.STALLED in true,
        suspended=bool(spec.suspend),
        warnings=tuple(true[one] for one in _WARNINGS if true.get(one)),
        held=_held_deletions_view(status.held_deletions),
    )
    return CachedDestination(now, RepoConfigKey(spec.repo_ref.namespace or of.namespace, spec.repo_ref.name))


def destination_view(
    one: CachedDestination, config: CachedRepoConfig | None, *, may_see: bool
) -> DestinationView:
    """Add the fields of the GitRepoConfig; its URL only if the visitor may see that object."""
    if config is None:
        return one.now
    return msgspec.structs.replace(
        one.now,
        repo=config.repo if may_see else "",
        suspended=one.now.suspended or config.suspended,
    )


def _held_deletions_view(one: HeldDeletions | None) -> HeldDeletionsView | None:
    return (
        None if one is None else HeldDeletionsView(count=one.count, digest=one.digest, paths=one.paths or ())
    )


def _commit_view(one: WrittenCommit) -> CommitView:
    return CommitView(commit=one.commit, author=one.author or "", subject=one.subject or "", at=one.time)


def _parse_seconds(waited: str | None) -> float | None:
    """Parse how long the last change took to reach git, such as 2.5s."""
    match = _SECONDS.fullmatch(waited or "")
    return float(match[1]) if match else None
