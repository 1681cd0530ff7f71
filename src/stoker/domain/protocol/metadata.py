"""The metadata ConfigMap: the controller's instructions to the agents of one resource.

Flat keys hold what an agent needs to begin. `agentSpec` holds the whole resolved resource
as JSON, and `stoker.api.agent_spec` reads it, because this package knows no custom
resources. If both define a value, `agentSpec` takes precedence.

An invalid value is refused with its key in the message, and the whole ConfigMap is
ignored: the agent keeps its previous instructions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.source import GitAuthKind, SecretKey
from stoker.domain.protocol import parse as decode
from stoker.domain.protocol.changes import ChangeSetReply, parse_answers
from stoker.domain.protocol.json import compact_json, parse_object, quote_value, to_plain
from stoker.domain.protocol.parse import MAX_JSON, MAX_WORD, PROTOCOL_VERSION
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl, SourceUrl
from stoker.domain.traces import valid_traceparent

T = TypeVar("T")

MAX_ENTRIES = 5000

_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_DATA_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}")
_DIGEST = re.compile(r"[A-Za-z0-9:_-]{8,128}")


class SyncMode(StrEnum):
    PLAN = "plan"
    APPLY = "apply"


class StatusKeyMode(StrEnum):
    """Under which key an agent reports: the gateway's name, or the pod's if several pods share that name."""

    GATEWAY = "gateway"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class GatewayTarget:
    """The commit for one gateway, and whether it may be applied already or only planned."""

    commit: CommitId
    mode: SyncMode = SyncMode.APPLY
    plan: str = ""
    """The digest of an approved plan."""


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """A rollback, executed once for each distinct `id`."""

    id: str
    to_commit: CommitId | None = None
    to_snapshot: str = ""


@dataclass(frozen=True, slots=True)
class AgentMetadata:
    """The parsed and checked content of the metadata ConfigMap."""

    commit: CommitId | None = None
    """None: the ref has not been resolved yet."""
    ref: GitRef | None = None
    trigger: str = ""
    triggered_at: str = ""
    traceparent: str = ""
    """The trace of the work that selected this commit; for tracing only."""
    git_url: RepoUrl | None = None
    auth_type: GitAuthKind = GitAuthKind.NONE
    auth_secret: SecretKey | None = None
    api_key: SecretKey | None = None
    gateway_port: int = 0
    gateway_tls: bool = True
    exclude_patterns: tuple[str, ...] = ()
    paused: bool = False
    terminating: bool = False
    protocol_version: str = PROTOCOL_VERSION
    agent_spec: str = ""
    targets: Mapping[str, GatewayTarget] = field(default_factory=dict)
    """By gateway, or by pod; a gateway without an entry takes `commit`."""
    status_key_mode: StatusKeyMode = StatusKeyMode.GATEWAY
    status_shards: Mapping[str, int] = field(default_factory=dict)
    """By status key; an agent without an entry reports to the main status ConfigMap."""
    rollback: RollbackRequest | None = None
    changes: Mapping[str, ChangeSetReply] = field(default_factory=dict)
    """By gateway, or by pod: the reply to its last change set."""

    def data(self) -> dict[str, str]:
        """Return the ConfigMap's data; `parse` of it returns this value again."""
        auth, api_key = self.auth_secret or SecretKey("", ""), self.api_key or SecretKey("", "")
        flat = {
            "commit": self.commit or "",
            "ref": self.ref or "",
            "trigger": self.trigger,
            "triggeredAt": self.triggered_at,
            "gitURL": self.git_url or "",
            "authType": self.auth_type,
            "authSecretName": auth.name,
            "authSecretKey": auth.key,
            "apiKeySecret": api_key.name,
            "apiKeySecretKey": api_key.key,
            "gatewayPort": str(self.gateway_port),
            "gatewayTLS": _format_bool(self.gateway_tls),
            "excludePatterns": ",".join(self.exclude_patterns),
            "paused": _format_bool(self.paused),
            "terminating": _format_bool(self.terminating),
            "protocolVersion": self.protocol_version,
            "statusKeyMode": self.status_key_mode,
        }
        larger = {
            "agentSpec": self.agent_spec,
            "targets": compact_json(to_plain(self.targets)) if self.targets else "",
            "statusShards": compact_json(to_plain(self.status_shards)) if self.status_shards else "",
            "rollback": compact_json(to_plain(self.rollback)) if self.rollback else "",
            "changes": compact_json(to_plain(self.changes)) if self.changes else "",
            "traceparent": self.traceparent,
        }
        return {name: str(value) for name, value in {**flat, **larger}.items() if name in flat or value}

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> AgentMetadata:
        """Parse the data of a ConfigMap; raise `InvalidValue` for the first invalid key."""
        version = _read_key(data, "protocolVersion", decode.parse_version, PROTOCOL_VERSION)
        return cls(
            commit=_read_key(data, "commit", CommitId, None),
            ref=_read_key(data, "ref", GitRef, None),
            trigger=_read_key(data, "trigger", decode.parse_word, ""),
            triggered_at=_read_key(data, "triggeredAt", decode.parse_word, ""),
            traceparent=valid_traceparent(data.get("traceparent")),
            git_url=_read_key(data, "gitURL", SourceUrl, None),
            auth_type=_read_key(data, "authType", decode.enum_parser(GitAuthKind), GitAuthKind.NONE),
            auth_secret=_secret_key(data, "authSecretName", "authSecretKey"),
            api_key=_secret_key(data, "apiKeySecret", "apiKeySecretKey"),
            gateway_port=_read_key(data, "gatewayPort", decode.parse_port, 0),
            gateway_tls=_read_key(data, "gatewayTLS", decode.parse_switch, True),
            exclude_patterns=_read_key(data, "excludePatterns", decode.parse_patterns, ()),
            paused=_read_key(data, "paused", decode.parse_switch, False),
            terminating=_read_key(data, "terminating", decode.parse_switch, False),
            protocol_version=version,
            agent_spec=_read_key(data, "agentSpec", decode.parse_text, ""),
            targets=_read_key(data, "targets", _parse_targets, {}),
            status_key_mode=_read_key(
                data, "statusKeyMode", decode.enum_parser(StatusKeyMode), StatusKeyMode.GATEWAY
            ),
            status_shards=_read_key(data, "statusShards", _parse_shards, {}),
            rollback=_read_key(data, "rollback", _parse_rollback, None),
            changes=_read_key(data, "changes", _parse_changes, {}),
        )


def is_digest(text: str) -> bool:
    """Return whether the text has the form of a plan's digest."""
    return _DIGEST.fullmatch(text) is not None


def is_terminating(data: Mapping[str, str]) -> bool:
    """Return whether the resource is being deleted; checked first, even if other keys are invalid."""
    return data.get("terminating", "").strip() == "true"


D = TypeVar("D")


def _read_key(data: Mapping[str, str], key: str, parse: Callable[[str], T], default: D) -> T | D:
    text = data.get(key, "").strip()
    if not text:
        return default
    try:
        return parse(text)
    except Stalled as error:
        if error.reason is Reason.PROTOCOL_TOO_NEW:
            raise
        raise InvalidValue(f"metadata key {key}: {error.message}", reason=Reason.METADATA_INVALID) from None


def _secret_key(data: Mapping[str, str], name: str, key: str) -> SecretKey | None:
    def checked(form: re.Pattern[str]) -> Callable[[str], str]:
        def read(text: str) -> str:
            if not form.fullmatch(text) or text in (".", ".."):
                raise InvalidValue(f"{quote_value(text)} is not the name of a Secret or of one of its keys")
            return text

        return read

    found = _read_key(data, name, checked(_OBJECT_NAME), "")
    return SecretKey(found, _read_key(data, key, checked(_DATA_KEY), "")) if found else None


def _parse_targets(text: str) -> dict[str, GatewayTarget]:
    entries = parse_object(text, "it", at_most=MAX_JSON)
    if len(entries) > MAX_ENTRIES:
        raise InvalidValue(f"it holds more than {MAX_ENTRIES} gateways")
    return {name: _parse_target(name, value) for name, value in entries.items()}


def _parse_target(name: str, value: object) -> GatewayTarget:
    said = {"commit": value} if isinstance(value, str) else value
    if not isinstance(said, dict) or not isinstance(said.get("commit"), str):
        raise InvalidValue(f"the target of {quote_value(name)} names no commit")
    mode, plan = said.get("mode", "apply"), said.get("plan") or ""
    if mode not in tuple(SyncMode):
        raise InvalidValue(
            f"the target of {quote_value(name)} has mode {quote_value(mode)}, which is neither plan nor apply"
        )
    if not isinstance(plan, str) or (plan and not is_digest(plan)):
        raise InvalidValue(f"the target of {quote_value(name)} names a plan that is no digest")
    return GatewayTarget(CommitId(said["commit"]), SyncMode(mode), plan)


def _parse_shards(text: str) -> dict[str, int]:
    entries = parse_object(text, "it", at_most=MAX_JSON)
    for name, number in entries.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ENTRIES:
            raise InvalidValue(f"the shard of {quote_value(name)} is not a number from 0 to {MAX_ENTRIES}")
    return entries


def _parse_rollback(text: str) -> RollbackRequest:
    said = parse_object(text, "it", at_most=MAX_JSON)
    values = {name: said.get(name) or "" for name in ("id", "toCommit", "toSnapshot")}
    for name, value in values.items():
        if not isinstance(value, str) or len(value) > MAX_WORD or not value.isprintable():
            raise InvalidValue(f"{name} is not a line of text")
    commit, snapshot = values["toCommit"], values["toSnapshot"]
    if bool(commit) == bool(snapshot):
        raise InvalidValue("it names either a commit or a snapshot to go back to")
    return RollbackRequest(values["id"] or commit or snapshot, CommitId(commit) if commit else None, snapshot)


def _parse_changes(text: str) -> dict[str, ChangeSetReply]:
    entries = parse_object(text, "it", at_most=MAX_JSON)
    if len(entries) > MAX_ENTRIES:
        raise InvalidValue(f"it holds more than {MAX_ENTRIES} gateways")
    return parse_answers(entries)


def _format_bool(value: bool) -> str:
    return "true" if value else "false"
