"""The shapes that docs/dashboard.md shows are those that the server speaks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.dashboard.view_models import (
    ActionBody,
    ChangesView,
    DashboardAction,
    DashboardView,
    FailureView,
    GatewayHistoryView,
    SessionView,
    as_json,
)

PAGE = (Path(__file__).parents[3] / "docs" / "dashboard.md").read_text()
SHAPES: dict[str, type[msgspec.Struct]] = {
    "Session": SessionView,
    "Picture": DashboardView,
    "Events": ChangesView,
    "A gateway": GatewayHistoryView,
    "Actions": ActionBody,
}


def shown(title: str) -> list[str]:
    section = PAGE.split(f"\n### {title}\n")[1].split("\n### ")[0]
    return re.findall(r"```json\n(.*?)```", section, re.DOTALL)


@pytest.mark.parametrize("title", SHAPES)
def test_an_example_is_read_and_written_again_without_loss(title: str) -> None:
    example = shown(title)[0]
    value = msgspec.json.decode(example, type=SHAPES[title], strict=True)
    assert json.loads(as_json(value)) == json.loads(example), "a key is missing on the page, or is not ours"


def test_an_error_is_what_the_page_shows() -> None:
    example = shown("Actions")[1]
    assert json.loads(as_json(msgspec.json.decode(example, type=FailureView))) == json.loads(example)


def test_every_action_is_on_the_page() -> None:
    table = PAGE.split("\n### Actions\n")[1]
    assert [one for one in DashboardAction if f"`{one.value}`" not in table] == []


def test_nothing_is_ever_left_out() -> None:
    def keys(value: Any) -> set[str]:
        return set(value) if isinstance(value, dict) else set()

    empty = json.loads(as_json(DashboardView(version=1, mode="cluster", at="")))
    assert keys(empty) == keys(json.loads(shown("Picture")[0]))
    assert empty["resources"] == []
