"""Every reason that a person can meet has its line on the page that they will open."""

import re
from pathlib import Path

from stoker.domain.reasons import Reason

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"


def test_every_reason_is_explained_once_and_nothing_else_is() -> None:
    explained = re.findall(r"^\| ([A-Z]\w+) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(reason.value for reason in Reason)
