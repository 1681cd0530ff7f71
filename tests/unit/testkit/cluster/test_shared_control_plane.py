"""The folder of a test run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from stoker_testkit.cluster.shared_control_plane import run_folder

PROGRAM = """
import sys, pathlib
from stoker_testkit.cluster.shared_control_plane import run_folder
with run_folder(pathlib.Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_run_has_a_folder_of_its_own_that_goes_with_it(tmp_path: Path) -> None:
    with run_folder(tmp_path) as one, run_folder(tmp_path) as other:
        assert one != other
        (one / "state").mkdir()
        assert one.is_dir()
        assert other.is_dir()
    assert not one.exists()
    assert not other.exists()


def test_the_folder_of_a_killed_run_is_removed_by_the_next_and_that_of_a_live_one_is_not(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        theirs = Path(run.stdout.readline().decode().strip())
        with run_folder(tmp_path):
            assert theirs.is_dir()
        os.kill(run.pid, signal.SIGKILL)
    assert theirs.is_dir()
    with run_folder(tmp_path):
        assert not theirs.exists()
