"""Distributes test files over xdist workers: a file, or a group of files, runs on one worker.

`pytest.mark.xdist_group` keeps tests together that share one expensive server: a forge, a release of
the chart, a browser. xdist's own `--dist loadgroup` does not see the mark with pytest 9.2, which
computes a test's id anew, and both workers start a server each. So the workers write down
which test belongs to which group, and the scheduler in the main process reads it.

Slow folders come first: the last minutes of a run are filled with short unit tests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

FIRST = ("docs", "e2e", "browser", "integration", "security", "crash", "hostile")
GROUPS = "groups.json"


def ordered(items: list[pytest.Item], root: Path) -> list[pytest.Item]:
    """Groups of slow folders first, then their other files, then the rest; stable otherwise."""
    return sorted(items, key=lambda item: (_rank(item.path, root), _group(item) is None))


def write_groups(folder: Path, items: Sequence[pytest.Item]) -> None:
    """Write down the group of each grouped test, for the scheduler."""
    named = {item.nodeid: group for item in items if (group := _group(item)) is not None}
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{GROUPS}.{os.getpid()}"
    part.write_text(json.dumps(named))
    part.replace(folder / GROUPS)  # workers write the same; a reader sees one whole file


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """One unit of work is a group, or a file."""

    def __init__(self, config: pytest.Config, log: object, folder: Path) -> None:
        super().__init__(config, log)
        self._file = folder / GROUPS
        self._groups: dict[str, str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        if self._groups is None:  # asked for only after all workers have collected
            self._groups = json.loads(self._file.read_text())
        return self._groups.get(nodeid) or nodeid.split("::", 1)[0]


def _group(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("xdist_group")
    return None if mark is None else f"group {mark.args[0]}"


def _rank(path: Path, root: Path) -> int:
    folder = path.relative_to(root).parts[0]
    return FIRST.index(folder) if folder in FIRST else len(FIRST)
