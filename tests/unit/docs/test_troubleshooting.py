"""Every reason that a person can meet has its line on the page that they will open."""

import re
from pathlib import Path

from stoker.domain.reasons import Reason

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCE = ROOT / "src" / "stoker"


def test_every_reason_is_explained_once_and_nothing_else_is() -> None:
    explained = re.findall(r"^\| ([A-Z]\w+) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(reason.value for reason in Reason)


def test_every_reason_is_used_by_the_code() -> None:
    """An unused reason would be documented without need."""
    names = {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r"\bReason\.([A-Z0-9_]+)", file.read_text())
    }
    assert [reason.name for reason in Reason if reason.name not in names] == []


def test_every_section_says_what_is_seen_and_where_to_begin() -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    with_reasons = [one for one in sections if "| reason |" in one]
    assert len(with_reasons) > 10
    for one in with_reasons:
        before = one.partition("| reason |")[0]
        assert "**You see** " in before, one.splitlines()[0]
        assert "```sh\n" in before, one.splitlines()[0]
