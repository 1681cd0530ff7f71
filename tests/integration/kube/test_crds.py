"""The CRDs are accepted by a real API server and lose nothing of what is written through them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, cast

import pytest

from stoker.api.manifests.codec import decode, encode
from stoker.api.manifests.yaml import load_documents
from stoker.api.registry import KINDS, CustomResourceKind, kind_for
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "examples").glob("*.yaml")) + sorted(
    (ROOT / "tests" / "data" / "manifests").glob("*.yaml")
)

# A manifest is plain JSON; its shape is what these tests are about.
Manifest = dict[str, Any]


DOCUMENTS = [
    pytest.param(manifest, id=f"{file.parent.name}/{file.name}#{number}")
    for file in FILES
    for number, manifest in enumerate(load_documents(file.read_bytes()), start=1)
]


def collection(kind: CustomResourceKind, namespace: str) -> str:
    scope = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"/apis/{kind.group}/{kind.version}{scope}/{kind.plural}"


def placed(manifest: Manifest, namespace: str) -> tuple[CustomResourceKind, Manifest]:
    """The manifest in the test's own namespace, or under a name of its own where there are no namespaces."""
    kind = kind_for(manifest["apiVersion"], manifest["kind"])
    body = copy.deepcopy(manifest)
    if kind.namespaced:
        body["metadata"]["namespace"] = namespace
    else:
        body["metadata"]["name"] += f"-{namespace}"
    return kind, body


def with_declared_defaults(manifest: Manifest) -> Manifest:
    """The spec with the only defaults that the schemas declare."""
    spec: Manifest = copy.deepcopy(manifest["spec"])
    if manifest["kind"] == "GitDestination":
        spec = {"exclusiveMode": False, "prune": "Always", "secretPolicy": "Exclude"} | spec
    return spec


def create(cluster: ClusterAccess, kind: CustomResourceKind, body: Manifest, namespace: str) -> None:
    answer = cluster.request("POST", f"{collection(kind, namespace)}?fieldValidation=Strict", body)
    assert answer.status == 201, answer.body.decode()


@pytest.mark.parametrize("manifest", DOCUMENTS)
def test_every_manifest_is_accepted_and_reads_back_as_it_was_written(
    kinds: ClusterAccess, namespace: str, manifest: Manifest
) -> None:
    kind, body = placed(manifest, namespace)
    create(kinds, kind, body, namespace)
    path = f"{collection(kind, namespace)}/{body['metadata']['name']}"

    stored = json.loads(kinds.request("GET", path).body)
    assert stored["spec"] == with_declared_defaults(body)
    unseen = {"observedGeneration": -1} if kind.has_status else None
    assert stored.get("status") == unseen, "a status written with the resource must not count"

    if "status" in body:
        written = kinds.request(
            "PUT", f"{path}/status?fieldValidation=Strict", {**stored, "status": body["status"]}
        )
        assert written.status == 200, written.body.decode()
        assert json.loads(kinds.request("GET", path).body)["status"] == body["status"]

    raw = kinds.request("GET", path).body
    again = json.loads(encode(decode(raw, kind.model)))
    assert again["spec"] == json.loads(raw)["spec"]
    assert again.get("status") == json.loads(raw).get("status")
    kinds.request("DELETE", path)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_crd_is_established_and_its_schema_is_structural(
    kinds: ClusterAccess, kind: CustomResourceKind
) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.plural}.{kind.group}"
    conditions = json.loads(kinds.request("GET", path).body)["status"]["conditions"]
    states = {condition["type"]: condition["status"] for condition in conditions}
    assert states == {"Established": "True", "NamesAccepted": "True"}


def test_applying_the_crds_a_second_time_changes_nothing(kinds: ClusterAccess) -> None:
    names = [f"crd/{kind.plural}.{kind.group}" for kind in KINDS]
    versions = ("get", *names, "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    before = kinds.kubectl(*versions).stdout
    kinds.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "config" / "crd"))
    assert len(before.split()) == len(KINDS)
    assert kinds.kubectl(*versions).stdout == before


def test_null_is_kept_where_it_may_be_written(kinds: ClusterAccess, namespace: str) -> None:
    spec = {
        "git": {"repo": "https://git.example.com/a.git", "ref": "main"},
        "gateway": {"filesOnly": True, "tls": None},
        "snapshots": None,
        "bidirectional": None,
        "deployment": None,
        "polling": None,
    }
    body = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "nulls"}, "spec": spec}
    kind = kind_for("stoker.io/v1alpha1", "Stoker")
    create(kinds, kind, body, namespace)
    raw = kinds.request("GET", f"{collection(kind, namespace)}/nulls").body
    assert json.loads(raw)["spec"] == {name: value for name, value in spec.items() if name != "polling"}
    assert decode(raw, kind.model).metadata.name == "nulls"


def test_a_policy_can_take_the_place_of_a_base(kinds: ClusterAccess, namespace: str) -> None:
    file = ROOT / "examples" / "policies" / "ignitionsync-defaults-native.yaml"
    policy, binding = cast("list[Manifest]", list(load_documents(file.read_bytes())))
    for body in (policy, binding):  # for this namespace alone: other tests use the same cluster
        body["metadata"]["name"] = namespace
    only_here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding["spec"] |= {"policyName": namespace, "matchResources": only_here}
    kinds.kubectl("create", "-f", "-", stdin=f"{json.dumps(policy)}\n---\n{json.dumps(binding)}")
    try:
        eventually(lambda: _excludes(kinds, namespace), 30.0, "the policy to fill in excludePatterns")
        assert _excludes(kinds, namespace) == ["**/.git/", "**/.resources/**", "**/*.bak"]
    finally:
        kinds.kubectl("delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", namespace)


def _excludes(cluster: ClusterAccess, namespace: str) -> list[str] | None:
    """What an IgnitionSync that sets no excludes would be stored with."""
    (minimal,) = load_documents((ROOT / "examples" / "ignitionsync-minimal.yaml").read_bytes())
    kind, body = placed(cast("Manifest", minimal), namespace)
    answer = cluster.request("POST", f"{collection(kind, namespace)}?dryRun=All", body)
    assert answer.status == 201, answer.body.decode()
    found: list[str] | None = json.loads(answer.body)["spec"].get("excludePatterns")
    return found
