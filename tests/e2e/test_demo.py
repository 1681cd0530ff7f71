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

STAYS = "The stage stays until Ctrl-C"


@pytest.mark.timeout(300)
def test_the_demo_runs_to_its_end_and_cleans_up(tmp_path: Path) -> None:
    """It stays when the story is told, and the dashboard with it; Ctrl-C ends both."""
    with started(tmp_path, "--stay") as demo:
        told = until_it_stays(demo)
        link = re.search(r"http://127\.0\.0\.1:\d+/", told[told.index(STAYS) :])
        assert link is not None, told
        assert b"<html" in page(link[0])
        demo.send_signal(signal.SIGINT)
        rest, trouble = demo.communicate(timeout=60)
    assert demo.returncode == 0, trouble
    acts = acts_of(told + rest)

    first = acts["The stage"]
    assert first.count(": 10 added") == 2
    assert "filler: main is at " in first
    assert "$ stoker sync --watch -f filler.yaml --gateway-name filler --data-dir filler" in first
    assert "dashboard of the filler: http://127.0.0.1:" in first
    push = acts["1. A push"]
    assert ": 2 added, 1 modified, 2 deleted, and verified after " in push
    assert "filler: gateway dropped projects/filler/" in push
    assert "packer: gateway reloaded " in push
    assert "dashboard: filler is Synced at " in push
    edit = acts["2. A designer saves"]
    assert "git: branch gateway-changes/plant/labeler after " in edit
    assert " by Gateway labeler <" in edit
    assert '+  "title": "Labeler overview, with a counter of jams"' in edit
    assert "labeler  labeler-0  Synced" in edit
    assert "dashboard: labeler is Synced at " in edit
    change = acts["3. alice changes"]
    assert " by alice <" in change
    assert 'git: -  temperature: "80 C"\n' in change
    assert 'git: +  temperature: "82 C"\n' in change
    assert re.search(r"dashboard: recipes/production got \w{8} by alice\n", change)
    broken = acts["4. A commit with a project"]
    assert "filler: AutoRollback: commit " in broken
    assert ", bit for bit, after " in broken
    assert "dashboard: filler is Error (AutoRollback) at " in broken
    assert re.search(r"filler: main is at \w{8}: .*; \w{8} is forgotten", broken)
    assert "filler: projects of the gateway: cleaning, filler\n" in broken
    assert "dashboard: filler is Synced at " in broken
    assert "nothing is left running, nothing is left on disk" in rest
    assert "\x1b" not in told + rest, "no colour in a pipe"
    nothing_is_left(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_demo_without_a_cluster_puts_an_edit_back_and_cleans_up(tmp_path: Path) -> None:
    with started(tmp_path, "--no-cluster") as demo:
        told, trouble = demo.communicate(timeout=280)
    assert demo.returncode == 0, f"{trouble}\n{told}"
    acts = acts_of(told)
    edit = acts["2. Somebody edits"]
    assert (
        ": 1 modified: projects/packer/com.inductiveautomation.perspective/views/Overview/view.json" in edit
    )
    assert ": nothing was changed\n" in edit
    assert "filler: AutoRollback: commit " in acts["3. A commit with a project"]
    assert "labeler" not in told
    nothing_is_left(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_operators_demo_ends_with_five_synced_gateways_and_cleans_up(tmp_path: Path) -> None:
    with started(tmp_path, "--operator") as demo:
        told, trouble = demo.communicate(timeout=380)
    assert demo.returncode == 0, f"{trouble}\n{told}"
    acts = acts_of(told)
    assert "5 of 5 gateways synced" in acts["One resource, and five pods"]
    push = acts["1. A push"]
    assert "5 of 5 gateways synced" in push
    assert "filler: its project is called 'filler 2'" in push
    assert "capper: its project is called 'capper 1'" in push
    edit = acts["2. A designer saves"]
    assert " by Gateway labeler <" in edit
    assert "5 of 5 gateways synced" in edit
    change = acts["3. alice changes"]
    assert " by alice <" in change
    assert re.search(r"dashboard: recipes/production got \w{8} by alice\n", change)
    broken = acts["4. A commit with a project"]
    assert "AutoRollbackPerformed after " in broken
    assert "dashboard: filler is Error (AutoRollback) at " in broken
    assert re.search(r"filler +filler +Error .* was taken back", broken)
    assert broken.index("filler: its project is called 'filler 2'") < broken.index("called 'filler 3'")
    assert "5 of 5 gateways synced" in broken
    assert "5 of 5 gateways run on with their files" in told
    nothing_is_left(tmp_path)


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a process whose temporary files lie in the folder."""
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
    """What it tells until the story is told and its links are shown."""
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


def acts_of(output: str) -> dict[str, str]:
    """What was shown under each title, by the beginning of the title."""
    whole = f"{output}\n".replace("\n      ", " ")  # long lines go on in the next one
    parts = [part.lstrip("\n") for part in whole.split("\n\n") if part.strip()]
    return Acts({part.partition("\n")[0]: f"{part}\n" for part in parts})


class Acts(dict[str, str]):
    """Found by the first words of their title."""

    def __missing__(self, short: str) -> str:
        return next(text for title, text in self.items() if title.startswith(short))


def nothing_is_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    assert str(folder) not in command_lines()


def command_lines() -> str:
    """The command lines of all processes; those of the demo's servers name its folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return "\n".join(line for line in found if "pytest" not in line)
