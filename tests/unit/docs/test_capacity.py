"""The capacity guide names settings that exist, within their limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from stoker.api.defaults import SYNC
from stoker.domain.shards import MAX_SHARDS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "capacity.md").read_text()
CHART = ROOT / "charts" / "stoker"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize("size", ["10 / 50", "50 / 200", "100 / 500", "500 / 1,000"])
def test_the_guide_has_a_row_for_each_specified_size(size: str) -> None:
    assert re.search(rf"^\| up to {size} \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("size", ["up to 100 MB", "up to 500 MB", "more, or files above 100 MB"])
def test_the_guide_has_a_row_for_each_size_of_a_repository(size: str) -> None:
    assert re.search(rf"^\| {size} \|", PAGE, re.MULTILINE)


def test_every_value_of_the_chart_that_the_guide_names_is_one() -> None:
    named = set(re.findall(r"`((?:controller|agent)\.[A-Za-z.]+)(?::[^`]*)?`", PAGE))
    assert {"controller.workers", "controller.shards", "controller.watchNamespaces"} <= named
    for path in named:
        found = VALUES
        for word in path.split("."):
            assert word in found, path
            found = found[word]


def test_the_defaults_that_the_guide_names_are_those_of_the_chart() -> None:
    limit = VALUES["controller"]["resources"]["limits"]["memory"]
    assert f"the default (limit {limit})" in PAGE


def test_the_chart_allows_as_many_shards_as_the_command() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    shards = schema["properties"]["controller"]["properties"]["shards"]
    assert (shards["minimum"], shards["maximum"]) == (1, MAX_SHARDS)
    assert f"# 1 to {MAX_SHARDS}" in PAGE


def test_the_tables_of_the_benchmark_have_their_place() -> None:
    assert PAGE.index("<!-- scale: begin -->") < PAGE.index("<!-- scale: end -->")


def test_what_processes_ask_for_is_what_the_chart_and_the_api_give_them() -> None:
    def described(resources: dict[str, dict[str, str]]) -> str:
        return " | ".join(
            f"{resources[which]['cpu']}, {resources[which]['memory']}" for which in ("requests", "limits")
        )

    given = {name: VALUES[name]["resources"] for name in ("controller", "webhook", "reverser")}
    agent = {
        which: {what: str(SYNC[f"agent.resources.{which}.{what}"]) for what in ("cpu", "memory")}
        for which in ("requests", "limits")
    }
    for name, resources in {**given, "agent": agent}.items():
        assert f"| {name} | {described(resources)} |" in PAGE
