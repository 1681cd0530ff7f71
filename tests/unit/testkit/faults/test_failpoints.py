"""A command that ends, or meets a broken disk, at a named place."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain import failpoints
from stoker_testkit.faults.failpoints import FailpointAction, arm
from stoker_testkit.wait_until import eventually


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.listen(None)


def test_nothing_happens_unless_failpoints_are_enabled() -> None:
    failpoints.reach_failpoint("rename.before")


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("rename.before", FailpointAction("rename.before")),
        ("rename.before:3", FailpointAction("rename.before", 3)),
        ("journal.append.after=eio", FailpointAction("journal.append.after", 1, "eio")),
        ("flush.before:2=pause@/x/y", FailpointAction("flush.before", 2, "pause", Path("/x/y"))),
    ],
)
def test_a_failure_is_written_in_one_word(text: str, failure: FailpointAction) -> None:
    assert FailpointAction.parsed(text) == failure


@pytest.mark.parametrize(
    "text",
    ["", "nowhere", "rename.before:x", "rename.before=explode", "rename.before=pause", "rename.before=eio@x"],
)
def test_what_cannot_happen_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"NAME|failpoint|action"):
        FailpointAction.parsed(text)


def test_a_disk_fails_from_that_turn_on() -> None:
    arm(FailpointAction("rename.before", 2, "enospc"))
    failpoints.reach_failpoint("rename.before")
    failpoints.reach_failpoint("rename.after")
    for _ in range(2):
        with pytest.raises(OSError, match="No space") as failed:
            failpoints.reach_failpoint("rename.before")
        assert failed.value.errno == errno.ENOSPC


def test_a_pause_ends_when_its_file_is_removed(tmp_path: Path) -> None:
    mark = tmp_path / "here"
    arm(FailpointAction("rename.before", 1, "pause", mark))
    held = threading.Thread(target=failpoints.reach_failpoint, args=("rename.before",))
    held.start()
    eventually(mark.exists, message="the pause")
    assert held.is_alive()
    mark.unlink()
    held.join(10)
    assert not held.is_alive()
    failpoints.reach_failpoint("rename.before")  # and only once


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    module = [sys.executable, "-m", "stoker_testkit.faults.failpoints", *arguments]
    return subprocess.run(module, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_runs_as_it_always_does_until_then() -> None:
    ran = command("rename.before=kill", "--", "--version")
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "stoker"), ran.stderr


def test_an_unknown_failpoint_action_is_reported() -> None:
    for wrong in (("nowhere", "--", "--version"), ("rename.before",)):
        ran = command(*wrong)
        assert ran.returncode == 1
        assert "NAME[:N][=ACTION]" in ran.stderr


def test_the_list_of_names_has_each_once() -> None:
    assert len(set(failpoints.ALL_FAILPOINTS)) == len(failpoints.ALL_FAILPOINTS)
    assert {name.rpartition(".")[2] for name in failpoints.ALL_FAILPOINTS} == {"before", "after"}
