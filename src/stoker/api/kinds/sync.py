"""The common spec of `IgnitionSync` and `Stoker`, and the rules that make a spec complete.

Fields that a base could supply are not `required` in the schema. Instead the rules in
`COMPLETE` require them: the API server applies these rules to resources that inherit nothing,
and `stoker.api.to_intent.inheritance` applies them to the result of a merge.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from stoker.api.field_docs import FieldRule, describe, describe_nullable, text_bounds
from stoker.api.kinds.policies import InheritableSpec
from stoker.api.spec.delivery import AutoRollbackSpec, DeploymentSpec, RollbackSpec
from stoker.api.spec.git import GitSourceSpec
from stoker.api.spec.triggers import NamespaceList


class SyncSpec(InheritableSpec):
    """One repository and ref, delivered to the gateways that refer to the resource."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!(has(self.webhookNamespaces) && has(self.webhook) && has(self.webhook.allowedNamespaces))",
            "webhookNamespaces is another name of webhook.allowedNamespaces: set one of them",
            lambda it: (
                it.webhook_namespaces is None or not it.webhook or it.webhook.allowed_namespaces is None
            ),
            at="webhookNamespaces",
        ),
        FieldRule(
            "!has(self.autoRollback) || !self.?deployment.?autoRollback.hasValue()",
            "autoRollback is another name of deployment.autoRollback: set one of them",
            lambda it: it.auto_rollback is None or not it.deployment or it.deployment.auto_rollback is None,
            at="autoRollback",
        ),
    )

    git: Annotated[GitSourceSpec, describe("The repository and ref to deliver.", stability="stable")]
    site_number: Annotated[
        Annotated[str, text_bounds(63)] | None,
        describe("Number of the site; available in templates as {{.SiteNumber}}."),
    ] = None
    paused: Annotated[bool | None, describe("True pauses every sync of this resource.")] = None
    rollback: Annotated[
        RollbackSpec | None, describe("A request to roll back to a snapshot or a commit.")
    ] = None
    deployment: Annotated[
        DeploymentSpec | None,
        describe_nullable("The order in which gateways receive a new commit.", stability="experimental"),
    ] = None
    auto_rollback: Annotated[
        AutoRollbackSpec | None,
        describe("Alias of deployment.autoRollback.", stability="experimental"),
    ] = None
    webhook_namespaces: Annotated[NamespaceList | None, describe("Alias of webhook.allowedNamespaces.")] = (
        None
    )


def _verifies_signatures(spec: SyncSpec) -> bool:
    verify, auth = spec.git.verify, spec.git.auth
    return bool(verify and verify.mode in ("commit", "tag")) or bool(auth and auth.gpg_key)


def _has_verification_keys(spec: SyncSpec) -> bool:
    verify, auth = spec.git.verify, spec.git.auth
    return bool(auth and auth.gpg_key) or bool(
        verify and (verify.allowed_signers_secret_ref or verify.gpg_keys_secret_ref)
    )


def _has_gateway_key(spec: SyncSpec) -> bool:
    gateway = spec.gateway
    if gateway is None or gateway.files_only:
        return True
    return gateway.api_key_secret_ref is not None


def _bucket_of(spec: SyncSpec, kind: str) -> str | None:
    """Return the bucket of a storage kind, or None if that kind is not in use."""
    if not spec.snapshots or not spec.snapshots.enabled or not spec.snapshots.storage:
        return None
    storage = spec.snapshots.storage
    if storage.type != kind:
        return None
    block = storage.s3 if kind == "s3" else storage.gcs
    return (block.bucket if block else None) or ""


def _captures_drift_without_bidirectional(spec: SyncSpec) -> bool:
    captures = spec.drift is not None and spec.drift.mode == "capture"
    return captures and not (spec.bidirectional and spec.bidirectional.enabled)


def is_artifact(spec: SyncSpec) -> bool:
    return spec.git.repo.startswith(("oci://", "s3://"))


def _has_artifact_login(spec: SyncSpec) -> bool:
    """Return whether the login suits the source: registries and buckets do not accept every kind."""
    auth = spec.git.auth
    if auth is None or not is_artifact(spec):
        return True
    of_git = auth.ssh_key is not None or auth.github_app is not None
    return not of_git and not (auth.token is not None and spec.git.repo.startswith("s3://"))


_ARTIFACT = "(self.git.repo.startsWith('oci://') || self.git.repo.startsWith('s3://'))"


def _needs_bucket(kind: str) -> FieldRule:
    return FieldRule(
        "!self.?snapshots.?enabled.orValue(false)"
        f" || self.?snapshots.?storage.?type.orValue('pvc') != '{kind}'"
        f" || self.?snapshots.?storage.?{kind}.?bucket.orValue('') != ''",
        f"snapshots.storage.{kind}.bucket must be given when snapshots are enabled with storage type {kind}",
        lambda it: _bucket_of(it, kind) != "",
        at="snapshots",
    )


COMPLETE: tuple[FieldRule, ...] = (
    FieldRule(
        "!has(self.gateway) || self.gateway.?filesOnly.orValue(false) || has(self.gateway.apiKeySecretRef)",
        "gateway.apiKeySecretRef must be given unless gateway.filesOnly is true",
        _has_gateway_key,
        at="gateway",
    ),
    FieldRule(
        "self.git.?verify.?mode.orValue('none') == 'none'"
        " || self.git.?verify.?allowedSignersSecretRef.hasValue()"
        " || self.git.?verify.?gpgKeysSecretRef.hasValue()"
        " || self.git.?auth.?gpgKey.hasValue()",
        "git.verify needs allowedSignersSecretRef or gpgKeysSecretRef when its mode is commit or tag",
        lambda it: not _verifies_signatures(it) or _has_verification_keys(it),
        at="git",
    ),
    FieldRule(
        "self.?ignition.?binaryPolicy.orValue('allow') != 'requireSigned'"
        " || self.git.?verify.?mode.orValue('none') != 'none' || self.git.?auth.?gpgKey.hasValue()",
        "ignition.binaryPolicy requireSigned needs git.verify.mode commit or tag",
        lambda it: (
            not it.ignition or it.ignition.binary_policy != "requireSigned" or _verifies_signatures(it)
        ),
        at="ignition",
    ),
    FieldRule(
        "!self.?bidirectional.?enabled.orValue(false) || size(self.?bidirectional.?watchPaths.orValue([])) > "
        "0",
        "bidirectional.watchPaths must not be empty when bidirectional is enabled",
        lambda it: not (it.bidirectional and it.bidirectional.enabled) or bool(it.bidirectional.watch_paths),
        at="bidirectional",
    ),
    FieldRule(
        "self.?drift.?mode.orValue('report') != 'capture' || self.?bidirectional.?enabled.orValue(false)",
        "drift.mode capture needs bidirectional.enabled",
        lambda it: not _captures_drift_without_bidirectional(it),
        at="drift",
    ),
    FieldRule(
        f"!{_ARTIFACT} || !self.?bidirectional.?enabled.orValue(false)",
        "bidirectional needs a git repository in git.repo: a registry (oci://) or a bucket (s3://) is only "
        "read",
        lambda it: not is_artifact(it) or not (it.bidirectional and it.bidirectional.enabled),
        at="bidirectional",
    ),
    FieldRule(
        f"!{_ARTIFACT} || !(self.git.?auth.?sshKey.hasValue() || self.git.?auth.?githubApp.hasValue()"
        " || (self.git.repo.startsWith('s3://') && self.git.?auth.?token.hasValue()))",
        "git.auth takes basic or token for a registry (oci://) and basic for a bucket (s3://)",
        _has_artifact_login,
        at="git",
    ),
    FieldRule(
        f"!{_ARTIFACT} || (self.git.?verify.?mode.orValue('none') == 'none'"
        " && !self.git.?auth.?gpgKey.hasValue())",
        "git.verify checks git signatures, which a registry (oci://) or a bucket (s3://) does not have; pin "
        "an artifact by its digest in git.ref",
        lambda it: not is_artifact(it) or not _verifies_signatures(it),
        at="git",
    ),
    _needs_bucket("s3"),
    _needs_bucket("gcs"),
)
