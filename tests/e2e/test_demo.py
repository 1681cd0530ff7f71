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
    shown = _acts(done.stdout)

    first = shown["stoker sync brings both"]
    assert first.count(": 10 added\n") == 2
    assert "filler: gateway loaded " in first
    planned = shown["A commit changes"]
    assert "+\treturn 0 if not seconds else count * 3600 / seconds" in planned
    moved = shown["stoker sync moves"]
    assert "filler: main is at " in moved
    assert ": 2 added, 1 modified, 2 deleted\n" in moved
    assert "filler: gateway dropped projects/filler/" in moved
    assert "packer: gateway reloaded " in moved
    assert ": nothing to do\n" in moved
    drift = shown["Somebody edits"]
    assert "projects/packer/com.inductiveautomation.perspective/views/Overview/view.json" in drift
    assert "ended with exit code 10\n" in drift
    assert drift.endswith(": nothing was changed\n")
    assert ": 1 modified\n" in drift

    assert "spec.git.ref: Invalid value" in done.stdout
    assert "the ref moved from" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in _command_lines()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_operators_demo_ends_with_five_synced_gateways_and_cleans_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "demo", "--operator"],
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("5 of 5 gateways synced") == 2
    assert "filler: its project is called 'filler 2'" in done.stdout
    assert "capper: its project is called 'capper 1'" in done.stdout
    assert "5 of 5 gateways run on with their files" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in _command_lines()


def _acts(output: str) -> dict[str, str]:
    """What was shown under each title, by the first words of the title."""
    titles = ("stoker sync brings both", "A commit changes", "stoker sync moves", "Somebody edits")
    parts = {part.partition("\n")[0]: f"{part}\n" for part in output.split("\n\n")}
    return {short: next(text for title, text in parts.items() if title.startswith(short)) for short in titles}


def _command_lines() -> str:
    """The command lines of all processes; those of the demo's servers name its folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return "\n".join(line for line in found if "pytest" not in line)
