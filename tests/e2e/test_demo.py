"""`stoker demo` does what it shows, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(300)
def test_the_demo_runs_to_its_end_and_cleans_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert ": 2 added, 2 deleted\n" in done.stdout
    assert ": nothing to do\n" in done.stdout
    assert "spec.git.ref: Invalid value" in done.stdout
    assert "the ref moved from" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in _command_lines()


def _command_lines() -> str:
    """The command lines of all processes; those of the demo's servers name its folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return "\n".join(line for line in found if "pytest" not in line)
