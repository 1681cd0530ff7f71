"""Folders that live as long as one call, and what is left when a call was killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.git.private_files import folder_for_one_call, install_script, private_folder, remove_leftovers
from stoker.git.process.runner import GitRunner

HOLDING = """
import sys
from pathlib import Path
from stoker.git.private_files import folder_for_one_call
with folder_for_one_call(Path(sys.argv[1])) as folder:
    (folder / "key").write_text("canary")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_is_private_and_gone_afterwards_even_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with folder_for_one_call(tmp_path) as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "key").write_text("secret")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    home = private_folder(tmp_path / "cache/home")
    argv = [sys.executable, "-c", HOLDING, str(home)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        os.utime(folder, (time.time() - 60,) * 2)
        remove_leftovers(home)
        assert (folder / "key").exists()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert (folder / "key").exists()
    with folder_for_one_call(home) as young:
        GitRunner(tmp_path / "cache")
        assert young.exists()
    assert not folder.exists()


def test_a_changed_program_of_ours_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "helper"
    for _ in range(2):
        assert install_script(path, b"#!/bin/sh\n").read_bytes() == b"#!/bin/sh\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        path.write_bytes(b"evil")
