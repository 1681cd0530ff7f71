"""A destination of the reverser as a page shows it, from its object and that of its repository. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from stoker.api.kinds.destinations import GitDestinationStatus, HeldDeletions, WrittenCommit
from stoker.dashboard.cluster.kinds import DESTINATION
from stoker.dashboard.cluster.object_header import Head, Ref
from stoker.dashboard.cluster.resources import id_of
from stoker.dashboard.cluster.rules import SeenRule
from stoker.dashboard.view_models import DestinationNow, Held, Written
from stoker.domain.reasons import ConditionType, Reason

_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)s")
_WARNINGS = (
    ConditionType.SECRETS_IN_CLEAR,
    ConditionType.MARKER_CONFLICT,
    ConditionType.LEASE_NOT_ACQUIRED,
)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    repo_ref: Ref = Ref()
    branch: str = ""
    base_folder: str = ""
    suspend: bool | None = None


class _Body(msgspec.Struct, frozen=True):
    metadata: Head
    spec: _Spec = _Spec()
    status: GitDestinationStatus = msgspec.field(default_factory=GitDestinationStatus)


class _ConfigSpec(msgspec.Struct, frozen=True, rename="camel"):
    repo_url: str = ""
    suspend: bool | None = None


class _Config(msgspec.Struct, frozen=True):
    spec: _ConfigSpec = _ConfigSpec()


class ConfigKey(NamedTuple):
    """A GitRepoConfig by its name."""

    namespace: str
    name: str


class SeenDestination(NamedTuple):
    """What is kept of a destination; its repository is named by another object."""

    now: DestinationNow
    config: ConfigKey


class SeenConfig(NamedTuple):
    """What is kept of a repository."""

    repo: str
    suspended: bool


class ShownDestination(NamedTuple):
    """A destination with what other objects say about it."""

    destination: SeenDestination
    config: SeenConfig | None
    rules: tuple[SeenRule, ...] = ()


_body = msgspec.json.Decoder(_Body)
_config = msgspec.json.Decoder(_Config)


def seen_config(raw: bytes) -> SeenConfig:
    spec = _config.decode(raw).spec
    return SeenConfig(spec.repo_url, bool(spec.suspend))


def seen_destination(raw: bytes) -> SeenDestination:
    body = _body.decode(raw)
    of, spec, status = body.metadata, body.spec, body.status
    conditions = status.conditions or ()
    ready = next((one for one in conditions if one.type == ConditionType.READY), None)
    true = {one.type: one.message or "" for one in conditions if one.status == "True"}
    recent = status.recent_commits or ()
    now = DestinationNow(
        id=id_of(DESTINATION, of.namespace, of.name),
        namespace=of.namespace,
        name=of.name,
        branch=spec.branch,
        folder=spec.base_folder,
        commit=status.last_commit or "",
        committed_at=status.last_push_time,
        authors=tuple(dict.fromkeys(one.author for one in recent if one.author)),
        recent=tuple(map(_written, recent)),
        lag_seconds=_seconds(recent[0].waited) if recent else None,
        pending=status.pending_changes or 0,
        pending_since=status.pending_since if status.pending_changes else None,
        ready=ready.status if ready is not None else "Unknown",
        reason=(ready.reason or "") if ready is not None else Reason.NOT_YET_SEEN,
        message=(ready.message or "") if ready is not None else "no reverser has looked at it yet",
        stalled=ConditionType.STALLED in true,
        suspended=bool(spec.suspend),
        warnings=tuple(true[one] for one in _WARNINGS if true.get(one)),
        held=_held(status.held_deletions),
    )
    return SeenDestination(now, ConfigKey(spec.repo_ref.namespace or of.namespace, spec.repo_ref.name))


def joined(one: SeenDestination, config: SeenConfig | None, *, may_see: bool) -> DestinationNow:
    """With what its repository says; its address is for those who may see that object, too."""
    if config is None:
        return one.now
    return msgspec.structs.replace(
        one.now,
        repo=config.repo if may_see else "",
        suspended=one.now.suspended or config.suspended,
    )


def _held(one: HeldDeletions | None) -> Held | None:
    return None if one is None else Held(count=one.count, digest=one.digest, paths=one.paths or ())


def _written(one: WrittenCommit) -> Written:
    return Written(commit=one.commit, author=one.author or "", subject=one.subject or "", at=one.time)


def _seconds(waited: str | None) -> float | None:
    """How long changes took to get into git, by the last that did."""
    match = _SECONDS.fullmatch(waited or "")
    return float(match[1]) if match else None
