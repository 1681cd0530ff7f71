"""Paths of the paper, and of names that a filesystem would not take."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import MAX_PART_BYTES
from stoker.reverser.manifest.path import ManifestKey, manifest_path, object_at_path

RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (ManifestKey("apps", "v1", "deployments", "shop", "web"), "apps/v1/deployments/shop/web.yaml"),
        (ManifestKey("", "v1", "services", "shop", "api"), "core/v1/services/shop/api.yaml"),
        (ManifestKey(RBAC, "v1", "clusterroles", "", "viewer"), f"{RBAC}/v1/clusterroles/viewer.yaml"),
        (
            ManifestKey(RBAC, "v1", "clusterroles", "", "system:node"),
            f"{RBAC}/v1/clusterroles/system%3anode.yaml",
        ),
        (ManifestKey(RBAC, "v1", "roles", "a", "Admin"), f"{RBAC}/v1/roles/a/%41dmin.yaml"),
        (ManifestKey(RBAC, "v1", "roles", "a", "a b\\c\n"), f"{RBAC}/v1/roles/a/a%20b%5cc%0a.yaml"),
        (ManifestKey(RBAC, "v1", "roles", "a", "é"), f"{RBAC}/v1/roles/a/%c3%a9.yaml"),
        (ManifestKey(RBAC, "v1", "roles", "a", ".git"), f"{RBAC}/v1/roles/a/%2egit.yaml"),
        (ManifestKey(RBAC, "v1", "roles", "a", "x."), f"{RBAC}/v1/roles/a/x%2e.yaml"),
        (ManifestKey("", "v1", "configmaps", "aux", "com1"), "core/v1/configmaps/%61ux/%63om1.yaml"),
        (ManifestKey("", "v1", "configmaps", "a", "nul.x"), "core/v1/configmaps/a/%6eul.x.yaml"),
        (ManifestKey("", "v1", "configmaps", "a", "console"), "core/v1/configmaps/a/console.yaml"),
        (ManifestKey("core", "v1", "things", "a", "x"), "%63ore/v1/things/a/x.yaml"),
        (
            ManifestKey("", "v1", "configmaps", "a", "kube-root-ca.crt"),
            "core/v1/configmaps/a/kube-root-ca.crt.yaml",
        ),
    ],
)
def test_an_object_has_its_path(key: ManifestKey, path: str) -> None:
    assert manifest_path(key, "clusters/prod") == f"clusters/prod/{path}"
    assert manifest_path(key, "") == path
    assert object_at_path(f"clusters/prod/{path}", "clusters/prod") == key


def test_a_name_of_253_characters_fits_into_folders() -> None:
    key = ManifestKey("", "v1", "configmaps", "a", "x" * 253)
    path = manifest_path(key, "base")
    assert path == f"base/core/v1/configmaps/a/{'x' * 200}+/+{'x' * 53}.yaml"
    assert object_at_path(path, "base") == key


def test_no_part_of_a_path_is_longer_than_a_file_name_may_be() -> None:
    for name in ("é" * 300, "x" * 1000, "%" * 400, "A" * 500):
        key = ManifestKey(RBAC, "v1", "clusterroles", "", name)
        path = manifest_path(key, "b")
        assert max(len(part.encode()) for part in path.split("/")) <= MAX_PART_BYTES
        assert object_at_path(path, "b") == key


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "\ud800", "é" * 1400])
def test_a_name_that_can_have_no_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue):
        manifest_path(ManifestKey(RBAC, "v1", "clusterroles", "", name), "b")


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "b/README.yaml",
        "b/.configbutler/owner.yaml",
        "b/.configbutler/v1/things/owner.yaml",
        "b/apps/v1/deployments/web.yml",
        "b/apps/v1/deployments/shop/web.json",
        "b/apps/v1/deployments/shop/deeper/web.yaml",
        "b/apps/v1/web.yaml",
        "b/apps/v1/deployments/shop/Web.yaml",
        "b/apps/v1/deployments/shop/%77eb.yaml",
        "b/apps/v1/deployments/shop/%3A.yaml",
        "b/apps/v1/deployments/shop/a%2fb.yaml",
        "b/apps/v1/deployments/shop/%ff.yaml",
        "b/apps/v1/deployments/shop/%2.yaml",
        "b/apps/v1/deployments/shop/.yaml",
        "b/apps/v1/deployments/shop/aux.yaml",
        "b/apps/v1/deployments/shop/x+/+y.yaml",
        "b/apps//deployments/shop/web.yaml",
        "b/Apps/v1/deployments/shop/web.yaml",
        "b/apps/1/deployments/shop/web.yaml",
        "other/apps/v1/deployments/shop/web.yaml",
        "bb/apps/v1/deployments/shop/web.yaml",
    ],
)
def test_a_path_that_no_object_would_get_is_foreign(path: str) -> None:
    assert object_at_path(path, "b") is None
