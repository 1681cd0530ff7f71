"""The simulated gateway behaves as a real one: other tests rely on what is shown here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.gateway.http_client import Reply
from stoker_testkit.gateway.http_client import ask as ask_at
from stoker_testkit.gateway.rest_api.request_checks import HEADER, ApiKey, PlainHttpPolicy
from stoker_testkit.gateway.runtime import Designer, ScanLockKind, State
from stoker_testkit.gateway.scan_loader import read_resource
from stoker_testkit.gateway.simulated_gateway import KEY, SECRET, SimulatedGateway
from stoker_testkit.gateway.torn_reads.polling_reader import PollingReader
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, resource, view
from stoker_testkit.wait_until import eventually

API = "/data/api/v1"
VIEW = f"projects/filler/{VIEWS}/Overview"
LOCK = b'{"acquireTimeout":0,"holdTimeout":60}'


def ask(
    gateway: SimulatedGateway,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Reply:
    return ask_at(gateway.url, method, path, {HEADER: KEY} if headers is None else headers, body)


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write(folder / "projects" / "filler", {"project.json": '{"title":"Filler"}'})
    write(folder / VIEW, view("Filler"))
    return folder


@pytest.fixture
def gateway(data: Path) -> Iterator[SimulatedGateway]:
    with SimulatedGateway.start(data) as running:
        yield running


def scanned(gateway: SimulatedGateway, kind: ScanLockKind = ScanLockKind.PROJECTS) -> None:
    """Ask for a scan and wait until it has published what it found."""
    before = gateway.scans_done
    assert ask(gateway, "POST", f"{API}/scan/{kind}").status == 200
    eventually(lambda: gateway.scans_done > before, message="the scan has ended")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {HEADER: ""},
        {HEADER: SECRET},
        {HEADER: "stoker:wrong"},
        {HEADER: f"nobody:{SECRET}"},
        {"Authorization": f"Bearer {KEY}"},
    ],
)
def test_a_bad_or_missing_key_gets_an_empty_401(gateway: SimulatedGateway, headers: dict[str, str]) -> None:
    refused = ask(gateway, "GET", f"{API}/gateway-info", headers)
    assert (refused.status, refused.body) == (401, b"")
    assert gateway.requests[-1].key is None


def test_a_level_that_is_not_granted_gets_a_403_in_json(gateway: SimulatedGateway) -> None:
    gateway.settings.keys["stoker"] = ApiKey(SECRET, write=False)
    assert ask(gateway, "GET", f"{API}/scan/projects").status == 200
    refused = ask(gateway, "POST", f"{API}/scan/projects")
    assert (refused.status, refused.kind) == (403, "application/json")
    assert gateway.scans_done == 2, "only what it read when it started"


@pytest.mark.parametrize("path", ["/", f"{API}/nothing", f"{API}/scan/tags", f"{API}/projects/find/nobody"])
def test_an_unknown_path_gets_a_page(gateway: SimulatedGateway, path: str) -> None:
    page = ask(gateway, "GET", path)
    assert (page.status, page.kind) == (404, "text/html")


def test_an_8_1_gateway_has_no_api_and_says_its_version(gateway: SimulatedGateway) -> None:
    gateway.settings.version = "8.1.44"
    assert ask(gateway, "GET", f"{API}/gateway-info").status == 404
    assert b"Version=8.1.44" in ask(gateway, "GET", "/system/gwinfo", {}).body


def test_plain_http_is_refused_or_sent_away_when_secure_connections_are_required(
    gateway: SimulatedGateway,
) -> None:
    gateway.settings.insecure = PlainHttpPolicy.REFUSED
    assert ask(gateway, "GET", f"{API}/gateway-info").status == 403
    gateway.settings.insecure = PlainHttpPolicy.REDIRECTED
    assert ask(gateway, "GET", f"{API}/gateway-info").status == 302


def test_starting_running_and_faulted_are_different(gateway: SimulatedGateway) -> None:
    for state, ping, status in (
        (State.STARTING, "STARTING", 503),
        (State.FAULTED, "STARTING", 503),
        (State.RUNNING, "RUNNING", 200),
    ):
        gateway.state = state
        assert ask(gateway, "GET", "/StatusPing", {}).json() == {"state": ping}
        assert f"ContextStatus={state};".encode() in ask(gateway, "GET", "/system/gwinfo", {}).body
        assert ask(gateway, "GET", f"{API}/gateway-info").status == status


def test_a_scan_answers_at_once_and_publishes_later(gateway: SimulatedGateway, data: Path) -> None:
    before = gateway.projects["filler"]
    write(data / VIEW, view("Filler, new"))
    assert gateway.projects["filler"] == before, "no process watches the folder"
    scanned(gateway)
    assert gateway.projects["filler"].keys() == before.keys()
    assert gateway.projects["filler"] != before
    status = ask(gateway, "GET", f"{API}/scan/projects").json()
    assert isinstance(status, dict)
    assert status.keys() == {"scanActive", "lastScanTimestamp", "lastScanDuration"}
    assert ask(gateway, "GET", f"{API}/projects/names").json() == ["filler"]


@pytest.mark.parametrize("half", ["", '{"root":'])
def test_a_half_written_file_poisons_its_resource_until_resource_json_changes(
    gateway: SimulatedGateway, data: Path, half: str
) -> None:
    (data / VIEW / "view.json").write_text(half)
    scanned(gateway)
    poisoned = gateway.projects["filler"]
    assert gateway.poisoned() == [], "it is as it was read"

    (data / VIEW / "view.json").write_text(view("Whole")["view.json"])
    scanned(gateway)
    assert gateway.projects["filler"] == poisoned
    assert gateway.poisoned() == [VIEW]

    manifest = data / VIEW / "resource.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    scanned(gateway)
    assert gateway.projects["filler"] != poisoned
    assert gateway.poisoned() == []


def test_a_restart_forgets_what_was_read_badly(gateway: SimulatedGateway, data: Path) -> None:
    (data / VIEW / "view.json").unlink()
    scanned(gateway)
    write(data / VIEW, view("Filler"))
    assert gateway.poisoned() == [VIEW]
    gateway.restart()
    assert gateway.poisoned() == []


def test_a_file_that_it_cannot_write_makes_it_fault(data: Path) -> None:
    other_uid = (data / VIEW).stat().st_uid + 1
    with SimulatedGateway.start(data, runs_as=other_uid) as gateway:
        assert gateway.state is State.FAULTED
        assert f"{VIEW}/view.json" in gateway.faults
        for file in data.rglob("*.json"):
            file.chmod(0o666)
        gateway.restart()
        assert str(gateway.state) == State.RUNNING


def test_the_scan_lock_is_taken_held_and_given_back_by_a_scan(gateway: SimulatedGateway, data: Path) -> None:
    path = f"{API}/scan-lock/projects"
    assert ask(gateway, "GET", path).status == 204
    assert ask(gateway, "POST", path, body=LOCK).status == 200
    assert ask(gateway, "GET", path).status == 200
    assert ask(gateway, "POST", path, body=LOCK).status == 409
    assert not gateway.save("projects/filler/x", b"queued")
    assert not (data / "projects" / "filler" / "x").exists()
    scanned(gateway)
    eventually(lambda: not gateway.locked(ScanLockKind.PROJECTS), message="the scan gave the lock back")
    assert (data / "projects" / "filler" / "x").read_bytes() == b"queued"
    assert gateway.save("projects/filler/x", b"at once")


def test_a_lock_expires(gateway: SimulatedGateway, data: Path) -> None:
    body = b'{"acquireTimeout":0,"holdTimeout":1}'
    assert ask(gateway, "POST", f"{API}/scan-lock/config", body=body).status == 200
    assert not gateway.save("config/x", b"queued")
    eventually((data / "config" / "x").exists, message="the queue runs when the lock expires")
    assert ask(gateway, "GET", f"{API}/scan-lock/config").status == 204


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 500),
        (b"{", 400),
        (b"{}", 400),
        (b"[1,2]", 400),
        (b'{"acquireTimeout":10}', 400),
        (b'{"acquireTimeout":-1,"holdTimeout":60}', 400),
        (b'{"acquireTimeout":true,"holdTimeout":60}', 400),
        (b'{"acquireTimeout":1,"holdTimeout":0}', 400),
    ],
)
def test_a_lock_without_a_proper_body_is_refused(gateway: SimulatedGateway, body: bytes, status: int) -> None:
    assert ask(gateway, "POST", f"{API}/scan-lock/projects", body=body).status == status
    assert not gateway.locked(ScanLockKind.PROJECTS)


def test_a_lock_waits_for_the_gateways_own_change_and_gives_up_in_time(gateway: SimulatedGateway) -> None:
    gateway.saving(ScanLockKind.PROJECTS, busy=True)
    assert ask(gateway, "POST", f"{API}/scan-lock/projects", body=LOCK).status == 408
    gateway.saving(ScanLockKind.PROJECTS, busy=False)
    assert ask(gateway, "POST", f"{API}/scan-lock/projects", body=LOCK).status == 200


def test_an_older_gateway_has_no_scan_lock(gateway: SimulatedGateway) -> None:
    gateway.settings.scan_lock = False
    assert ask(gateway, "POST", f"{API}/scan-lock/projects", body=LOCK).status == 404


def test_designers_come_and_go(gateway: SimulatedGateway) -> None:
    gateway.open_designer(Designer("7", "anna", "filler"))
    listed = ask(gateway, "GET", f"{API}/designers").json()
    assert isinstance(listed, dict)
    assert listed["metadata"]["total"] == 1
    assert listed["items"][0].items() >= {"id": "7", "user": "anna", "project": "filler"}.items()
    assert listed["items"][0].keys() >= {"address", "uptime", "lastcomm", "timeout"}
    assert ask(gateway, "GET", f"{API}/designer/7").object()["user"] == "anna"
    assert ask(gateway, "DELETE", f"{API}/designer/7").status == 200
    assert ask(gateway, "DELETE", f"{API}/designer/7").status == 404


def test_a_request_is_on_record_without_its_secret(gateway: SimulatedGateway) -> None:
    ask(gateway, "GET", f"{API}/modules/healthy")
    (seen,) = gateway.asked("GET", "modules/healthy")
    assert (seen.key, seen.status) == ("stoker", 200)
    assert SECRET not in repr((gateway.requests, gateway.settings))


def test_the_witness_sees_torn_files_and_a_manifest_before_its_data(data: Path) -> None:
    old = {f"{VIEW}/{name}": content.encode() for name, content in view("Filler").items()}
    new = {
        f"{VIEW}/{name}": content.encode() for name, content in resource({"view.json": '{"new":1}'}).items()
    }
    new[f"{VIEW}/resource.json"] += b"\n"
    witness = PollingReader(data)
    witness.look()
    (data / VIEW / "view.json").write_bytes(new[f"{VIEW}/view.json"])
    witness.look()
    assert (witness.torn(), witness.out_of_order([old, new])) == ([], [])

    (data / VIEW / "view.json").write_bytes(old[f"{VIEW}/view.json"])
    (data / VIEW / "resource.json").write_bytes(new[f"{VIEW}/resource.json"])
    witness.look()
    assert witness.out_of_order([old, new]) == [f"{VIEW}/view.json was older than its resource.json"]
    (data / VIEW / "view.json").write_bytes(b"")
    witness.look()
    assert witness.torn() == [f"{VIEW}/view.json"]


def test_a_resource_that_goes_away_is_not_torn(data: Path) -> None:
    (data / VIEW / "resource.json").unlink()
    assert read_resource(data / VIEW) is None
