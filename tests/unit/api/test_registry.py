"""The kinds are named, scoped and shown as the design says."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.codegen.crd import crd_for
from stoker.api.registry import CATEGORY, KINDS, kind_for
from stoker.domain.errors import InvalidValue


@pytest.mark.parametrize(
    ("name", "resource", "scope", "short"),
    [
        ("IgnitionSync", "ignitionsyncs.sync.ignition.io", "Namespaced", "igs"),
        ("IgnitionSyncBase", "ignitionsyncbases.sync.ignition.io", "Namespaced", "igsb"),
        ("Stoker", "stokers.stoker.io", "Namespaced", "stk"),
        ("SyncProfile", "syncprofiles.stoker.io", "Namespaced", "sp"),
        ("GitRepoConfig", "gitrepoconfigs.configbutler.ai", "Namespaced", "grc"),
        ("GitDestination", "gitdestinations.configbutler.ai", "Namespaced", "gd"),
        ("WatchRule", "watchrules.configbutler.ai", "Namespaced", "wr"),
        ("ClusterWatchRule", "clusterwatchrules.configbutler.ai", "Cluster", "cwr"),
    ],
)
def test_a_kind_has_its_names(name: str, resource: str, scope: str, short: str) -> None:
    (crd,) = (crd_for(kind) for kind in KINDS if kind.name == name)
    metadata: Any = crd["metadata"]
    spec: Any = crd["spec"]
    assert metadata["name"] == resource
    assert spec["scope"] == scope
    assert spec["names"]["shortNames"] == [short]
    assert spec["names"]["categories"] == [CATEGORY]
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert ("subresources" in version) == (name != "IgnitionSyncBase")


def test_the_columns_of_a_sync_are_those_of_the_design() -> None:
    spec: Any = crd_for(kind_for("sync.ignition.io/v1alpha1", "IgnitionSync"))["spec"]
    columns = spec["versions"][0]["additionalPrinterColumns"]
    assert [(column["name"], column["type"], column["jsonPath"]) for column in columns] == [
        ("Ref", "string", ".spec.git.ref"),
        ("Gateways", "string", '.status.conditions[?(@.type=="AllGatewaysSynced")].message'),
        ("Synced", "string", '.status.conditions[?(@.type=="AllGatewaysSynced")].status'),
        ("LastSync", "date", ".status.lastSyncTime"),
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    assert "4 of 5" in columns[1]["description"]


def test_no_column_shows_a_list() -> None:
    lists = (".mappings", ".rules", ".conditions", ".discoveredGateways", ".allowedBranches")
    assert not [column.path for kind in KINDS for column in kind.columns if column.path.endswith(lists)]


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match="kind 'Pod' of 'v1' is not a kind of Stoker: IgnitionSync"):
        kind_for("v1", "Pod")
