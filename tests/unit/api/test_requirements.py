"""Requirements of the API, beside what the other tests of this folder show.

`tests/data/required_fields.txt` repeats the requirements and not the types, so
that a field which changes its name, its words or its default is noticed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.api.codegen.crd import crd_for, schema_for
from stoker.api.defaults import BUILT_IN_DEFAULTS, with_defaults
from stoker.api.field_docs import FieldStability
from stoker.api.manifests.yaml import load_documents
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.transform.template_language import render_path

ROOT = Path(__file__).parents[3]
BY_NAME = {kind.name: kind for kind in KINDS}

# A schema is plain JSON; its shape is what these tests are about.
Schema = dict[str, Any]

LINES = [
    line.split(maxsplit=4)
    for line in (ROOT / "tests" / "data" / "required_fields.txt").read_text().splitlines()
    if line.startswith("R-")
]


def field(kind: str, path: str) -> tuple[Schema, bool]:
    """The schema of a field, and whether the block that holds it demands it."""
    schema: Schema = schema_for(BY_NAME[kind])
    required = False
    for name in path.split("."):
        required = name.removesuffix("[]") in schema.get("required", ())
        schema = schema["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            schema = schema["items"]
    return schema, required


def names_in(schema: Schema) -> set[str]:
    """The names of all fields, at any depth."""
    below = [*schema.get("properties", {}).values()]
    below += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    return set(schema.get("properties", {})).union(*(names_in(one) for one in below))


def held_by(schema: Schema) -> str:
    """What a field holds, in the words of the table, choices in the order of the alphabet."""
    if "enum" in schema:
        return "|".join(sorted(schema["enum"]))
    if "additionalProperties" in schema:
        return held_by(schema["additionalProperties"]) + "{}"
    if "items" in schema:
        return held_by(schema["items"]) + "[]"
    if schema.get("format") == "date-time":
        return "time"
    if schema.get("x-kubernetes-int-or-string"):
        return "amount"
    return {"string": "text", "integer": "number", "boolean": "switch", "object": "block"}[schema["type"]]


def sorted_choices(holds: str) -> str:
    words, bracket, _ = holds.partition("[]")
    return "|".join(sorted(words.split("|"))) + bracket


@pytest.mark.parametrize("requirement", list(dict.fromkeys(line[0] for line in LINES)))
def test_a_field_is_what_was_asked_for(requirement: str) -> None:
    for _, kind, path, holds, *more in (line for line in LINES if line[0] == requirement):
        schema, required = field(kind, path)
        assert held_by(schema) == sorted_choices(holds), path
        assert required == (more == ["required"]), path
        built_in = BUILT_IN_DEFAULTS[kind].get(path.removeprefix("spec."), schema.get("default"))
        default = json.dumps(built_in, separators=(",", ":"))
        assert default == (more[0] if more and not required else "null"), path


def test_an_agent_gets_its_share_of_cpu_and_memory_by_default() -> None:
    filled: Any = with_defaults("IgnitionSync", {"git": {"repo": "file:///a", "ref": "main"}})
    assert filled["agent"]["resources"] == {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"cpu": "200m", "memory": "256Mi"},
    }


def test_templates_know_the_site() -> None:
    assert render_path("site{{.SiteNumber}}", TemplateValues(site_number="1")) == "site1"


@pytest.mark.parametrize(
    ("group", "kind", "plural", "singular"),
    [
        ("sync.ignition.io", "IgnitionSync", "ignitionsyncs", "ignitionsync"),
        ("sync.ignition.io", "IgnitionSyncBase", "ignitionsyncbases", "ignitionsyncbase"),
        ("stoker.io", "Stoker", "stokers", "stoker"),
        ("stoker.io", "SyncProfile", "syncprofiles", "syncprofile"),
        ("configbutler.ai", "GitRepoConfig", "gitrepoconfigs", "gitrepoconfig"),
        ("configbutler.ai", "GitDestination", "gitdestinations", "gitdestination"),
        ("configbutler.ai", "WatchRule", "watchrules", "watchrule"),
        ("configbutler.ai", "ClusterWatchRule", "clusterwatchrules", "clusterwatchrule"),
    ],
)
def test_a_kind_is_called_what_was_asked_for(group: str, kind: str, plural: str, singular: str) -> None:
    spec: Any = crd_for(BY_NAME[kind])["spec"]
    assert (spec["group"], spec["names"]["kind"]) == (group, kind)
    assert (spec["names"]["plural"], spec["names"]["singular"]) == (plural, singular)
    assert (ROOT / "config" / "crd" / f"{group}_{plural}.yaml").is_file()


@pytest.mark.parametrize(
    ("name", "stability"),
    [
        ("git", "stable"),
        ("storage", "stable"),
        ("gateway", "stable"),
        ("bidirectional", "experimental"),
        ("snapshots", "experimental"),
        ("deployment", "experimental"),
    ],
)
def test_a_block_says_whether_it_may_change(name: str, stability: FieldStability) -> None:
    schema, required = field("IgnitionSync", f"spec.{name}")
    assert f" {stability.capitalize()}: " in schema["description"]
    if stability == "experimental":
        assert (required, schema["nullable"]) == (False, True)


def test_every_shared_part_has_a_switch() -> None:
    shared, _ = field("IgnitionSync", "spec.shared")
    assert set(shared["properties"]) == {"externalResources", "scripts", "udts", "modules"}
    assert all(held_by(part["properties"]["enabled"]) == "switch" for part in shared["properties"].values())


@pytest.mark.parametrize("kind", ["IgnitionSync", "Stoker"])
def test_history_ends_with_the_tenth_sync(kind: str) -> None:
    schema, _ = field(kind, "status.discoveredGateways[].syncHistory")
    assert schema["maxItems"] == 10


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_conditions_are_the_only_summary(kind: CustomResourceKind) -> None:
    status: Any = schema_for(kind)["properties"]
    assert "phase" not in names_in(status.get("status", {}))


def test_a_stoker_has_all_that_its_profiles_do_not_replace() -> None:
    older, newer = field("IgnitionSync", "spec")[0], field("Stoker", "spec")[0]
    replaced = {"inheritsFrom", "storage", "shared", "additionalFiles"}
    assert set(older["properties"]) - set(newer["properties"]) == replaced
    assert set(newer["properties"]) <= set(older["properties"])


CONDITIONS: dict[str, set[str]] = {
    "IgnitionSync": {"Ready", "RepoCloned", "WebhookReady", "AllGatewaysSynced", "BidirectionalReady"},
    "Stoker": {"Ready", "RepoCloned", "AllGatewaysSynced", "AgentReady", "RefSkew"},
    "SyncProfile": {"DependenciesMet"},
    "GitRepoConfig": {"Ready"},
    "GitDestination": {"Ready", "OwnershipConflict", "LeaseNotAcquired", "MarkerConflict"},
    "WatchRule": {"Ready", "AccessDenied", "WatchErrored", "DiscoveryDegraded", "RepoPushFailed"},
    "ClusterWatchRule": {"Ready", "AccessDenied", "WatchErrored", "DiscoveryDegraded", "RepoPushFailed"},
}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_kind_documents_its_conditions(kind: str) -> None:
    page = (ROOT / "docs" / "spec" / f"{kind.lower()}.md").read_text()
    assert CONDITIONS[kind] <= set(BY_NAME[kind].conditions)
    assert all(f"| {type_} | " in page for type_ in CONDITIONS[kind])


def test_mappings_are_replaced_whole_so_that_their_order_counts() -> None:
    schema, _ = field("SyncProfile", "spec.mappings")
    assert schema["x-kubernetes-list-type"] == "atomic"


LEFT_FOR_LATER: dict[str, set[str]] = {
    "SyncProfile": {"includeMappingsFrom", "condition", "podLabel"},
    "GitRepoConfig": {"accessPolicy"},
    "GitDestination": {"accessPolicy"},
    "WatchRule": {"accessPolicy", "objectSelector", "namespaceSelector"},
    "ClusterWatchRule": {"accessPolicy", "objectSelector"},
}


@pytest.mark.parametrize("kind", LEFT_FOR_LATER)
def test_what_is_left_for_later_is_not_offered(kind: str) -> None:
    assert not LEFT_FOR_LATER[kind] & names_in(schema_for(BY_NAME[kind]))


def test_the_gatekeeper_sample_names_our_kind() -> None:
    file = ROOT / "examples" / "policies" / "ignitionsync-defaults-gatekeeper.yaml"
    template, constraint = (json.loads(json.dumps(one)) for one in load_documents(file.read_bytes()))
    assert template["spec"]["crd"]["spec"]["names"]["kind"] == constraint["kind"] == "K8sIgnitionSyncDefaults"
    assert constraint["apiVersion"] == "constraints.gatekeeper.sh/v1beta1"
    (match,) = constraint["spec"]["match"]["kinds"]
    assert match == {"apiGroups": [BY_NAME["IgnitionSync"].group], "kinds": ["IgnitionSync"]}
    assert "**/.resources/**" in constraint["spec"]["parameters"]["excludePatterns"]
