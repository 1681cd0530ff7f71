"""Built-in values are used where nothing was set, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.codegen.crd import schema_for
from stoker.api.codegen.reference_page import field_rows
from stoker.api.defaults import BUILT_IN_DEFAULTS, OPTIONAL_BLOCKS, UNMERGED_PATHS, with_defaults
from stoker.api.kinds.ignitionsync import IgnitionSyncSpec
from stoker.api.kinds.stoker import StokerSpec
from stoker.api.manifests.codec import from_wire, to_wire
from stoker.api.registry import KINDS, CustomResourceKind

GIT = {"repo": "https://git.example.com/a.git", "ref": "main"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_default_belongs_to_a_field_and_is_shown_with_it(kind: CustomResourceKind) -> None:
    properties: Any = schema_for(kind)["properties"]
    described = {row.path: str(row.schema["description"]) for row in field_rows(properties["spec"], "")}
    for path in BUILT_IN_DEFAULTS[kind.name]:
        if path.startswith("agent.resources."):  # names inside a map, not fields
            continue
        assert "Default: " in described[path], path


def test_blocks_that_are_treated_specially_exist() -> None:
    fields = {row.path for kind in KINDS for row in field_rows(schema_for(kind)["properties"]["spec"], "")}  # type: ignore[index]
    assert {*OPTIONAL_BLOCKS, *UNMERGED_PATHS} <= fields


def test_a_small_spec_gets_every_value_and_still_fits_its_type() -> None:
    filled = with_defaults(
        "IgnitionSync", {"git": GIT, "gateway": {"apiKeySecretRef": {"name": "a", "key": "b"}}}
    )
    spec = from_wire(filled, IgnitionSyncSpec)
    assert spec.polling is not None
    assert (spec.polling.enabled, spec.polling.interval) == (True, "60s")
    assert spec.gateway is not None
    assert (spec.gateway.port, spec.gateway.tls) == (8043, True)
    assert spec.exclude_patterns == ("**/.git/", "**/.gitkeep", "**/.resources/**")
    assert spec.deletion_budget is not None
    assert (spec.deletion_budget.files, spec.deletion_budget.percent) == (50, 50)
    assert to_wire(spec) == filled


def test_what_was_set_stays_even_if_it_is_false_empty_or_zero() -> None:
    spec = {
        "git": {**GIT, "allowRewrite": False},
        "gateway": {"filesOnly": False, "tls": False},
        "excludePatterns": [],
        "deletionBudget": {"files": 0},
        "agent": {"resources": {"limits": {"cpu": 2}}},
    }
    filled: Any = with_defaults("Stoker", spec)
    assert filled["git"]["allowRewrite"] is False
    assert (filled["gateway"]["filesOnly"], filled["gateway"]["tls"]) == (False, False)
    assert filled["excludePatterns"] == []
    assert filled["deletionBudget"] == {"files": 0, "percent": 50}
    assert filled["agent"]["resources"]["limits"] == {"cpu": 2, "memory": "256Mi"}


def test_a_block_whose_presence_has_a_meaning_does_not_appear_by_itself() -> None:
    filled = with_defaults("Stoker", {"git": GIT})
    assert "gateway" not in filled
    assert from_wire(filled, StokerSpec).gateway is None
    ignition: Any = with_defaults(
        "IgnitionSync", {"git": GIT, "storage": {}, "shared": {"udts": {"source": "a"}}}
    )
    assert ignition["storage"] == {"storageClassName": "", "size": "1Gi", "accessMode": "ReadWriteMany"}
    assert ignition["shared"] == {"udts": {"source": "a", "enabled": True}}
    assert "storage" not in with_defaults("IgnitionSync", {"git": GIT})


def test_items_of_lists_get_their_values_and_lists_do_not_appear() -> None:
    windows = [
        {"cron": "0 0 * * *", "duration": "1h"},
        {"cron": "0 1 * * *", "duration": "1h", "timeZone": "Asia/Tokyo"},
    ]
    filled: Any = with_defaults("Stoker", {"git": GIT, "maintenanceWindows": windows})
    assert [window["timeZone"] for window in filled["maintenanceWindows"]] == ["UTC", "Asia/Tokyo"]
    assert "maintenanceWindows" not in with_defaults("Stoker", {"git": GIT})


def test_the_spec_that_was_given_is_not_changed() -> None:
    spec: dict[str, Any] = {"git": dict(GIT), "maintenanceWindows": [{"cron": "0 0 * * *", "duration": "1h"}]}
    with_defaults("Stoker", spec)
    assert spec == {"git": GIT, "maintenanceWindows": [{"cron": "0 0 * * *", "duration": "1h"}]}


def test_two_specs_do_not_share_a_default_list() -> None:
    one: Any = with_defaults("Stoker", {"git": GIT})
    one["excludePatterns"].append("mine")
    other: Any = with_defaults("Stoker", {"git": GIT})
    assert "mine" not in other["excludePatterns"]
