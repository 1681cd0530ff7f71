"""Author facts, read from an admission review."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.reverser.authors.facts import AuthorFact, RequestUser, ScaleChange, object_blob_id, request_fact
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation

DEPLOYMENTS = GroupResource("apps", "deployments")
ALICE = {"username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"x": ["y"]}}
USER = RequestUser("alice", "7", ("dev", "system:authenticated"))


def deployment(version: str = "", image: str = "a") -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "generation": 1}
    if version:
        metadata["resourceVersion"] = version
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"image": image}}


def scale(version: str, replicas: int | None) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    metadata = {"name": "web", "uid": "u", "resourceVersion": version}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec}


def request(operation: str, new: Any = None, old: Any = None, **more: Any) -> dict[str, Any]:
    resource = {"group": "apps", "version": "v1", "resource": "deployments"}
    fields = {"uid": "x", "resource": resource, "operation": operation, "object": new, "oldObject": old}
    return {**fields, "userInfo": ALICE, "dryRun": False, **more}


def test_a_creation_has_a_uid_and_no_version() -> None:
    fact = request_fact(request("CREATE", deployment()))
    assert fact == AuthorFact(
        DEPLOYMENTS, "u", "", ChangeOperation.CREATE, USER, object_blob_id(deployment())
    )


def test_an_update_carries_the_version_before_and_the_state_after() -> None:
    fact = request_fact(request("UPDATE", deployment("8", "b"), deployment("7")))
    assert fact == AuthorFact(
        DEPLOYMENTS, "u", "7", ChangeOperation.UPDATE, USER, object_blob_id(deployment(image="b"))
    )


@pytest.mark.parametrize("name", ["web", ""])
def test_a_deletion_is_known_by_its_object_also_where_a_collection_is_deleted(name: str) -> None:
    fact = request_fact(request("DELETE", None, deployment("7"), name=name))
    assert fact == AuthorFact(
        DEPLOYMENTS, "u", "7", ChangeOperation.DELETE, USER, object_blob_id(deployment())
    )


def test_a_deletion_of_a_terminating_object_has_no_author() -> None:
    going = deployment("7")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert request_fact(request("DELETE", None, going)) is None


def test_scaling_carries_the_counts() -> None:
    fact = request_fact(request("UPDATE", scale("7", 3), scale("7", None), subResource="scale"))
    assert fact == AuthorFact(DEPLOYMENTS, "u", "7", ChangeOperation.UPDATE, USER, "", ScaleChange(0, 3))


def test_a_kind_of_the_core_has_an_empty_group() -> None:
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    fact = request_fact(request("CREATE", deployment(), resource=resource))
    assert fact is not None
    assert fact.kind == GroupResource("", "configmaps")


@pytest.mark.parametrize(
    "useless",
    [
        request("CREATE", deployment(), dryRun=True),
        request("CONNECT", deployment()),
        request("UPDATE", deployment("8"), deployment("7"), subResource="status"),
        request("UPDATE", deployment("8"), None),
        request("UPDATE", deployment("8"), deployment()),
        request("CREATE", {"metadata": {"name": "x"}}),
        request("CREATE", {"metadata": None}),
        request("CREATE", "text"),
        request("CREATE", {**deployment(), "spec": {"x": "\ud800"}}),
        request("CREATE", deployment(), userInfo={}),
        request("CREATE", deployment(), userInfo={"username": ""}),
        request("CREATE", deployment(), userInfo={"username": "x" * 2000}),
        request("CREATE", deployment(), userInfo={"username": "x", "groups": 7}),
        request(
            "UPDATE", scale("7", 3), {**scale("7", 1), "spec": {"replicas": "many"}}, subResource="scale"
        ),
        {},
    ],
)
def test_what_can_never_be_joined_is_no_fact(useless: dict[str, Any]) -> None:
    assert request_fact(useless) is None
