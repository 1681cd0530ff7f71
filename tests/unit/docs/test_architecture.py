"""The architecture page and the table of CONTRIBUTING name files that exist; the page has all packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "stoker"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FEATURES = (ROOT / "CONTRIBUTING.md").read_text().split("## Where do I find…\n")[1].split("\n## ")[0]
NAMED = sorted(set(re.findall(r"`([a-z0-9_/]+\.py)`", PAGE + FEATURES)))


@pytest.mark.parametrize("name", NAMED)
def test_a_named_file_exists(name: str) -> None:
    assert (SOURCE / name).is_file() or (ROOT / name).is_file()


def test_the_table_answers_thirty_features() -> None:
    assert len(re.findall(r"^\| .*\.py` \|$", FEATURES, re.M)) >= 30


def test_each_way_of_data_names_its_files() -> None:
    for heading in ("From a commit to a gateway", "From a gateway back to git", "From the cluster to git"):
        section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
        steps = re.findall(r"^\d+\. .*?(?=^\d+\. |\Z)", section, re.M | re.S)
        assert len(steps) >= 6
        assert [step for step in steps if ".py`" not in step] == []


def test_every_package_has_its_row() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE.split("## What runs where")[0], re.M))
    assert rows == packages
