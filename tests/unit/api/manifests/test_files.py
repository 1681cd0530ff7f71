"""A file from disk becomes typed resources, or a refusal that names file, document and field."""

from __future__ import annotations

import pytest

from stoker.api.kinds.ignitionsync import IgnitionSync
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.manifests.files import decode_manifest, read_manifests
from stoker.domain.errors import InvalidValue, Stalled

STOKER = b"""
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: winery, namespace: cellar, labels: {a: b}}
spec:
  git: {repo: "https://git.example.com/a.git", ref: main}
"""
PROFILE = b"""
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: press}
spec: {mappings: [{source: a, destination: b}]}
"""


def refused(data: bytes, *, strict: bool = True) -> str:
    with pytest.raises(InvalidValue) as refusal:
        read_manifests(data, "plant.yaml", strict=strict)
    return refusal.value.message


def test_one_file_may_hold_several_kinds() -> None:
    stoker, profile = read_manifests(STOKER + b"---" + PROFILE, "plant.yaml")
    assert isinstance(stoker, Stoker)
    assert stoker.spec.git.ref == "main"
    assert stoker.metadata.labels == {"a": "b"}
    assert isinstance(profile, SyncProfile)
    assert profile.spec.mappings[0].type is None


def test_the_refusal_names_file_document_and_field() -> None:
    wrong = PROFILE.replace(b"source: a", b"source: ../a")
    assert refused(STOKER + b"---" + wrong) == (
        "plant.yaml, document 2: spec.mappings[0].source: must be a relative path without '..', "
        "a backslash or a leading '/'; templates are allowed"
    )


def test_every_problem_is_reported_at_once() -> None:
    wrong = STOKER.replace(b"ref: main", b"ref: '-x', branch: y").replace(b"name: winery", b"name: Winery")
    message = refused(wrong)
    assert "spec.git.branch: unknown field" in message
    assert "spec.git.ref: must be a branch" in message
    assert "metadata.name: must be lower-case" in message


def test_a_flood_of_problems_is_cut_short() -> None:
    many = b", ".join(b"x%d: 1" % number for number in range(50))
    message = refused(STOKER.replace(b"ref: main", b"ref: main, " + many))
    assert "spec.git.x9: unknown field" in message
    assert message.endswith("and 40 more")


def test_unknown_fields_may_be_allowed() -> None:
    wrong = STOKER.replace(b"ref: main", b"ref: main, branch: y")
    assert "spec.git.branch: unknown field" in refused(wrong)
    (stoker,) = read_manifests(wrong, "plant.yaml", strict=False)
    assert stoker.metadata.name == "winery"


def test_what_the_server_adds_to_metadata_is_no_mistake() -> None:
    exported = STOKER.replace(
        b"labels:", b"managedFields: [{manager: a}], uid: u, resourceVersion: '7', labels:"
    )
    (stoker,) = read_manifests(exported, "plant.yaml")
    assert stoker.metadata.resource_version == "7"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"- a", "document 1: is not an object with apiVersion, kind, metadata and spec"),
        (b"{}", "document 1: apiVersion and kind must be given as text"),
        (b"{apiVersion: 1, kind: Stoker}", "document 1: apiVersion and kind must be given as text"),
        (b"{apiVersion: apps/v1, kind: Deployment}", "of 'apps/v1' is not a kind of Stoker"),
        (b"{apiVersion: stoker.io/v1alpha1, kind: Stoker}", "missing required field `metadata`"),
        (STOKER.replace(b"ref: main", b"ref: 7"), "spec.git.ref: expected `str`, got `int`"),
        (STOKER.replace(b"{a: b}", b"{a: 1}"), "metadata.labels"),
        (STOKER.replace(b"name: winery", b"name: ''"), "metadata.name"),
        (STOKER + b"a: [", "plant.yaml: line"),
        (STOKER.replace(b"spec:", b"a: &a [*a]\nspec:"), "plant.yaml: line"),
    ],
)
def test_what_is_no_resource_of_ours_is_refused(data: bytes, says: str) -> None:
    assert says in refused(data)


def test_a_manifest_is_exactly_one_document() -> None:
    assert isinstance(decode_manifest(STOKER), Stoker)
    for data, count in ((b"", 0), (STOKER + b"---" + PROFILE, 2)):
        with pytest.raises(InvalidValue, match=f"a.yaml: holds {count} documents where one is expected"):
            decode_manifest(data, file="a.yaml")


def test_a_manifest_may_be_a_dictionary_already() -> None:
    manifest = {
        "apiVersion": "sync.ignition.io/v1alpha1",
        "kind": "IgnitionSync",
        "metadata": {"name": "a"},
        "spec": {
            "git": {"repo": "https://git.example.com/a.git", "ref": "main"},
            "gateway": {"filesOnly": True},
        },
    }
    sync = decode_manifest(manifest)
    assert isinstance(sync, IgnitionSync)
    assert sync.spec.gateway is not None
    assert sync.spec.gateway.tls is None


def test_a_refusal_stalls_and_is_not_tried_again() -> None:
    with pytest.raises(Stalled):
        decode_manifest(b"- a")
