"""`stoker sync` beside a gateway: what the gateway sees of it, before, during and after."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.gateway.runtime import ScanLockKind, State
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import resource
from stoker_testkit.wait_until import eventually

RESOURCES = 30
FILLING = "x" * 4000


def version(number: int) -> dict[str, str]:
    """A project whose resources all change with each version, data and `resource.json` alike."""
    files = {"projects/filler/project.json": json.dumps({"title": f"Filler {number}"})}
    for index in range(RESOURCES):
        data = json.dumps({"version": number, "filling": FILLING})
        for name, text in resource({"view.json": data, "extra.json": data}, version=number).items():
            files[f"projects/filler/views/v{index}/{name}"] = text
    return files


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit(version(1), message="One")
    return repository


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[SimulatedGateway]:
    with SimulatedGateway.start(tmp_path / "data", scan_seconds=0.0, observe=True) as running:
        yield running


def sync(
    gateway: SimulatedGateway, git_http: GitHttpServer, tmp_path: Path, *more: str, key: str = KEY
) -> tuple[int, dict[str, object]]:
    """The exit code and the report of one run."""
    code, output, _ = run_sync(gateway, git_http, tmp_path, "--output", "json", *more, key=key)
    return code, json.loads(output)


def run_sync(
    gateway: SimulatedGateway, git_http: GitHttpServer, tmp_path: Path, *more: str, key: str = KEY
) -> tuple[int, str, str]:
    """The exit code and both outputs of one run."""
    (tmp_path / "key").write_text(key)
    flags = ["--repo", git_http.url("plant.git"), "--ref", "main", "--map", "projects:projects"]
    flags += ["--data-dir", str(gateway.data_dir), "--cache-dir", str(tmp_path / "cache")]
    flags += ["--gateway", gateway.url, "--api-key-file", str(tmp_path / "key"), *more]
    command = [sys.executable, "-m", "stoker", "sync", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert KEY.partition(":")[2] not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def test_no_reader_and_no_scan_ever_sees_half_a_resource(
    gateway: SimulatedGateway, git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    stop = threading.Event()

    def scan_all_the_time() -> None:
        while not stop.wait(0.05):
            gateway.ask_for_scan(ScanLockKind.PROJECTS)

    scanner = threading.Thread(target=scan_all_the_time)
    scanner.start()
    try:
        for number in (2, 3):
            assert sync(gateway, git_http, tmp_path)[0] == ExitCode.DONE
            plant.commit(version(number), message=f"Version {number}")
        assert sync(gateway, git_http, tmp_path)[0] == ExitCode.DONE
        before = gateway.observed.rounds
        eventually(lambda: gateway.observed.rounds > before + 1, message="a last look")
    finally:
        stop.set()
        scanner.join()
    history = [{path: text.encode() for path, text in version(number).items()} for number in (1, 2, 3)]
    assert len({one.resource for one in gateway.observed.sightings}) == RESOURCES
    assert len(gateway.observed.sightings) >= 3 * RESOURCES, "every version of each resource was seen"
    assert gateway.observed.torn() == []
    assert gateway.observed.out_of_order(history) == []
    assert gateway.stale() == []
    assert gateway.scans_done > 10


def test_the_gateway_is_locked_while_files_change(
    gateway: SimulatedGateway, git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    assert sync(gateway, git_http, tmp_path)[0] == ExitCode.DONE
    posted = [one.path.removeprefix("/data/api/v1/") for one in gateway.requests if one.method == "POST"]
    assert posted == ["scan-lock/projects", "scan-lock/config", "scan/projects", "scan/config"]
    eventually(lambda: not gateway.locked(ScanLockKind.PROJECTS), message="the scan gave the lock back")
    assert sync(gateway, git_http, tmp_path)[0] == ExitCode.DONE
    assert len([one for one in gateway.requests if one.method == "POST"]) == 4, "nothing changed"


def test_files_in_place_that_the_gateway_did_not_verify_end_in_5_and_are_verified_later(
    gateway: SimulatedGateway, git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    gateway.settings.scan_refusal = "a restore is under way"
    code, report = sync(gateway, git_http, tmp_path)
    assert code == ExitCode.UNVERIFIED
    assert "a restore is under way" in json.dumps(report["unverified"])
    assert (gateway.data_dir / "projects" / "filler" / "project.json").exists()
    gateway.settings.scan_refusal = ""
    code, report = sync(gateway, git_http, tmp_path)
    assert (code, report["added"], report["unverified"]) == (ExitCode.DONE, [], [])
    eventually(lambda: "filler" in gateway.projects, message="the pending scan")


def test_the_last_line_says_what_the_gateway_did_not_do(
    gateway: SimulatedGateway, git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    gateway.settings.scan_refusal = "a restore is under way"
    code, output, _ = run_sync(gateway, git_http, tmp_path)
    *_, last = output.splitlines()
    assert code == ExitCode.UNVERIFIED
    assert f"{3 * RESOURCES + 1} added; not verified: " in last
    assert last.endswith("a restore is under way")


@pytest.mark.parametrize("trouble", ["key", "down", "faulted"])
def test_a_gateway_that_cannot_be_asked_means_that_nothing_is_written(
    gateway: SimulatedGateway, git_http: GitHttpServer, plant: Repository, tmp_path: Path, trouble: str
) -> None:
    key, reason = KEY, "GatewayUnreachable"
    if trouble == "key":
        key, reason = "stoker:wrong", "TokenRejected"
    elif trouble == "faulted":
        gateway.state, reason = State.FAULTED, "GatewayFaulted"
    else:
        (gateway.data_dir / "db").mkdir()  # it has been started before
        gateway.go_down()
    code, _, errors = run_sync(gateway, git_http, tmp_path, key=key)
    assert code == ExitCode.UNREACHABLE
    *_, last = errors.splitlines()
    assert f"{reason}: nothing was written: " in last
    assert "--files-only" in last
    assert not (gateway.data_dir / "projects").exists()


def test_files_only_writes_beside_a_gateway_that_cannot_be_asked_and_the_scan_follows(
    gateway: SimulatedGateway, git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    gateway.state = State.FAULTED
    code, output, _ = run_sync(gateway, git_http, tmp_path, "--files-only", key="stoker:wrong")
    *_, last = output.splitlines()
    assert code == ExitCode.DONE
    assert last.endswith(f"{3 * RESOURCES + 1} added; no scan requested: --files-only")
    gateway.state = State.RUNNING
    assert sync(gateway, git_http, tmp_path)[0] == ExitCode.DONE
    eventually(lambda: "filler" in gateway.projects, message="the scan that was pending")


@pytest.mark.usefixtures("plant")
def test_the_key_goes_in_the_header_that_is_asked_for(
    gateway: SimulatedGateway, git_http: GitHttpServer, tmp_path: Path
) -> None:
    gateway.settings.key_header = "X-Plant-Token"
    assert sync(gateway, git_http, tmp_path)[0] == ExitCode.UNREACHABLE
    assert sync(gateway, git_http, tmp_path, "--api-key-header=X-Plant-Token")[0] == ExitCode.DONE
    code, output = sync(gateway, git_http, tmp_path, "--api-key-header=Host")
    assert (code, "'Host'" in str(output["message"])) == (ExitCode.WRONG_INPUT, True), (
        "HTTP itself has a use for it"
    )
