"""Secrets that the product's own resources name, or that it made, are recognised."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.registry import KINDS, CustomResourceKind
from stoker.reverser.manifest.named_secrets import (
    ALL_FOR_NOW,
    ALL_NAMESPACES,
    SecretRef,
    is_own_secret,
    is_referenced,
    referenced_secrets,
    why_undecided,
)
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.secret_policy import SecretPolicy, WithheldSecret, object_content


def kind(name: str) -> CustomResourceKind:
    return next(one for one in KINDS if one.name == name)


def test_references_are_found_wherever_they_are_in_a_spec() -> None:
    spec = {
        "git": {"auth": {"token": {"secretRef": {"name": "token", "key": "t"}}}},
        "gateway": {"apiKeySecretRef": {"name": "gateway"}, "tls": {"secretName": "ca"}},
        "alerting": {"webhooks": [{"urlSecretRef": {"name": "slack", "key": "url"}}]},
    }
    named = referenced_secrets(
        kind("Stoker"), {"metadata": {"namespace": "plant", "name": "s"}, "spec": spec}
    )
    assert named - {SecretRef("plant", ALL_FOR_NOW)} == {
        SecretRef("plant", name) for name in ("token", "gateway", "ca", "slack", "stoker-git-token-s")
    }


def test_what_a_base_names_is_withheld_in_every_namespace() -> None:
    base = {"metadata": {"name": "b"}, "spec": {"gateway": {"apiKeySecretRef": {"name": "key"}}}}
    named = referenced_secrets(kind("IgnitionSyncBase"), base)
    assert named == {SecretRef(ALL_NAMESPACES, "key")}
    assert is_referenced("anywhere", "key", named)
    assert not is_referenced("anywhere", "other", named)


def test_a_spec_of_any_shape_is_read_without_error() -> None:
    odd: list[Any] = [None, [], "text", {"secretRef": "name"}, {"secretRef": {"name": 7}}, {"secretName": {}}]
    for spec in odd:
        assert referenced_secrets(kind("GitRepoConfig"), {"metadata": {}, "spec": spec}) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app.kubernetes.io/part-of": "stoker"}},
        {"labels": {"app.kubernetes.io/managed-by": "stoker"}},
        {"labels": {"stoker.io/cr-name": "line-1"}},
        {"ownerReferences": [{"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "name": "s"}]},
        {"ownerReferences": [{"apiVersion": "sync.ignition.io/v1alpha1", "kind": "IgnitionSync"}]},
    ],
)
@pytest.mark.parametrize("policy", SecretPolicy)
def test_what_the_product_made_is_written_under_no_policy(
    metadata: dict[str, Any], policy: SecretPolicy
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": "aGlkZGVu"}}
    assert is_own_secret(secret)
    key = ManifestKey("", "v1", "secrets", "plant", "minted")
    assert isinstance(object_content(secret, key, "p.yaml", policy=policy), WithheldSecret)


def test_a_secret_of_other_people_is_not_ours() -> None:
    owner = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "c"}
    assert not is_own_secret({"metadata": {"labels": {"app": "web"}, "ownerReferences": [owner]}})


@pytest.mark.parametrize("name", ["Stoker", "IgnitionSync"])
def test_what_the_controller_published_is_named_too(name: str) -> None:
    """Defaults, and a base in a namespace that is not watched, are not in the spec."""
    heir = {
        "metadata": {"namespace": "plant", "name": "s"},
        "spec": {},
        "status": {"secretNames": ["by-base"]},
    }
    named = referenced_secrets(kind(name), heir)
    assert is_referenced("plant", "by-base", named)
    assert not is_referenced("elsewhere", "by-base", named)
    assert why_undecided("plant", named) is None


@pytest.mark.parametrize("status", [None, {}, {"conditions": []}, "text"])
def test_until_the_controller_has_published_nothing_of_the_namespace_is_decided(status: Any) -> None:
    new = {"metadata": {"namespace": "plant", "name": "s"}, "spec": {}, "status": status}
    named = referenced_secrets(kind("IgnitionSync"), new)
    assert "status.secretNames" in (why_undecided("plant", named) or "")
    assert why_undecided("elsewhere", named) is None
    assert not is_referenced("plant", "any", named)
