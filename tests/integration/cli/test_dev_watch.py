"""`stoker dev watch`: what is saved in a working copy is on the gateway a moment later."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.processes import Process
from stoker_testkit.repositories.sample_ignition_repository import plant
from stoker_testkit.wait_until import eventually

PATIENCE = 30.0
VIEW = "projects/filler/com.inductiveautomation.perspective/views/Overview/view.json"


class WorkingCopy:
    """A working copy with an unreadable `.git`, and a gateway's data folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.copy = place / "copy"
        self.data = place / "data"
        self.data.mkdir()
        for name, text in plant().items():
            self.save(name, text)
        self.save(".git/HEAD", "ref: refs/heads/main")
        self.log = place / "log"
        (place / "key").write_text(KEY)

    def save(self, name: str, text: str) -> None:
        path = self.copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.swp")
        beside.write_text(text)
        beside.replace(path)

    def live(self, name: str) -> str:
        try:
            return (self.data / name).read_text()
        except FileNotFoundError:  # not there yet, or just being replaced
            return ""

    @contextmanager
    def watching(self, *more: str, env: dict[str, str] | None = None) -> Iterator[Process]:
        command = [sys.executable, "-m", "stoker", "dev", "watch", f"--repo={self.copy}"]
        command += ["--watch-path=services/filler", f"--data-dir={self.data}", *more]
        environment = os.environ | (env or {})
        with Process.start("dev", command, log=self.log, env=environment) as process:
            self.until(process, "projects/filler/project.json")
            yield process

    def until(self, process: Process, name: str, text: str | None = None) -> None:
        def there() -> bool:
            process.check()
            return self.live(name) == text if text is not None else bool(self.live(name))

        eventually(there, PATIENCE, f"{name} arrives", interval=0.005)


@pytest.fixture
def working_copy(tmp_path: Path) -> WorkingCopy:
    return WorkingCopy(tmp_path)


def test_a_saved_file_arrives_again_and_again(working_copy: WorkingCopy) -> None:
    with working_copy.watching() as process:
        for number in range(3):
            working_copy.save(f"services/filler/{VIEW}", f'{{"title": "{number}"}}\n')
            working_copy.until(process, VIEW, f'{{"title": "{number}"}}\n')
        eventually(lambda: working_copy.log.read_text().endswith("\n1 modified\n"), PATIENCE, "it is printed")
        assert "is at" not in working_copy.log.read_text(), "there is no commit to speak of"
    assert not list(working_copy.data.rglob("HEAD"))


def test_new_folders_and_deletions_follow(working_copy: WorkingCopy) -> None:
    with working_copy.watching() as process:
        new = "projects/filler/com.inductiveautomation.perspective/views/Deep/Down/view.json"
        working_copy.save(f"services/filler/{new}", "{}")
        working_copy.until(process, new, "{}")
        working_copy.save(f"services/filler/{new}", '{"a": 1}')  # in a folder that was not there at the start
        working_copy.until(process, new, '{"a": 1}')
        (working_copy.copy / "services/filler" / new).unlink()
        eventually(lambda: not working_copy.live(new), PATIENCE, "the deletion follows")


def test_the_gateway_loads_what_was_saved(working_copy: WorkingCopy) -> None:
    with SimulatedGateway.start(working_copy.data) as gateway:
        more = [f"--gateway={gateway.url}", f"--api-key-file={working_copy.place / 'key'}"]
        with working_copy.watching(*more) as process:
            eventually(lambda: "filler" in gateway.projects, PATIENCE, "the project is loaded")
            before = gateway.scans_done
            working_copy.save(f"services/filler/{VIEW}", '{"title": "x"}')
            working_copy.until(process, VIEW, '{"title": "x"}')
            eventually(lambda: gateway.scans_done > before, PATIENCE, "the gateway scans")


def test_the_key_may_come_from_the_environment_and_an_argument_is_warned_about(
    working_copy: WorkingCopy,
) -> None:
    with SimulatedGateway.start(working_copy.data) as gateway:
        with working_copy.watching(f"--gateway={gateway.url}", env={"IGNITION_API_KEY": KEY}):
            eventually(lambda: "filler" in gateway.projects, PATIENCE, "the project is loaded")
        assert "warning" not in working_copy.log.read_text()
        typed = "dev:typed-where-all-can-read"
        with working_copy.watching(f"--gateway={gateway.url}", f"--api-key={typed}"):
            eventually(lambda: "--api-key can be read" in working_copy.log.read_text(), PATIENCE, "a warning")
        assert typed.partition(":")[2] not in working_copy.log.read_text()


def test_an_error_is_reported_at_once_and_the_watch_goes_on(working_copy: WorkingCopy) -> None:
    with working_copy.watching(
        "--gateway=127.0.0.1:1", f"--api-key-file={working_copy.place / 'key'}"
    ) as process:
        eventually(
            lambda: "GatewayUnreachable" in working_copy.log.read_text(), PATIENCE, "the error is printed"
        )
        working_copy.save(f"services/filler/{VIEW}", '{"title": "x"}')
        working_copy.until(process, VIEW, '{"title": "x"}')


def test_a_file_that_is_no_json_is_named_and_the_next_save_flows(working_copy: WorkingCopy) -> None:
    with working_copy.watching() as process:
        before = working_copy.live(VIEW)
        working_copy.save(f"services/filler/{VIEW}", '{"title": ')
        eventually(lambda: VIEW in working_copy.log.read_text(), PATIENCE, "the broken file is named")
        assert working_copy.live(VIEW) == before
        working_copy.save(f"services/filler/{VIEW}", '{"title": "x"}')
        working_copy.until(process, VIEW, '{"title": "x"}')


def test_it_ends_with_0_when_stopped(working_copy: WorkingCopy) -> None:
    with working_copy.watching() as process:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE)
        assert process.returncode == 0
        assert "Traceback" not in working_copy.log.read_text()
