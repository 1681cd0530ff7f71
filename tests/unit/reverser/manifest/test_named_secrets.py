"""Secrets that the product's own resources name, or that it made, are recognised."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.registry import KINDS, Kind
from stoker.reverser.manifest.named_secrets import EVERYWHERE, SecretRef, is_named, is_ours, secrets_named_by
from stoker.reverser.manifest.path import ObjectKey
from stoker.reverser.manifest.secret_policy import SecretPolicy, Withheld, content_of


def kind(name: str) -> Kind:
    return next(one for one in KINDS if one.name == name)


def test_references_are_found_wherever_they_are_in_a_spec() -> None:
    spec = {
        "git": {"auth": {"token": {"secretRef": {"name": "token", "key": "t"}}}},
        "gateway": {"apiKeySecretRef": {"name": "gateway"}, "tls": {"secretName": "ca"}},
        "alerting": {"webhooks": [{"urlSecretRef": {"name": "slack", "key": "url"}}]},
    }
    named = secrets_named_by(kind("Stoker"), {"metadata": {"namespace": "plant", "name": "s"}, "spec": spec})
    assert named == {
        SecretRef("plant", name) for name in ("token", "gateway", "ca", "slack", "stoker-git-token-s")
    }


def test_what_a_base_names_is_withheld_in_every_namespace() -> None:
    base = {"metadata": {"name": "b"}, "spec": {"gateway": {"apiKeySecretRef": {"name": "key"}}}}
    named = secrets_named_by(kind("IgnitionSyncBase"), base)
    assert named == {SecretRef(EVERYWHERE, "key")}
    assert is_named("anywhere", "key", named)
    assert not is_named("anywhere", "other", named)


def test_a_spec_of_any_shape_is_read_without_error() -> None:
    odd: list[Any] = [None, [], "text", {"secretRef": "name"}, {"secretRef": {"name": 7}}, {"secretName": {}}]
    for spec in odd:
        assert secrets_named_by(kind("GitRepoConfig"), {"metadata": {}, "spec": spec}) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app.kubernetes.io/part-of": "stoker"}},
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
    assert is_ours(secret)
    key = ObjectKey("", "v1", "secrets", "plant", "minted")
    assert isinstance(content_of(secret, key, "p.yaml", policy=policy), Withheld)


def test_a_secret_of_other_people_is_not_ours() -> None:
    owner = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "c"}
    assert not is_ours({"metadata": {"labels": {"app": "web"}, "ownerReferences": [owner]}})
