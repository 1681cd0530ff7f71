"""No gateway ever reads half a resource, however often and whenever it looks.

A real agent brings commit after commit of 300 changed files, while the test gateway looks
at everything at random moments: with its scan lock, which its own looks disregard, and as
one that has none. It remembers every resource that it ever read wrong, for good. `make
test` holds a few syncs of it, `make test-long` a hundred with a thousand looks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from stoker_testkit.environments.agent_environment import AgentEnvironment
from stoker_testkit.gateway.resource_reader import MANIFEST, LoadedResource, digest_of
from stoker_testkit.gateway.settings import GatewaySettings
from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.gateway.torn_reads.observations import ObservationLog, Version
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, resource

VIEW_COUNT = 145
MOVED = 5
CHANGED = 300
FOLDER = f"projects/filler/{VIEWS}"


def tree(version: int) -> dict[str, str]:
    """Of each version all views differ from the one before, a few are new and a few are gone."""
    files = {"projects/filler/project.json": '{"title": "Filler"}'}
    for number in range(version * MOVED, version * MOVED + VIEW_COUNT):
        text = json.dumps({"root": {"version": version, "number": number, "text": "x" * 3000}})
        files |= {f"{FOLDER}/v{number}/{name}": it for name, it in resource({"view.json": text}).items()}
    return files


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    found: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    return found | {path: text for path, text in after.items() if before.get(path) != text}


def in_between(seen: ObservationLog, history: Sequence[Version]) -> int:
    """How often a resource was seen while it changed: its data is newer than what announces it."""
    whole = {
        LoadedResource(
            digest_of(version[path]), {"view.json": digest_of(version[f"{folder}/view.json"])}
        ).digest
        for version in history
        for path in version
        for folder, _, name in [path.rpartition("/")]
        if name == MANIFEST
    }
    return sum(one.seen.digest not in whole for one in seen.sightings)


@pytest.mark.parametrize("locks", [True, False], ids=["with the scan lock", "without one"])
@pytest.mark.parametrize(
    ("syncs", "looks"),
    [(5, 50), pytest.param(100, 1000, marks=[pytest.mark.long])],
    ids=["a few", "a hundred"],
)
def test_no_resource_is_ever_read_half(plant: AgentEnvironment, locks: bool, syncs: int, looks: int) -> None:
    pod = plant.pod()
    trees = [tree(0)]
    commit = plant.commit(trees[0])
    plant.publish(commit, agent_spec=plant.spec())
    gateway = plant.join_gateway(pod, settings=GatewaySettings(scan_lock=locks))
    plant.until_converged(pod, commit)
    gateway.scan_at_random(1000.0, seed=1)
    while len(trees) <= syncs or gateway.random_scans < looks:
        trees.append(tree(len(trees)))
        changed = changes(*trees[-2:])
        assert len(changed) == CHANGED
        commit = plant.commit(changed)
        plant.publish(commit)
        assert plant.until_synced(pod, commit).files_changed == CHANGED
    gateway.scan_at_random(0)
    plant.until_converged(pod, commit)
    history = [{path: text.encode() for path, text in one.items()} for one in trees]
    seen = gateway.scanned
    result = f"{len(trees) - 1} syncs, {gateway.random_scans} looks, {in_between(seen, history)} in between"
    assert gateway.stale() == [], result
    assert (seen.torn(), seen.out_of_order(history), seen.unknown(history)) == ([], [], []), result
    assert in_between(seen, history) > 0, f"{result}: no scan ran while files changed"
    locked = [one for one in gateway.asked("POST", "/scan-lock/projects") if one.status == 200]
    assert bool(locked) is locks
    print(result)  # noqa: T201 - the numbers of the long run


def test_a_writer_that_is_not_careful_is_caught(tmp_path: Path) -> None:
    """The same looks at one who writes in place: what was shown above can fail."""
    careful = tree(0)
    for path, text in careful.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with SimulatedGateway.start(tmp_path, scan_seconds=0.0) as gateway:
        gateway.scan_at_random(1000.0, seed=1)
        for version in range(1, 30):
            for path, content in again(version).items():
                (tmp_path / path).write_text(content)  # empty for a moment, and the manifest at any time
            if gateway.stale():
                break
        assert gateway.stale()


def again(version: int) -> dict[str, str]:
    """The same views with other contents."""
    text = json.dumps({"root": {"version": version, "text": "y" * 3000}})
    folders = (f"{FOLDER}/v{number}" for number in range(VIEW_COUNT))
    return {
        f"{folder}/{name}": it for folder in folders for name, it in resource({"view.json": text}).items()
    }
