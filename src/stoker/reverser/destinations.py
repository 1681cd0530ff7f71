"""Decide which GitDestinations can be written, where, and what is wrong with the others. Pure.

`supervisor` passes in the objects of the four kinds (`DeclaredConfig`) and gets a `DestinationPlan`, a new
plan whenever something changes. Every refusal carries its reason, for the condition of the object that caused
it.

Of two destinations whose folders overlap, the destination that already writes the folder (by its status)
keeps it, otherwise the older of the two. A working destination must not stop because another object was added
or now points to the same repository.

A worker writes one branch of one repository (`BranchKey`). URLs that differ only in spelling or in transport
are one repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker.api.kinds.destinations import (
    GROUP,
    MAX_APPROVALS,
    GitDestination,
    GitRepoConfig,
    WrittenFolder,
    allows_namespace,
)
from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.api.to_intent.annotations.annotation_requests import APPROVED_PLAN
from stoker.domain.deletion_guard import DeletionLimits
from stoker.domain.errors import InvalidValue, Stalled, StokerError, Wait
from stoker.domain.paths import RelPath
from stoker.domain.quantities import parse_duration, parse_quantity
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.domain.repository_identity import may_be_same, normalize_repository
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.manifest.secret_policy import SecretPolicy, own_secrets
from stoker.reverser.selection.rules import DestinationRef, SelectionRule, resource_rules
from stoker.reverser.writer.batch import BatchLimits, PushCadence
from stoker.reverser.writer.commit_message import MessageTemplate

AnyRule = WatchRule | ClusterWatchRule

_RECHECK_SECONDS = 60.0
_LIMITS = BatchLimits()
_CADENCE = PushCadence()
_BUDGET = DeletionLimits()
APPROVAL = f"{GROUP}/{APPROVED_PLAN}"


class RepoConfigRef(NamedTuple):
    """A `GitRepoConfig`: it names the repository and its credentials."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class WatchRuleKey(NamedTuple):
    """A WatchRule or ClusterWatchRule; the namespace of a ClusterWatchRule is empty."""

    kind: str
    namespace: str
    name: str


class BranchKey(NamedTuple):
    """The repository and branch that one worker writes."""

    repository: str
    """The normalized URL, without the parts that do not distinguish repositories."""
    branch: str

    @property
    def hash(self) -> str:
        return hashlib.sha256(f"{self.repository}\n{self.branch}".encode()).hexdigest()[:16]

    @property
    def lease(self) -> str:
        return f"gitops-reverser-{self.hash}"


@dataclass(frozen=True, slots=True)
class WritableDestination:
    """A GitDestination that can be written, with all of its settings resolved."""

    ref: DestinationRef
    uid: str
    config: RepoConfigRef
    url: RepoUrl
    place: BranchKey
    base: str
    login: SecretRef | None = None
    signing: SecretRef | None = None
    exclusive: bool = False
    prune: str = "Always"
    policy: SecretPolicy = SecretPolicy.EXCLUDE
    recipients: tuple[str, ...] = ()
    limits: BatchLimits = _LIMITS
    cadence: PushCadence = _CADENCE
    template: str = ""
    budget: DeletionLimits = _BUDGET
    approvals: tuple[str, ...] = ()
    """Digests of held deletion plans that a person approved."""
    approvals_used: frozenset[str] = field(default=frozenset(), compare=False)
    """The approvals of these that its status reports as used."""
    held_before: bool = field(default=False, compare=False)
    """Whether its status reports held deletions."""
    writes: bool = field(default=False, compare=False)
    """Whether its status reports that it writes exactly this folder."""

    @property
    def folder(self) -> WrittenFolder:
        repository, branch = self.place
        return WrittenFolder(repository=repository, branch=str(branch), base_folder=str(self.base))


@dataclass(frozen=True, slots=True)
class DeclaredConfig:
    """The objects of the reverser's four kinds, as read from the cluster."""

    configs: Sequence[GitRepoConfig] = ()
    destinations: Sequence[GitDestination] = ()
    rules: Sequence[AnyRule] = ()
    unreadable: Collection[tuple[str, str, str]] = ()
    """Kind, namespace and name of objects that do not fit their schema."""
    named: Collection[SecretRef] = ()
    """Secrets named by the product's other resources, or by a GitRepoConfig that does not fit its schema."""


@dataclass(frozen=True, slots=True)
class DestinationPlan:
    """The destinations to write, the rules that apply to them, and every refusal with its reason."""

    destinations: Mapping[DestinationRef, WritableDestination] = field(default_factory=dict)
    refused: Mapping[DestinationRef, StokerError] = field(default_factory=dict)
    rules: tuple[SelectionRule, ...] = ()
    """The rules whose destination can be written."""
    refused_rules: Mapping[WatchRuleKey, StokerError] = field(default_factory=dict)
    own: frozenset[SecretRef] = frozenset()
    """Secrets that resources of the product name; they are never written."""

    @property
    def places(self) -> frozenset[BranchKey]:
        return frozenset(each.place for each in self.destinations.values())


def arrange_destinations(stated: DeclaredConfig, *, limits: BatchLimits = _LIMITS) -> DestinationPlan:
    """Validate all destinations and rules; `limits` apply to destinations that set none."""
    configs = {RepoConfigRef(one.metadata.namespace, one.metadata.name): one for one in stated.configs}
    usable: dict[DestinationRef, WritableDestination] = {}
    refused: dict[DestinationRef, StokerError] = {}
    candidates: list[tuple[GitDestination, WritableDestination]] = []
    for one in sorted(stated.destinations, key=_destination_age):
        ref = DestinationRef(one.metadata.namespace, one.metadata.name)
        try:
            candidates.append((one, _destination(one, ref, configs, stated.unreadable, limits)))
        except StokerError as error:
            refused[ref] = error
    owners: list[WritableDestination] = []  # suspended destinations too: they keep their folder
    for one, made in sorted(candidates, key=lambda each: not each[1].writes):
        try:
            _check_overlap(made, owners)
            owners.append(made)
            _check_suspended(one, configs[made.config])
        except StokerError as error:
            refused[made.ref] = error
        else:
            usable[made.ref] = made
    rules: list[SelectionRule] = []
    refused_rules: dict[WatchRuleKey, StokerError] = {}
    lost = {DestinationRef(*name) for kind, *name in stated.unreadable if kind == "GitDestination"}
    for ref in lost:
        refused[ref] = Stalled("it does not fit its schema", reason=Reason.INVALID_SPEC)
    allowed = {
        DestinationRef(one.metadata.namespace, one.metadata.name): one.spec.allowed_namespaces
        for one in stated.destinations
    }
    for each in stated.rules:
        key = rule_key(each)
        why = _rule_problem(each, usable, refused, allowed)
        if why is None:
            rules += resource_rules(each)
        else:
            refused_rules[key] = why
    own = own_secrets(list(stated.configs)) | frozenset(stated.named)
    return DestinationPlan(usable, refused, tuple(rules), refused_rules, own)


def rule_key(rule: AnyRule) -> WatchRuleKey:
    namespace = rule.metadata.namespace if isinstance(rule, WatchRule) else ""
    return WatchRuleKey(type(rule).__name__, namespace, rule.metadata.name)


def rule_destination(rule: AnyRule) -> DestinationRef:
    to = rule.spec.destination_ref
    return DestinationRef(to.namespace or rule.metadata.namespace, to.name)


def _destination(
    one: GitDestination,
    ref: DestinationRef,
    configs: Mapping[RepoConfigRef, GitRepoConfig],
    unreadable: Collection[tuple[str, str, str]],
    limits: BatchLimits,
) -> WritableDestination:
    spec = one.spec
    wanted = RepoConfigRef(spec.repo_ref.namespace or ref.namespace, spec.repo_ref.name)
    config = configs.get(wanted)
    if not allows_namespace(
        wanted.namespace, ref.namespace, config.spec.allowed_namespaces if config else None
    ):
        # The answer is the same whether the GitRepoConfig exists or not, so that it does not disclose what
        # another namespace holds.
        raise Stalled(
            f"GitRepoConfig {wanted} does not allow GitDestinations of namespace {ref.namespace}: "
            f"its owner can add it to spec.allowedNamespaces",
            reason=Reason.REPO_POLICY_DENIED,
        )
    if config is None and ("GitRepoConfig", *wanted) in unreadable:
        raise Stalled(f"GitRepoConfig {wanted} does not fit its schema", reason=Reason.INVALID_SPEC)
    if config is None:
        raise Wait(
            f"GitRepoConfig {wanted} does not exist",
            after=_RECHECK_SECONDS,
            reason=Reason.WAITING_DEPENDENCIES,
        )
    if spec.branch not in config.spec.allowed_branches:
        raise Stalled(
            f"GitRepoConfig {wanted} does not allow branch {spec.branch!r}", reason=Reason.BRANCH_NOT_ALLOWED
        )
    base = RelPath.clean(spec.base_folder)
    if not base:
        raise InvalidValue("spec.baseFolder names no folder", reason=Reason.INVALID_SPEC)
    template = spec.commit.template if spec.commit and spec.commit.template else ""
    if template:
        MessageTemplate(template)
    login, signing = config.spec.secret_ref, config.spec.signing
    url = RepoUrl(config.spec.repo_url)
    made = WritableDestination(
        ref,
        one.metadata.uid,
        wanted,
        url,
        BranchKey(normalize_repository(url), spec.branch),
        base,
        SecretRef(wanted.namespace, login.name) if login else None,
        SecretRef(wanted.namespace, signing.secret_ref.name) if signing else None,
        spec.exclusive_mode,
        spec.prune,
        SecretPolicy(spec.secret_policy),
        tuple(spec.encryption.recipients) if spec.encryption else (),
        _limits(one, limits),
        _cadence(config),
        template,
        _budget(one),
        approved_digests(one.metadata.annotations or {}),
    )
    if one.status is None:
        return made
    return replace(
        made,
        approvals_used=frozenset(one.status.approvals_used or ()),
        held_before=one.status.held_deletions is not None,
        writes=one.status.folder == made.folder,
    )


def approved_digests(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the digests in the annotation by which a person approves held deletions."""
    digests = (text for part in annotations.get(APPROVAL, "").split(",") if (text := part.strip()))
    return tuple(digests)[-MAX_APPROVALS:]


def _budget(one: GitDestination) -> DeletionLimits:
    budget, default = one.spec.deletion_budget, DeletionLimits()
    if budget is None:
        return default
    files = default.files if budget.files is None else budget.files
    percent = default.percent if budget.percent is None else budget.percent
    return DeletionLimits(files, percent)


def _limits(one: GitDestination, limits: BatchLimits) -> BatchLimits:
    batch = one.spec.batch
    if batch is None:
        return limits
    if batch.max_files is not None:
        limits = limits._replace(max_files=batch.max_files)
    if batch.max_bytes is not None:
        limits = limits._replace(max_bytes=max(1, parse_quantity(batch.max_bytes)))
    if batch.max_wait is not None:
        limits = limits._replace(max_wait=parse_duration(batch.max_wait))
    return limits


def _cadence(config: GitRepoConfig) -> PushCadence:
    push = config.spec.push
    if push is None:
        return PushCadence()
    return PushCadence(parse_duration(push.interval) if push.interval else 0.0, push.max_commits)


def _check_overlap(own: WritableDestination, others: Iterable[WritableDestination]) -> None:
    for other in others:
        same = may_be_same(own.place.repository, other.place.repository)
        if not same or own.place.branch != other.place.branch:
            continue
        mine, theirs = RelPath(own.base), RelPath(other.base)
        if mine.is_below(theirs) or theirs.is_below(mine):
            raise Stalled(
                f"spec.baseFolder {own.base!r} overlaps {other.base!r} of GitDestination {other.ref}, "
                f"which {'writes there already' if other.writes else 'is older'}, "
                f"on branch {own.place.branch!r} of the same repository",
                reason=Reason.FOLDERS_OVERLAP,
            )


def _check_suspended(one: GitDestination, config: GitRepoConfig) -> None:
    for spec, what in ((one.spec, "spec.suspend"), (config.spec, "spec.suspend of its GitRepoConfig")):
        if spec.suspend:
            raise Wait(
                f"nothing is written while {what} is true", after=_RECHECK_SECONDS, reason=Reason.SUSPENDED
            )


def _rule_problem(
    rule: AnyRule,
    usable: Mapping[DestinationRef, WritableDestination],
    refused: Mapping[DestinationRef, StokerError],
    allowed: Mapping[DestinationRef, Collection[str] | None],
) -> StokerError | None:
    ref = rule_destination(rule)
    home = rule.metadata.namespace if isinstance(rule, WatchRule) else ref.namespace
    if not allows_namespace(ref.namespace, home, allowed.get(ref)):
        return Stalled(
            f"GitDestination {ref} does not allow WatchRules of namespace {home}: "
            f"its owner can add it to spec.allowedNamespaces",
            reason=Reason.DESTINATION_POLICY_DENIED,
        )
    if ref in usable:
        return None
    why = refused.get(ref)
    if why is None:
        return Wait(
            f"GitDestination {ref} does not exist", after=_RECHECK_SECONDS, reason=Reason.WAITING_DEPENDENCIES
        )
    sentence = f"GitDestination {ref} cannot be written: {why.message}"
    if isinstance(why, Wait):
        return Wait(sentence, after=_RECHECK_SECONDS, reason=why.reason)
    return Stalled(sentence, reason=why.reason)


def _destination_age(one: GitDestination) -> tuple[str, str, str]:
    head = one.metadata
    return head.creation_timestamp or "", head.namespace, head.name
