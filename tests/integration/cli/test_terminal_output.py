"""Output for a terminal, which a pipe does not get: a progress bar and colours, on standard error."""

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

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import PlainObjects
from stoker_testkit.environments.sample_manifests import line_manifests
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually

ESCAPE = b"\x1b["
STOKER = [sys.executable, "-m", "stoker"]


class Terminal:
    """A pseudo-terminal, and all that was written to it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.seen = b""


@contextmanager
def terminal(shown: Path | None = None) -> Iterator[Terminal]:
    """A thread the output, or a full terminal would block it up; `shown` is made once a bar is drawn."""
    reading, writing = pty.openpty()
    screen = Terminal(writing)

    def read() -> None:
        while True:
            try:
                chunk = os.read(reading, 65536)
            except OSError:  # the last writer has closed it
                return
            screen.seen += chunk
            if shown is not None and ESCAPE in screen.seen:
                shown.touch()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield screen
    finally:
        os.close(writing)
        thread.join()
        os.close(reading)


class Reader:
    """Reads a pipe to its end, beside everything else."""

    def __init__(self, fd: int) -> None:
        self.text = b""
        self.thread = threading.Thread(target=self._read, args=(fd,))
        self.thread.start()

    def _read(self, fd: int) -> None:
        with open(fd, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                self.text += chunk


def resource(cluster: ClusterAccess, namespace: str) -> PlainObjects:
    """A resource that no controller looks at."""
    objects = PlainObjects(cluster, namespace)
    head = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "line"}}
    spec = {"git": {"repo": "https://git.example.net/plant/config.git", "ref": "main"}}
    objects.post("/apis/stoker.io/v1alpha1", "stokers", {**head, "spec": spec})
    return objects


class Site:
    """A sync that waits before it writes, by a script of the site, until the file `shown` is there."""

    def __init__(self, place: Path) -> None:
        self.place = place
        repository = Repository.create(place / "plant.git")
        repository.commit({f"s/{number % 7}/{number}": str(number) for number in range(500)})
        self.data = place / "data"
        for number in range(7):  # where folders are there already, files move one by one
            (self.data / f"projects/P/{number}").mkdir(parents=True)
        hooks = place / "hooks"
        hooks.mkdir()
        self.shown = place / "shown"
        (hooks / "pre-sync.sh").write_text(f"#!/bin/sh\nwhile [ ! -e {self.shown} ]; do sleep 0.05; done\n")
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


def test_a_user_at_a_terminal_sees_a_progress_bar(site: Site) -> None:
    with terminal(site.shown) as screen:
        done = site.run(screen.fd)
    assert ESCAPE in screen.seen
    assert b"publishing" in screen.seen
    assert "━".encode() in screen.seen
    assert ESCAPE not in done.stdout, "standard output is a pipe all the same"
    assert b"publishing" not in done.stdout


def test_a_user_at_a_terminal_sees_the_wait_for_the_server(site: Site) -> None:
    """The server waits until the progress line was read."""
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
            site.shown.touch()
        running.result()


def test_a_pipe_gets_neither_a_bar_nor_colours(site: Site) -> None:
    site.shown.touch()
    done = site.run(subprocess.PIPE)
    assert done.stderr == b""
    assert ESCAPE not in done.stdout
    assert done.stdout.endswith(b": 500 added\n")


def test_a_user_at_a_terminal_sees_that_a_rollback_takes_its_time(site: Site) -> None:
    """A script of the site's own keeps it waiting."""
    manifest = site.place / "line.yaml"
    manifest.write_text(line_manifests((site.place / "plant.git").as_uri(), destination="projects/P"))
    repository = Repository(site.place / "plant.git")
    before = repository.tip()
    repository.commit({"s/0/late": "1"})
    where = [f"--data-dir={site.data}", f"--cache-dir={site.place / 'cache'}", f"--filename={manifest}"]
    site.command = [*STOKER, "sync", *where]
    site.run(subprocess.PIPE)
    slow = [f"--hooks-dir={site.place / 'hooks'}"]
    with terminal(site.shown) as screen:
        site.command = [*STOKER, "rollback", f"--to={before}", *where, *slow]
        site.run(screen.fd)
    assert ESCAPE in screen.seen
    assert b"fetching" in screen.seen, "what it was doing when the script began"


@pytest.mark.parametrize("verb", ["status", "history", "doctor", "export"])
def test_what_a_cluster_verb_says_is_plain_text_in_a_pipe(
    verb: str, kinds: ClusterAccess, namespace: str, tmp_path: Path
) -> None:
    resource(kinds, namespace)
    named = [f"--namespace={namespace}", f"--kubeconfig={kinds.kubeconfig()}"]
    named += [f"--to={tmp_path / 'out'}"] if verb == "export" else ["line"]
    done = subprocess.run(
        [*STOKER, verb, *named],
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | {"TERM": "xterm-256color", "FORCE_COLOR": ""},
    )
    assert done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


def test_status_clears_the_screen_of_a_terminal_and_never_a_pipe(
    kinds: ClusterAccess, namespace: str
) -> None:
    objects = resource(kinds, namespace)
    command = [*STOKER, "status", f"--namespace={namespace}", f"--kubeconfig={kinds.kubeconfig()}", "--watch"]
    reading, writing = os.pipe()
    with (
        terminal() as screen,
        subprocess.Popen(command, stdout=screen.fd) as at_terminal,
        subprocess.Popen(command, stdout=writing) as in_pipe,
    ):
        os.close(writing)
        seen = Reader(reading)

        def shown(times: int) -> bool:
            return {screen.seen.count(b" line "), seen.text.count(b" line ")} == {times}

        try:
            eventually(lambda: shown(1), 60.0, lambda: f"both show it: {screen.seen!r} {seen.text!r}")
            objects.patch(objects.path_of("Stoker", "line"), {"spec": {"paused": True}})
            eventually(lambda: shown(2), 60.0, lambda: f"both show it anew: {screen.seen!r} {seen.text!r}")
        finally:
            at_terminal.terminate()
            in_pipe.terminate()
        seen.thread.join()
    assert b"\x1b[H\x1b[2J" in screen.seen
    assert b"\x1b" not in seen.text
