"""What a person at a terminal sees, and a pipe does not: a progress bar and colours, on standard error."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.testing.repositories.bare import Repository
from stoker.testing.waiting import eventually

ESCAPE = b"\x1b["


class Terminal:
    """A pseudo-terminal, and all that was written to it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.seen = b""


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Somebody reads along, or a full terminal would hold the writer up."""
    reading, writing = pty.openpty()
    screen = Terminal(writing)

    def read() -> None:
        while True:
            try:
                chunk = os.read(reading, 65536)
            except OSError:  # the last writer has closed it
                return
            screen.seen += chunk

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield screen
    finally:
        os.close(writing)
        thread.join()
        os.close(reading)


class Site:
    """A sync that takes long enough to be waited for: a script of the site's own sees to that."""

    def __init__(self, place: Path) -> None:
        self.place = place
        repository = Repository.create(place / "plant.git")
        repository.commit({f"s/{number % 7}/{number}": str(number) for number in range(500)})
        self.data = place / "data"
        for number in range(7):  # where folders are there already, files move one by one
            (self.data / f"projects/P/{number}").mkdir(parents=True)
        hooks = place / "hooks"
        hooks.mkdir()
        (hooks / "pre-sync.sh").write_text("#!/bin/sh\nexec sleep 0.7\n")
        (hooks / "pre-sync.sh").chmod(0o700)
        self.command = [sys.executable, "-m", "stoker", "sync", f"--repo={repository.path.as_uri()}"]
        self.command += ["--ref=main", "--map=s:projects/P", f"--data-dir={self.data}"]
        self.command += [f"--cache-dir={place / 'cache'}", f"--hooks-dir={hooks}"]

    def run(self, stderr: int, **more: str) -> subprocess.CompletedProcess[bytes]:
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "CI")}
        done = subprocess.run(
            self.command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            check=False,
            timeout=60,
            env=environment | {"TERM": "xterm-256color", "COLUMNS": "120"} | more,
        )
        assert done.returncode == 0
        return done


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_who_waits_at_a_terminal_sees_a_bar(site: Site) -> None:
    with terminal() as screen:
        done = site.run(screen.fd)
    assert ESCAPE in screen.seen
    assert b"publishing" in screen.seen
    assert "━".encode() in screen.seen
    assert ESCAPE not in done.stdout, "standard output is a pipe all the same"
    assert b"publishing" not in done.stdout


def test_who_waits_for_the_server_sees_that(site: Site) -> None:
    """The server takes its time until somebody has seen that it is waited for."""
    seen = site.place / "seen"
    wait = f"while [ ! -e {seen} ]; do sleep 0.05; done"
    slow = site.place / "bin"
    slow.mkdir()
    (slow / "git").write_text(
        f'#!/bin/sh\ncase " $* " in *\' fetch \'*) {wait};; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (slow / "git").chmod(0o755)
    with terminal() as screen, ThreadPoolExecutor(1) as thread:
        running = thread.submit(site.run, screen.fd, PATH=f"{slow}:{os.environ['PATH']}")
        try:
            eventually(lambda: b"fetching" in screen.seen, 30.0, "the bar says what is waited for")
        finally:
            seen.touch()
        running.result()


def test_a_pipe_gets_neither_a_bar_nor_colours(site: Site) -> None:
    done = site.run(subprocess.PIPE)
    assert done.stderr == b""
    assert ESCAPE not in done.stdout
    assert done.stdout.endswith(b": 500 added\n")


def test_what_is_done_at_once_has_no_bar(site: Site) -> None:
    site.run(subprocess.PIPE)
    with terminal() as screen:
        site.run(screen.fd)
    assert screen.seen == b""
