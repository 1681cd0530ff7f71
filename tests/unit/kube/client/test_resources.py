"""Resources as addresses."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.kube.client.resources import CONFIG_MAPS, CRDS, LEASES, NAMESPACES


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (CONFIG_MAPS.path(), "/api/v1/configmaps"),
        (CONFIG_MAPS.path(""), "/api/v1/configmaps"),
        (CONFIG_MAPS.path("shop"), "/api/v1/namespaces/shop/configmaps"),
        (CONFIG_MAPS.path("shop", "a b"), "/api/v1/namespaces/shop/configmaps/a%20b"),
        (NAMESPACES.path(None, "shop"), "/api/v1/namespaces/shop"),
        (NAMESPACES.path(None, "shop", "status"), "/api/v1/namespaces/shop/status"),
        (LEASES.path("shop", "x"), "/apis/coordination.k8s.io/v1/namespaces/shop/leases/x"),
        (CRDS.path(name="a.b"), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b"),
        (NAMESPACES.path(name="system:node"), "/api/v1/namespaces/system:node"),
        (NAMESPACES.path(name="50%"), "/api/v1/namespaces/50%25"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("namespace", "name", "subresource", "why"),
    [
        ("..", "x", None, "'..' cannot be part of a path"),
        ("shop", "../x", None, "'../x' cannot be part of a path"),
        ("shop", "", None, "'' cannot be part of a path"),
        ("shop", ".", None, "'.' cannot be part of a path"),
        ("shop", "x" * 2000, None, "cannot be part of a path"),
        ("shop", "x", "status/../..", "'status/../..' cannot be part of a path"),
        (None, "x", None, "configmaps 'x' lives in a namespace, yet none was named"),
        ("shop", None, "status", "the subresource 'status' of configmaps needs the name of an object"),
        ("shop", "\ud800", None, "is not text that can be sent"),
    ],
)
def test_a_part_that_would_change_the_path_is_refused(
    namespace: str | None, name: str | None, subresource: str | None, why: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        CONFIG_MAPS.path(namespace, name, subresource)
    assert why in refused.value.message
    assert len(refused.value.message) < 200


def test_a_cluster_wide_resource_has_no_namespace() -> None:
    with pytest.raises(InvalidValue, match="namespaces has no namespaces, yet namespace 'shop' was named"):
        NAMESPACES.path("shop", "x")


def test_a_request_in_words() -> None:
    assert LEASES.words("get", "shop", "leader") == "get leases.coordination.k8s.io shop/leader"
    assert LEASES.words("list", "shop") == "list leases.coordination.k8s.io in shop"
    assert LEASES.words("list") == "list leases.coordination.k8s.io"
    assert NAMESPACES.words("replace", None, "shop", "status") == "replace namespaces/status shop"


def test_api_versions() -> None:
    assert CONFIG_MAPS.api_version == "v1"
    assert LEASES.api_version == "coordination.k8s.io/v1"
