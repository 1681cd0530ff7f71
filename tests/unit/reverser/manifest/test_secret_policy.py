"""The parts of a Secret that reach git under each policy, and those that never do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.api.kinds.destinations import GitRepoConfig
from stoker.domain.errors import Stalled
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.sanitize import LAST_APPLIED
from stoker.reverser.manifest.secret_policy import SecretPolicy, WithheldSecret, object_content, own_secrets

KEY = ManifestKey("", "v1", "secrets", "shop", "db")
PASSWORD = "aHVudGVyMg=="
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "db",
        "namespace": "shop",
        "uid": "u",
        "annotations": {LAST_APPLIED: f'{{"data":{{"password":"{PASSWORD}"}}}}'},
    },
    "type": "Opaque",
    "immutable": True,
    "data": {"user": "YWRtaW4=", "password": PASSWORD},
}


class Sealing:
    """Seals nothing, and tells what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, dict[str, Any]]] = []

    def sealed(self, path: str, plain: dict[str, Any]) -> bytes:
        self.given.append((path, plain))
        return b"sealed"


def test_include_writes_all_of_it() -> None:
    content = object_content(SECRET, KEY, "p", policy=SecretPolicy.INCLUDE)
    assert isinstance(content, bytes)
    assert content.decode() == (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  namespace: shop\n"
        f"data:\n  password: {PASSWORD}\n  user: YWRtaW4=\nimmutable: true\ntype: Opaque\n"
    )


def test_redact_leaves_the_values_out_and_names_the_keys() -> None:
    content = object_content({**SECRET, "stringData": {"x": "y"}}, KEY, "p", policy=SecretPolicy.REDACT)
    assert content == (
        b"# data, whose values are not written: password, user\n"
        b"# stringData, whose values are not written: x\n"
        b"apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  namespace: shop\n"
        b"immutable: true\ntype: Opaque\n"
    )
    empty = object_content({**SECRET, "data": None}, KEY, "p", policy=SecretPolicy.REDACT)
    assert isinstance(empty, bytes)
    assert empty.startswith(b"apiVersion: v1\n")


def test_exclude_writes_nothing() -> None:
    held = object_content(SECRET, KEY, "p", policy=SecretPolicy.EXCLUDE)
    assert held == WithheldSecret("the destination's secretPolicy is Exclude")


def test_encrypt_hands_the_sanitized_secret_over_and_fails_closed() -> None:
    sealing = Sealing()
    assert object_content(SECRET, KEY, "a/b.yaml", policy=SecretPolicy.ENCRYPT, sealer=sealing) == b"sealed"
    ((path, plain),) = sealing.given
    assert path == "a/b.yaml"
    assert plain["metadata"] == {"name": "db", "namespace": "shop"}
    with pytest.raises(Stalled, match="core/v1/secrets/shop/db cannot be encrypted") as caught:
        object_content(SECRET, KEY, "p", policy=SecretPolicy.ENCRYPT)
    assert PASSWORD not in caught.value.message


@pytest.mark.parametrize("policy", list(SecretPolicy))
@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("web-token", "kubernetes.io/service-account-token", "it is a token of a service account"),
        ("anything", "helm.sh/release.v1", "it is a release of Helm"),
        ("sh.helm.release.v1.web.v1", "Opaque", "it is a release of Helm"),
        ("repo-cred", "Opaque", "a resource of this product names it"),
        ("signing", "Opaque", "a resource of this product names it"),
    ],
)
def test_some_secrets_are_written_under_no_policy(
    policy: SecretPolicy, name: str, kind: str, why: str
) -> None:
    own = own_secrets(
        [repo_config(secretRef={"name": "repo-cred"}, signing={"secretRef": {"name": "signing"}})]
    )
    obj = {**SECRET, "type": kind}
    key = KEY._replace(name=name)
    sealing = Sealing()
    assert object_content(obj, key, "p", policy=policy, own=own, sealer=sealing) == WithheldSecret(why)
    assert not sealing.given


def test_only_the_secrets_in_the_namespace_of_the_repository_are_its_own() -> None:
    own = own_secrets([repo_config(secretRef={"name": "db"}, namespace="system"), repo_config()])
    assert own == {SecretRef("system", "db")}
    assert isinstance(object_content(SECRET, KEY, "p", policy=SecretPolicy.INCLUDE, own=own), bytes)


def test_a_kind_of_another_group_that_is_called_secrets_is_not_a_secret() -> None:
    key = ManifestKey("example.com", "v1", "secrets", "shop", "db")
    content = object_content(SECRET, key, "p", policy=SecretPolicy.EXCLUDE)
    assert isinstance(content, bytes)
    assert PASSWORD.encode() in content


def repo_config(*, namespace: str = "shop", **spec: Any) -> GitRepoConfig:
    return msgspec.convert(
        {
            "apiVersion": "configbutler.ai/v1alpha1",
            "kind": "GitRepoConfig",
            "metadata": {"name": "repo", "namespace": namespace},
            "spec": {"repoUrl": "https://git.example.com/a.git", "allowedBranches": ["main"], **spec},
        },
        GitRepoConfig,
    )


def test_the_certificates_of_this_product_are_never_written() -> None:
    metadata = {**SECRET["metadata"], "labels": {"app.kubernetes.io/part-of": "stoker"}}
    assert object_content({**SECRET, "metadata": metadata}, KEY, "p") == WithheldSecret(
        "this product made it"
    )
    other = {**SECRET["metadata"], "labels": {"app.kubernetes.io/part-of": "shop"}}
    theirs = object_content({**SECRET, "metadata": other}, KEY, "p", policy=SecretPolicy.INCLUDE)
    assert isinstance(theirs, bytes)
