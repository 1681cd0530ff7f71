"""Collect the facts about each of the reverser's objects, for `status_writer`.

They come from the destination plan, the watches, the branch workers and the repository checks. This module
decides nothing: `conditions` turns the facts into conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig
from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.api.registry import CustomResourceKind
from stoker.domain.errors import InvalidValue, StokerError, Wait
from stoker.domain.reasons import Reason
from stoker.reverser.destinations import (
    AnyRule,
    BranchKey,
    DestinationPlan,
    RepoConfigRef,
    WatchRuleKey,
    WritableDestination,
    rule_destination,
    rule_key,
)
from stoker.reverser.manifest.secret_policy import SecretPolicy
from stoker.reverser.selection.kinds import InertName
from stoker.reverser.selection.noise import SECRETS
from stoker.reverser.selection.rules import DestinationRef, SelectionRule
from stoker.reverser.selection.selection import Selection, WatchedKind
from stoker.reverser.status.conditions import (
    DISABLED,
    DestinationFacts,
    RuleFacts,
    config_aspects,
    destination_aspects,
    rule_aspects,
)
from stoker.reverser.status.status_writer import DesiredStatus
from stoker.reverser.watch.config_watch import ConfigWatch, UnreadableConfig
from stoker.reverser.watch.watch_set import WatchSet
from stoker.reverser.writer.lease import BranchCandidate
from stoker.reverser.writer.replica_assignment import LiveReplicas
from stoker.reverser.writer.repo_check import RepoChecks
from stoker.reverser.writer.signing_keys import SigningKeys

_RECHECK_SECONDS = 60.0


class _SelectionIndex:
    """Indexes a selection by rule object, once per selection, because every push compares all statuses."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        rules: dict[tuple[str, ...], list[SelectionRule]] = {}
        for rule in selection.rules:
            rules.setdefault(rule.source[:3], []).append(rule)
        self._rules = rules
        self._watched: dict[tuple[str, ...], list[WatchedKind]] = {}
        self._inert: dict[tuple[str, ...], list[InertName]] = {}
        for each in selection.inert:
            self._inert.setdefault(each.rule[:3], []).append(each)
        self.with_secrets: frozenset[DestinationRef] = frozenset().union(
            *(
                selection.fed_by(watched)
                for watched in selection.watched
                if (watched.resource.group, watched.resource.plural) == SECRETS
            )
        )

    def inert(self, key: WatchRuleKey) -> list[InertName]:
        return self._inert.get(key[:3], [])

    def watched(self, key: WatchRuleKey) -> list[WatchedKind]:
        """Return the kinds and scopes that the rules of an object select."""
        if key not in self._watched:
            self._watched[key] = [
                watched
                for watched in self.selection.watched
                if any(_covers_watch(rule, watched) for rule in self._rules.get(key[:3], ()))
            ]
        return self._watched[key]


def _covers_watch(rule: SelectionRule, watched: WatchedKind) -> bool:
    return (
        rule.names(watched.resource.group, watched.resource.plural)
        and rule.namespaced is watched.resource.namespaced
        and watched.namespace in ("", rule.namespace)
    )


class StatusFacts:
    """Collects the wanted status of every object."""

    def __init__(
        self,
        stating: ConfigWatch,
        watches: WatchSet,
        candidate_of: Callable[[BranchKey], BranchCandidate | None],
        members: LiveReplicas,
        *,
        ingests: bool,
        keys: SigningKeys,
        trials: RepoChecks,
    ) -> None:
        self._stating = stating
        self._watches = watches
        self._candidate_of = candidate_of
        self._members = members
        self._ingests = ingests
        self._keys = keys
        self._trials = trials
        self.arrangement: DestinationPlan | None = None
        self._cached: _SelectionIndex | None = None

    def subjects(self) -> Iterator[tuple[CustomResourceKind, Any, Callable[[], DesiredStatus | None]]]:
        """Yield all objects and a function for the wanted status: None if another replica writes it."""
        if self.arrangement is None:
            return
        for kind, one in self._stating.every():
            if isinstance(one, UnreadableConfig):
                yield kind, one, partial(self._unreadable, kind, one)
            elif isinstance(one, GitDestination):
                yield kind, one, partial(self._destination, self.arrangement, one)
            elif isinstance(one, GitRepoConfig):
                yield kind, one, partial(self._config, self.arrangement, one)
            elif isinstance(one, WatchRule | ClusterWatchRule):
                yield kind, one, partial(self._rule, self.arrangement, one)

    # One method per kind, and one for unreadable objects.

    def _unreadable(self, kind: CustomResourceKind, one: UnreadableConfig) -> DesiredStatus | None:
        error = InvalidValue(f"the object does not fit its schema: {one.why}", reason=Reason.INVALID_SPEC)
        if kind.name == "GitDestination":
            return self._refused(error)
        told = (
            config_aspects(error, False, False)
            if kind.name == "GitRepoConfig"
            else rule_aspects(RuleFacts(error))
        )
        return DesiredStatus(told, error) if self._members.speaks else None

    def _destination(self, arrangement: DestinationPlan, one: GitDestination) -> DesiredStatus | None:
        ref = DestinationRef(one.metadata.namespace, one.metadata.name)
        if not self._ingests:
            return self._disabled_destination()
        destination = arrangement.destinations.get(ref)
        if destination is None:
            return self._refused(arrangement.refused.get(ref))
        candidate = self._candidate_of(destination.place)
        if candidate is None or not self._speaks_for(candidate):
            return None
        truth = self._destination_truth(destination, candidate)
        error = truth.error or truth.trouble or truth.stalled_by_deletions
        box = candidate.worker.outboxes.get(ref)
        if box is None:
            return DesiredStatus(destination_aspects(truth), error)
        return DesiredStatus(
            destination_aspects(truth),
            error,
            box.last_commit,
            box.last_push,
            orphans_kept=box.orphans_kept,
            recent=box.recent,
            pending=box.pending,
            pending_at=box.batcher.unsettled_since(),
            held=box.brake.plan,
            held_is_known=box.brake.plan is not None or (box.is_open and not box.brake.engaged),
            approvals_used=box.brake.approvals_used,
            folder=destination.folder if box.is_open else None,
        )

    def _rule(self, arrangement: DestinationPlan, one: AnyRule) -> DesiredStatus | None:
        if not self._ingests:
            return (
                DesiredStatus(rule_aspects(RuleFacts(DISABLED)), DISABLED) if self._members.speaks else None
            )
        why = arrangement.refused_rules.get(rule_key(one))
        if why is not None:
            if not self._members.speaks:
                return None
            return DesiredStatus(
                rule_aspects(RuleFacts(why, inert=self._selected().inert(rule_key(one)))), why
            )
        destination = arrangement.destinations.get(rule_destination(one))
        candidate = self._candidate_of(destination.place) if destination is not None else None
        if destination is None or candidate is None or not self._speaks_for(candidate):
            return None
        truth = self._rule_truth(one, destination, candidate)
        return DesiredStatus(rule_aspects(truth), truth.error or truth.push_error)

    def _config(self, arrangement: DestinationPlan, one: GitRepoConfig) -> DesiredStatus | None:
        ref = RepoConfigRef(one.metadata.namespace, one.metadata.name)
        users = sorted(
            (each for each in arrangement.destinations.values() if each.config == ref), key=lambda it: it.ref
        )
        error: StokerError | None = None
        if not self._ingests:
            error = DISABLED
        elif one.spec.suspend:
            error = Wait("spec.suspend is true", after=_RECHECK_SECONDS, reason=Reason.SUSPENDED)
        trial = self._trials.outcome(ref)
        key = self._keys.public_key(ref)
        if key is None and one.spec.signing is not None and one.status is not None:
            key = one.status.signing_public_key  # an earlier replica learned it
        if error is not None or not users:
            error = error or (trial and trial.error)
            told = config_aspects(error, False, trial is not None)
            return DesiredStatus(told, error, public_key=key) if self._members.speaks else None
        candidate = self._candidate_of(users[0].place)
        if candidate is None or not self._speaks_for(candidate):
            return None
        writers = [
            writer
            for place in {each.place for each in users}
            if (found := self._candidate_of(place)) is not None
            for writer in found.worker.writers
            if writer.config == ref
        ]
        error = next((writer.error for writer in writers if writer.error is not None), trial and trial.error)
        reached = any(box.is_open for writer in writers for box in writer.outboxes.values())
        return DesiredStatus(config_aspects(error, True, reached), error, public_key=key)

    # Facts.

    def _destination_truth(
        self, destination: WritableDestination, candidate: BranchCandidate
    ) -> DestinationFacts:
        writer = candidate.worker.writer_of(destination.ref)
        box = writer.outboxes.get(destination.ref) if writer is not None else None
        included = destination.policy is SecretPolicy.INCLUDE
        clear = included and destination.ref in self._selected().with_secrets
        left_out = self._why_no_secrets(destination)
        if writer is None or box is None:
            return DestinationFacts(lease=candidate.lease, secrets_in_clear=clear, secrets_left_out=left_out)
        return DestinationFacts(
            error=writer.error,
            lease=candidate.lease,
            is_open=box.is_open,
            marker=box.marker,
            marker_trouble=box.marker_trouble,
            exclusive=destination.exclusive,
            trouble=box.trouble,
            unwritten=box.unwritten,
            looping=box.loops.held,
            secrets_in_clear=clear,
            secrets_left_out=left_out,
            held=box.brake.plan,
        )

    def _why_no_secrets(self, destination: WritableDestination) -> str:
        if why := self._stating.why_no_secrets:
            return f"Secrets are not written: {why}"
        if destination.policy is SecretPolicy.EXCLUDE:
            return "Secrets are not written: spec.secretPolicy is Exclude"
        return ""

    def _rule_truth(
        self, one: AnyRule, destination: WritableDestination, candidate: BranchCandidate
    ) -> RuleFacts:
        writer = candidate.worker.writer_of(destination.ref)
        box = writer.outboxes.get(destination.ref) if writer is not None else None
        selected, key = self._selected(), rule_key(one)
        watched = selected.watched(key)
        watches = {each: self._watches.find(each) for each in watched}
        failing = {
            each: watch.error
            for each, watch in watches.items()
            if watch is not None and watch.error is not None
        }
        seeded = bool(watched) and all(
            watch is not None and destination.ref in watch.seeded for watch in watches.values()
        )
        return RuleFacts(
            error=box.trouble if box is not None else None,
            push_error=writer.error if writer is not None else None,
            inert=selected.inert(key),
            watched=watched,
            failing=failing,
            seeded=seeded,
        )

    def _refused(self, why: StokerError | None) -> DesiredStatus | None:
        if not self._members.speaks:
            return None
        error = why or InvalidValue("the destination is not known yet")
        return DesiredStatus(destination_aspects(DestinationFacts(error, lease=None)), error)

    def _disabled_destination(self) -> DesiredStatus | None:
        if not self._members.speaks:
            return None
        return DesiredStatus(destination_aspects(DestinationFacts(DISABLED, lease=None)), DISABLED)

    def _speaks_for(self, candidate: BranchCandidate) -> bool:
        if candidate.worker.leading:
            return True
        return not candidate.is_spoken_for and self._members.speaks

    def _selected(self) -> _SelectionIndex:
        selection = self._watches.around.selection
        if self._cached is None or self._cached.selection is not selection:
            self._cached = _SelectionIndex(selection)
        return self._cached
