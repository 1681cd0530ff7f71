"""Two tiers of tests: what needs nothing but Python, git and ssh, and what needs built servers.

`make test` runs `--tier=fast`: everything that starts no built program. Where the control plane's
binaries are found, the tests marked `smoke` join it, a selection that shows each process on a real API
server. `make test-all` runs `--tier=rest`: everything else. Without `--tier` nothing is left out.

What a test needs is read from its fixtures and its folder; `cluster` and `services` mark tests that
start a control plane or another built program by themselves. A test that lacks its mark fails in the
fast tier on a machine without these programs, because `STOKER_BUILD=never` forbids to build them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stoker_testkit.assets import ensure_binaries as assets

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

HERE = Path(__file__).parent
FAST, REST = "fast", "rest"
NEEDS = ("cluster", "services", "slow")
FIXTURES = {
    "control_plane": "cluster",
    "control_plane_with_controllers": "cluster",
    "installed": "cluster",
    "gitea": "services",
}
FOLDERS = {
    "browser": "services",
    "crash": "slow",
    "docs": "services",
    "integration/artifacts": "services",
    "integration/chart": "services",
    "integration/snapshots": "services",
}

NOTHING_NEEDED = ("property", "unit")

PROVEN = """
Proven: style, types and package layers; every decision (unit and property tests); hostile repositories;
git over http and ssh; standalone sync against the test gateway with rollback, drift, bidirectional capture
and the dashboard's API."""
PROVEN_ON_CLUSTER = """
Proven on a real API server, by a selection: controller, webhook with injection, receiver, agent, reverser
with authors, dashboard."""
NOT_PROVEN = {
    True: "the rest of the cluster tests, ",
    False: "the controller, webhook, agent, reverser and dashboard on a real API server, ",
}
NOT_PROVEN_REST = """the chart with helm, a real forge (Gitea), object store and registry,
the dashboard in Chromium, crashes, and the commands of the documentation. `make test-all` proves them;
its first run builds the servers from their Go modules."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=(FAST, REST), help="what needs no built program, or the rest")


def ignored(config: pytest.Config, path: Path) -> bool | None:
    """Whether a folder has no test of the tier, so that it need not be imported."""
    folder = path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""
    other = {FAST: tuple(FOLDERS), REST: NOTHING_NEEDED}.get(config.getoption("--tier") or "", ())
    return True if folder in other else None


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with what it needs, and keep those of the tier."""
    for item in items:
        folder = item.path.parent.relative_to(HERE).as_posix()
        needed = {FIXTURES.get(name) for name in getattr(item, "fixturenames", ())} | {FOLDERS.get(folder)}
        for name in needed - {None}:
            item.add_marker(str(name))
    tier = config.getoption("--tier")
    if tier is None:
        return
    smoke = tier == FAST and has_control_plane()
    kept = [item for item in items if _in_tier(item, tier, smoke=smoke)]
    config.hook.pytest_deselected(items=_without(items, kept))
    items[:] = kept


def summary(config: pytest.Config, reporter: TerminalReporter) -> None:
    """At the end of the whole fast tier: what it proved, and what it did not."""
    whole = config.getoption("--tier") == FAST and any(Path(one).resolve() == HERE for one in config.args)
    if not whole or reporter.stats.get("failed") or reporter.stats.get("error"):
        return
    cluster = has_control_plane()
    reporter.write_line(PROVEN)
    if cluster:
        reporter.write_line(PROVEN_ON_CLUSTER)
    reporter.write_line(f"\nNot proven: {NOT_PROVEN[cluster]}{NOT_PROVEN_REST}\n")


def has_control_plane() -> bool:
    return assets.find(assets.ALL) is not None


def _in_tier(item: pytest.Item, tier: str, *, smoke: bool) -> bool:
    needs_more = any(item.get_closest_marker(name) for name in NEEDS)
    if tier == REST:
        return needs_more
    return not needs_more or (smoke and item.get_closest_marker("smoke") is not None)


def _without(items: Sequence[pytest.Item], kept: Sequence[pytest.Item]) -> list[pytest.Item]:
    chosen = set(map(id, kept))
    return [item for item in items if id(item) not in chosen]
