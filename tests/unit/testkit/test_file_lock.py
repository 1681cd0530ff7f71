"""Locks between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from stoker_testkit.file_lock import locked, try_locked
from stoker_testkit.wait_until import eventually


def is_free(path: Path) -> bool:
    with try_locked(path) as ours:
        return ours


def test_a_lock_excludes_others_while_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path):
        assert not is_free(path)
    assert is_free(path)


def test_shared_holders_exclude_only_exclusive_ones(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, shared=True), locked(path, shared=True):
        assert not is_free(path)
    assert is_free(path)


def test_a_holder_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import sys, pathlib\n"
        "from stoker_testkit.file_lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert not is_free(path)
        os.kill(holder.pid, signal.SIGKILL)
    eventually(lambda: is_free(path), message="the lock is free")
