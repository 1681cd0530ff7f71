"""One control plane for all workers of a test run, and the run's folder on disk.

The worker that needs it first starts it and owns it; the others join it. Both
hold file locks, which the kernel takes back from a worker that dies, so nothing
has to be counted: the plane runs exactly as long as its owner holds `owner`, and
the owner stops it when no other process holds `users` any more.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.file_lock import locked, try_locked


@contextmanager
def shared_control_plane(folder: Path, start: Callable[[Path], ControlPlane]) -> Iterator[ClusterAccess]:
    """Join the control plane of `folder`, or start it there; only its owner waits on leaving."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "state"
    with ExitStack() as mine:
        with locked(folder / "joining"):
            if mine.enter_context(try_locked(folder / "owner")):
                shutil.rmtree(state, ignore_errors=True)  # left by an owner that died
                mine.enter_context(start(state))
                mine.enter_context(_after_all_users(folder / "users"))
            else:
                mine.enter_context(locked(folder / "users", shared=True))
        yield ClusterAccess.load(state)


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """A new folder for this run below `parent`, gone with it; those of runs that were killed go first."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as mine:
        with locked(parent / "lock"):
            for old in parent.glob("run-*"):
                with try_locked(old / "alive") as abandoned:
                    if abandoned:
                        shutil.rmtree(old, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
            mine.enter_context(locked(folder / "alive"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _after_all_users(path: Path) -> Iterator[None]:
    """On leaving, wait until the last user has gone."""
    yield
    with locked(path):
        pass
