"""Explain why an object is, or is not, in git: the decisions of this package in order, as sentences.

For `stoker export --explain` and for messages. It calls the same functions that make the decisions, so an
explanation cannot differ from what happens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.manifest.path import ManifestKey, manifest_path
from stoker.reverser.manifest.secret_policy import SecretPolicy, is_secret, never_written_reason
from stoker.reverser.selection.labels import ObjectLabels
from stoker.reverser.selection.noise import noise_reason
from stoker.reverser.selection.preset import EXCLUDED, GroupResource
from stoker.reverser.selection.rules import DestinationRef, SelectionRule
from stoker.reverser.selection.selection import Selection


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """The settings of a destination that an explanation needs."""

    base: str
    policy: SecretPolicy = SecretPolicy.EXCLUDE


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """The facts beside the object itself: destinations, own Secrets, labels of its namespace, exclusions."""

    targets: Mapping[DestinationRef, ExplainTarget] = field(default_factory=dict)
    own: Collection[SecretRef] = ()
    namespace_labels: ObjectLabels | None = None
    excluded: frozenset[GroupResource] = EXCLUDED


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether the object has a file, and the sentences that give the reason."""

    written: bool
    lines: tuple[str, ...]


def explain(
    obj: Mapping[str, Any], key: ManifestKey, selection: Selection, around: ExplainContext
) -> Explanation:
    """Explain where and why the object is written, or name the first reason that keeps it out."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    taken = selection.taken_by(key, labels, around.namespace_labels)
    if not taken:
        return Explanation(False, tuple(_unselected_reasons(key, labels, selection, around)))
    why = never_written_reason(obj, key, around.own) or noise_reason(obj, key)
    if why is not None:
        return Explanation(False, (f"{key} is left out: {why}",))
    fates = [_destination_outcome(key, to, rules, around) for to, rules in taken.items()]
    return Explanation(any(written for written, _ in fates), tuple(line for _, line in fates))


def _destination_outcome(
    key: ManifestKey, to: DestinationRef, rules: tuple[SelectionRule, ...], around: ExplainContext
) -> tuple[bool, str]:
    by = ", ".join(str(rule.source) for rule in rules)
    target = around.targets.get(to)
    if target is None:
        return False, f"{key} is selected by {by}, whose destination {to} is not there"
    if is_secret(key) and target.policy is SecretPolicy.EXCLUDE:
        return False, f"{key} is left out of {to}: its secretPolicy is Exclude"
    how = f", {target.policy}" if is_secret(key) else ""
    return True, f"{key} is in {to} at {manifest_path(key, target.base)}{how}; selected by {by}"


def _unselected_reasons(
    key: ManifestKey, labels: ObjectLabels, selection: Selection, around: ExplainContext
) -> Iterator[str]:
    if GroupResource(key.group, key.resource) in around.excluded:
        yield f"{key} is left out: its kind is excluded from every rule"
        return
    naming = [rule for rule in selection.rules if rule.names(key.group, key.resource)]
    if not naming:
        yield f"{key} is left out: no rule names its kind"
        return
    taking = selection.rules_for(key)
    for rule in naming:
        yield f"{key} is left out: {rule.source} {_rule_mismatch(rule, key, labels, around, rule in taking)}"
    for inert in selection.inert:
        if inert.name.partition(".")[0] == key.resource:
            yield str(inert)


def _rule_mismatch(
    rule: SelectionRule, key: ManifestKey, labels: ObjectLabels, around: ExplainContext, selects_version: bool
) -> str:
    if not rule.reaches(key.namespace):
        where = f"namespace {rule.namespace}" if rule.namespace else "all namespaces"
        return f"looks into {where} only" if rule.namespaced else "looks only at objects in no namespace"
    if not selects_version:
        return f"does not select its kind in version {key.version}"
    if not rule.writes:
        return "has operations in which neither CREATE nor UPDATE is"
    misfit = rule.labels.misfit(labels)
    if misfit is not None:
        return f"asks for objects with the label {misfit}"
    if around.namespace_labels is None:
        return "asks for labels of its namespace, which are not known"
    return f"asks for namespaces with the label {rule.namespace_labels.misfit(around.namespace_labels)}"
