"""Turns the options of `stoker export` into a job: rules, destinations, and where to write.

Rules come from files with `WatchRule` and `ClusterWatchRule` manifests, or are the preset. A `GitDestination`
in the files has the same effect as in a cluster: its folder, its policy and its recipients apply. Objects
without a destination in the files use those of the options. There the Secret policy defaults to `Redact`,
because a folder is easily pushed to a repository later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig
from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.api.manifests.files import read_manifests
from stoker.cli.common import option_types
from stoker.cli.common.manifest_files import read_bounded, with_namespace
from stoker.domain.deletion_guard import DeletionLimits
from stoker.domain.errors import InvalidValue, Misconfigured, Stalled
from stoker.domain.intent.files import DeletionPolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.reverser.encryption.digests import MIN_KEY_BYTES, DigestKeys
from stoker.reverser.export.types import ExportJob
from stoker.reverser.manifest.secret_policy import SecretPolicy, own_secrets
from stoker.reverser.selection.explain import ExplainTarget
from stoker.reverser.selection.preset import excluded_kinds
from stoker.reverser.selection.rules import DestinationRef, SelectionRule, preset_rules, resource_rules

EXPORT_DESTINATION = DestinationRef("", "the export")
"""The destination of objects that no GitDestination of the files receives."""


class ExportOptions(NamedTuple):
    """The options as the user wrote them."""

    rules: tuple[str, ...] = ()
    preset: bool = False
    namespaces: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    base_folder: str = ""
    secret_policy: str | None = None
    recipients: tuple[str, ...] = ()
    digest_key_file: Path | None = None
    prune: bool = False
    deletion_budget: str | None = None
    approve_plan: str = ""


class ExportRequest(NamedTuple):
    """The job, and warnings to print before it runs."""

    job: ExportJob
    warnings: tuple[str, ...]


def build_export_job(wanted: ExportOptions, home: str) -> ExportRequest:
    """Return the job as one value; `home` is the default namespace of manifests."""
    if wanted.rules and wanted.preset:
        raise InvalidValue("--rules and --preset both select what is exported; give one of them")
    base = RelPath.clean(wanted.base_folder) if wanted.base_folder else RelPath("")
    resources = [each for name in wanted.rules for each in read_manifests(read_bounded(name), name)]
    stated = [
        each if isinstance(each, ClusterWatchRule) else with_namespace(each, home) for each in resources
    ]
    rules, targets, recipients, warnings = _rules_from_manifests(stated, wanted, base)
    if not wanted.rules:
        rules = preset_rules(EXPORT_DESTINATION)
    elif not rules and warnings:
        raise Stalled(f"there is nothing to export: {'; '.join(warnings)}", reason=Reason.SUSPENDED)
    elif not rules:
        raise InvalidValue(
            "the files hold no WatchRule and no ClusterWatchRule, so nothing is selected for export"
        )
    rules = tuple(_limit_to_namespaces(rules, wanted.namespaces)) if wanted.namespaces else rules
    if EXPORT_DESTINATION in {rule.destination for rule in rules}:
        policy = SecretPolicy(wanted.secret_policy or SecretPolicy.REDACT)
        targets[EXPORT_DESTINATION] = ExplainTarget(base, policy)
        recipients[EXPORT_DESTINATION] = wanted.recipients
    if wanted.approve_plan and not wanted.prune:
        raise InvalidValue("--approve-plan has no effect without --prune")
    _check_recipients(wanted, targets, recipients)
    policies = {target.policy for target in targets.values()}
    if SecretPolicy.ENCRYPT in policies and wanted.digest_key_file is None:
        warnings.append(
            "without --digest-key-file every Secret is encrypted again, and so changes, on each export"
        )
    deletion = option_types.parse_deletion_policy(wanted.deletion_budget, None, DeletionPolicy())
    job = ExportJob(
        rules,
        targets,
        recipients,
        excluded_kinds(wanted.excludes),
        own_secrets([each for each in stated if isinstance(each, GitRepoConfig)]),
        read_digest_keys(wanted.digest_key_file) if SecretPolicy.ENCRYPT in policies else None,
        wanted.prune,
        DeletionLimits(deletion.budget_files, deletion.budget_percent),
        option_types.parse_digest(wanted.approve_plan),
    )
    return ExportRequest(job, tuple(warnings))


def repository_of(to: str) -> RepoUrl | None:
    """The repository that `--to` names, or None if it names a folder."""
    host, colon, _ = to.partition(":")
    is_address = "://" in to or (colon and "@" in host and "/" not in host)
    return RepoUrl(to) if is_address else None


def read_digest_keys(path: Path | None) -> DigestKeys | None:
    """Read the key from a file; a missing file is created with a new key."""
    if path is None:
        return None
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(MIN_KEY_BYTES))
    except FileExistsError:
        pass
    except OSError as error:
        raise Misconfigured(f"--digest-key-file {path} cannot be created: {error.strerror}") from None
    try:
        with path.open("rb") as file:
            return DigestKeys(Secret(file.read(4096)))
    except OSError as error:
        raise Misconfigured(f"--digest-key-file {path} cannot be read: {error.strerror}") from None
    except InvalidValue as error:
        raise InvalidValue(f"--digest-key-file {path}: {error.message}") from None


def _rules_from_manifests(
    stated: Sequence[CustomResource], wanted: ExportOptions, base: str
) -> tuple[
    tuple[SelectionRule, ...],
    dict[DestinationRef, ExplainTarget],
    dict[DestinationRef, tuple[str, ...]],
    list[str],
]:
    targets: dict[DestinationRef, ExplainTarget] = {}
    recipients: dict[DestinationRef, tuple[str, ...]] = {}
    suspended: set[DestinationRef] = set()
    warnings: list[str] = []
    for each in stated:
        if isinstance(each, GitDestination):
            ref = DestinationRef(each.metadata.namespace, each.metadata.name)
            if each.spec.suspend:
                suspended.add(ref)
                warnings.append(f"GitDestination {ref} is suspended: nothing is exported to it")
            policy = SecretPolicy(wanted.secret_policy or each.spec.secret_policy)
            inner = RelPath.clean(each.spec.base_folder)
            targets[ref] = ExplainTarget(f"{base}/{inner}" if base else inner, policy)
            recipients[ref] = wanted.recipients or tuple(
                each.spec.encryption.recipients if each.spec.encryption else ()
            )
        elif not isinstance(each, WatchRule | ClusterWatchRule | GitRepoConfig):
            warnings.append(f"{type(each).__name__} {each.metadata.name} is not used by an export")
    rules = [
        rule if rule.destination in targets else replace(rule, destination=EXPORT_DESTINATION)
        for each in stated
        if isinstance(each, WatchRule | ClusterWatchRule)
        for rule in resource_rules(each)
        if rule.destination not in suspended
    ]
    return tuple(rules), {r: t for r, t in targets.items() if r not in suspended}, recipients, warnings


def _limit_to_namespaces(
    rules: Iterable[SelectionRule], namespaces: Sequence[str]
) -> Iterable[SelectionRule]:
    """The rules, limited to these namespaces."""
    chosen = sorted(set(namespaces))
    for rule in rules:
        if rule.namespace:
            if rule.namespace in chosen:
                yield rule
        elif rule.namespaced:
            yield from (replace(rule, namespace=each) for each in chosen)


def _check_recipients(
    wanted: ExportOptions,
    targets: dict[DestinationRef, ExplainTarget],
    recipients: dict[DestinationRef, tuple[str, ...]],
) -> None:
    """Raise, before anything is read, if a destination that encrypts has no recipient."""
    encrypting = [ref for ref, target in targets.items() if target.policy is SecretPolicy.ENCRYPT]
    if not encrypting:
        for flag, value in (
            ("--recipient", wanted.recipients),
            ("--digest-key-file", wanted.digest_key_file),
        ):
            if value:
                raise InvalidValue(f"{flag} has no effect without --secret-policy Encrypt")
        return
    from stoker.reverser.encryption.sealer import parse_recipients  # noqa: PLC0415 - loads a library

    for ref in encrypting:
        if not recipients.get(ref):
            raise InvalidValue(f"--recipient is missing: no one could decrypt the Secrets of {ref}")
        parse_recipients(recipients[ref])
