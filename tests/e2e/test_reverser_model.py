"""Random histories: people change a cluster, everything goes wrong, and git holds what happened.

Each seed is one history on the real API server: users of several kinds create, change,
scale, label, delete and make again, while strangers push to the same branch. Two real
replicas write it to real git, and meanwhile they are killed at any failpoint, paused
for longer than their Leases live, lose connections in the middle of a message, get
expired versions, and do not know whether a push has arrived.

However it went: in the end git is the sanitized cluster, each object's commits are in
order, no author is named for what another did, and no stranger's file was touched.

A history that fails is printed whole. `STOKER_SEEDS=120-129` runs those alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.reverser.random_history_run import RandomHistoryEnvironment, RandomHistoryRun

pytestmark = pytest.mark.cluster

SEEDS = 500
ABOARD = 10
"""How many histories share a storm."""
SAMPLE = range(6)
CALM = range(1000, 1004)
CRDS = Path(__file__).parents[2] / "config" / "crd"


def seed_groups() -> list[Sequence[int]]:
    chosen = os.environ.get("STOKER_SEEDS", "")
    if chosen:
        first, _, last = chosen.partition("-")
        return [range(int(first), int(last or first) + 1)]
    return [range(first, first + ABOARD) for first in range(0, SEEDS, ABOARD)]


def _named(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}-{seeds[-1]}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RandomHistoryEnvironment]:
    """A control plane of its own: the author webhook is configured once for a whole cluster."""
    folder = tmp_path_factory.mktemp("world")
    with ControlPlane.start(folder / "plane") as plane:
        files = [f"--filename={file}" for file in sorted(CRDS.glob("configbutler.ai_*.yaml"))]
        plane.kubectl("apply", "--server-side", *files)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
        with RandomHistoryEnvironment(plane, folder) as world:
            yield world


@pytest.mark.xdist_group("reverser-model-0")
def test_in_calm_weather_people_are_named_for_what_they_did(world: RandomHistoryEnvironment) -> None:
    run = RandomHistoryRun(world, CALM)
    run.run_and_check(with_faults=False)
    unknown = run.authors.pop("unknown", 0)
    assert len(run.authors) > 3, f"only {run.authors} are named"
    assert run.authors.total() > unknown, f"{unknown} changes have no author, {run.authors} are"


@pytest.mark.xdist_group("reverser-model-0")
def test_some_histories_end_well(world: RandomHistoryEnvironment) -> None:
    run = RandomHistoryRun(world, SAMPLE)
    run.run_and_check()
    assert run.authors.total(), "nothing was written"


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(seeds, marks=pytest.mark.xdist_group(f"reverser-model-{turn % 2}"), id=_named(seeds))
        for turn, seeds in enumerate(seed_groups())
    ],
)
def test_every_history_ends_well(world: RandomHistoryEnvironment, seeds: Sequence[int]) -> None:
    RandomHistoryRun(world, seeds).run_and_check()
