"""A process that dies, or meets a broken disk, wherever it changes something in a storage.

Whatever is left: every snapshot in the list can be restored whole, the ones that
were to be kept are there, and the next one leaves nothing behind but what is needed.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.domain import failpoints
from stoker_testkit.environments.snapshot_environment import SnapshotFiles, SnapshotSite

PROCESS = Path(__file__).with_name("snapshot_process.py")


@pytest.fixture
def site(tmp_path: Path) -> SnapshotSite:
    return SnapshotSite(tmp_path)


@pytest.fixture
def expected(site: SnapshotSite) -> dict[str, SnapshotFiles]:
    """Three snapshots, of which the last two will be kept; each has something that the others have not."""
    known: dict[str, SnapshotFiles] = {}
    for number in range(3):
        site.write("same", b"in all of them" * 100)
        site.write("changes", b"number %d" % number * 100)
        known[site.take().id] = site.files()
    site.write("changes", b"the one that fails" * 100)
    return known


def attempted(site: SnapshotSite, *failures: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(PROCESS), str(site.data.parent), *failures]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def assert_sound(site: SnapshotSite, expected: dict[str, SnapshotFiles]) -> None:
    """All that is listed is whole, and of the earlier ones at most the oldest is gone."""
    listed = [snapshot.id for snapshot in site.snapshots.listed()]
    assert set(list(expected)[1:]) - set(listed) <= {list(expected)[1]}
    for snapshot in site.snapshots.listed():
        assert not snapshot.trouble
        site.snapshots.verify(snapshot.id)
        assert site.restored(snapshot.id) == expected.get(snapshot.id, site.files())


def assert_tidy(site: SnapshotSite) -> None:
    """Only what is needed is there."""
    needed = {".lock"}
    for snapshot in site.snapshots.listed():
        manifest = site.snapshots.open(snapshot.id).manifest
        needed |= {f"{snapshot.id}.manifest", *manifest.packs}
    assert {path.name for path in site.store.iterdir()} == needed


TURNS = [f"{name}:{turn}" for name in failpoints.SNAPSHOT for turn in (1, 2)]


@pytest.mark.parametrize("failure", TURNS)
def test_a_kill_leaves_whole_snapshots_and_the_next_one_cleans_up(
    site: SnapshotSite, expected: dict[str, SnapshotFiles], failure: str
) -> None:
    done = attempted(site, failure)
    assert done.returncode == -signal.SIGKILL, f"{failure} is never reached: {done.stderr}"
    assert_sound(site, expected)
    taken = site.take()
    site.snapshots.prune(2)
    assert site.restored(taken.id) == site.files()
    assert len(site.snapshots.listed()) == 2
    assert_tidy(site)


DISKS = list(zip(TURNS, itertools.cycle(["enospc", "eio", "erofs"]), strict=False))


@pytest.mark.parametrize(("failure", "action"), DISKS)
def test_a_disk_that_fails_leaves_whole_snapshots_and_says_so(
    site: SnapshotSite, expected: dict[str, SnapshotFiles], failure: str, action: str
) -> None:
    done = attempted(site, f"{failure}={action}")
    assert done.returncode == 1, f"{failure} is never reached"
    assert "stoker.domain.errors.Retry: the snapshots in" in done.stderr
    assert_sound(site, expected)
    if "unlink" not in failure:
        assert_tidy(site)  # at once: nothing half is left, whatever the step was
    assert attempted(site).returncode == 0
    assert len(site.snapshots.listed()) == 2
    assert_tidy(site)
