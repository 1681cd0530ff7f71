"""`stoker demo` does what it shows, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker_testkit.secret_leaks.process_command_lines import running

STAYS = "Everything keeps running until Ctrl-C"


def test_the_demo_runs_to_its_end_and_cleans_up(tmp_path: Path) -> None:
    """It stays at its end, and the dashboard with it; Ctrl-C ends both."""
    with started(tmp_path, "--stay") as demo:
        shown = until_it_stays(demo)
        link = re.search(r"http://127\.0\.0\.1:\d+/", shown[shown.index(STAYS) :])
        assert link is not None, shown
        assert b"<html" in page(link[0])
        demo.send_signal(signal.SIGINT)
        rest, errors = demo.communicate(timeout=300)
    assert demo.returncode == 0, errors
    steps = steps_of(shown + rest)

    first = steps["Setting up"]
    assert first.count(": 10 added. The gateway loaded 4 resources.") == 2
    assert "$ stoker sync --watch -f filler.yaml --gateway-name filler --data-dir filler" in first
    assert "dashboard: http://127.0.0.1:" in first
    push = steps["1. A push to main"]
    assert ": 2 added, 1 modified, 2 deleted. Verified " in push
    assert "filler: the gateway unloaded projects/filler/" in push
    assert "packer: the gateway reloaded " in push
    assert "dashboard: filler is Synced at " in push
    drift = steps["2. A file is changed by hand"]
    view = "projects/packer/com.inductiveautomation.perspective/views/Overview/view.json"
    assert f"packer: changed by hand: {view}\n" in drift
    assert ": 1 modified. Restored after " in drift
    assert ": nothing was changed\n" in drift
    broken = steps["3. A commit with a project"]
    assert "filler: AutoRollback: commit " in broken
    assert ", compared by digest, after " in broken
    assert "dashboard: filler is Error (AutoRollback) at " in broken
    assert "filler: projects that the gateway runs: cleaning, filler\n" in broken
    assert "dashboard: filler is Synced at " in broken
    assert "All processes are stopped and all files are removed." in rest
    assert "make demo-cluster" in rest
    assert "\x1b" not in shown + rest, "no colour in a pipe"
    nothing_is_left(tmp_path)


@pytest.mark.cluster
def test_the_demo_with_a_cluster_ends_with_five_synced_gateways_and_cleans_up(tmp_path: Path) -> None:
    with started(tmp_path, "--cluster") as demo:
        shown, errors = demo.communicate(timeout=840)
    assert demo.returncode == 0, f"{errors}\n{shown}"
    steps = steps_of(shown)
    assert "5 of 5 gateways synced" in steps["One Stoker resource, and five gateway pods"]
    push = steps["1. A push"]
    assert "5 of 5 gateways synced" in push
    assert "filler: its project has the title 'filler 2'" in push
    assert "capper: its project has the title 'capper 1'" in push
    change = steps["2. A designer saves"]
    assert " by Gateway labeler <" in change
    assert "5 of 5 gateways synced" in change
    written = steps["3. alice changes"]
    assert " by alice <" in written
    assert re.search(r"dashboard: recipes/production got \w{8} by alice\n", written)
    broken = steps["4. A commit with a project"]
    assert "AutoRollbackPerformed after " in broken
    assert "dashboard: filler is Error (AutoRollback) at " in broken
    assert re.search(r"filler +filler +Error .* was rolled back", broken)
    assert broken.index("the title 'filler 2'") < broken.index("the title 'filler 3'")
    assert "5 of 5 gateways synced" in broken
    assert "5 of 5 gateways still run with their files" in shown
    nothing_is_left(tmp_path)


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a process whose temporary files are in the folder."""
    with subprocess.Popen(
        [sys.executable, "-m", "stoker", "demo", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
    ) as demo:
        try:
            yield demo
        finally:
            if demo.poll() is None:
                demo.terminate()


def until_it_stays(demo: subprocess.Popen[str]) -> str:
    """What it prints until its links are shown at the end."""
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if STAYS in "".join(lines) and "dashboard" in line:
            return "".join(lines)
    assert demo.stderr is not None
    raise AssertionError(f"it ended: {''.join(lines)}\n{demo.stderr.read()}")


def page(link: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(link, timeout=30) as answer:
        found: bytes = answer.read()
    return found


def steps_of(output: str) -> dict[str, str]:
    """What was shown under each title, by the beginning of the title."""
    whole = f"{output}\n".replace("\n      ", " ")  # long lines go on in the next one
    parts = [part.lstrip("\n") for part in whole.split("\n\n") if part.strip()]
    return Steps({part.partition("\n")[0]: f"{part}\n" for part in parts})


class Steps(dict[str, str]):
    """Found by the first words of their title."""

    def __missing__(self, short: str) -> str:
        return next(text for title, text in self.items() if title.startswith(short))


def nothing_is_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    assert str(folder) not in command_lines()


def command_lines() -> str:
    """The command lines of all processes; those of the demo's servers name its folder."""
    return "\n".join(line for line in running().values() if "pytest" not in line)
