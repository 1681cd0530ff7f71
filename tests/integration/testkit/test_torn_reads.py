"""The test gateway proves the torn-file rule: what breaks it is caught, what keeps it is not."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stoker_testkit.gateway.http_client import ask_with
from stoker_testkit.gateway.resource_signature import claimed, fits
from stoker_testkit.gateway.runtime import ScanLockKind
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.gateway.torn_reads.scan_recorder import TornReadKind
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, resource, view
from stoker_testkit.wait_until import eventually

VIEW = f"projects/filler/{VIEWS}/Overview"
SCRIPT = "projects/filler/ignition/script-python/line"
ROUNDS = 40


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    place(folder / "projects/filler", {"project.json": "{}"})
    place(folder / VIEW, view("One"))
    place(folder / SCRIPT, resource({"code.py": "x = 1\n"}))
    return folder


@pytest.fixture
def gateway(data: Path) -> Iterator[SimulatedGateway]:
    with SimulatedGateway.start(data, scan_seconds=0.0) as running:
        yield running


def place(folder: Path, files: Mapping[str, str]) -> None:
    """As a good writer does: each file whole and in one step, `resource.json` last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: name == "resource.json"):
        beside = folder / f".{name}.new"
        beside.write_text(files[name])
        beside.replace(folder / name)


def scan(gateway: SimulatedGateway, kind: ScanLockKind = ScanLockKind.PROJECTS) -> None:
    before = gateway.scans_done
    gateway.ask_for_scan(kind)
    eventually(lambda: gateway.scans_done > before, message="the scan has ended")


def next_random_scan(gateway: SimulatedGateway) -> None:
    before = gateway.random_scans
    eventually(lambda: gateway.random_scans > before, message="a random scan")


def tree(data: Path) -> dict[str, bytes]:
    return {
        path.relative_to(data).as_posix(): path.read_bytes() for path in data.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("half", ["", '{"root":'])
def test_a_torn_write_is_caught_and_remembered_after_it_was_cured(
    gateway: SimulatedGateway, data: Path, half: str
) -> None:
    (data / VIEW / "view.json").write_text(half)
    scan(gateway)
    place(data / VIEW, view("Two"))
    scan(gateway)
    assert gateway.poisoned() == [], "a new resource.json cures it"
    assert gateway.stale() == [VIEW], "and it is remembered all the same"
    (mishap,) = gateway.mishaps()
    assert (mishap.how, mishap.files) == (TornReadKind.HALF, ("view.json",))
    gateway.restart()
    assert gateway.stale() == [VIEW], "over a restart, too"


def test_a_resource_that_first_appears_half_is_caught_when_it_is_whole(
    gateway: SimulatedGateway, data: Path
) -> None:
    new = data / "projects/filler" / VIEWS / "New"
    new.mkdir()
    (new / "resource.json").write_text(view("New")["resource.json"])
    scan(gateway)
    assert gateway.stale() == [], "it may stay so for ever"
    place(new, {"view.json": view("New")["view.json"]})
    assert gateway.stale() == [f"projects/filler/{VIEWS}/New"]
    assert TornReadKind.HALF in {mishap.how for mishap in gateway.mishaps()}


def test_data_that_goes_before_its_manifest_is_caught(gateway: SimulatedGateway, data: Path) -> None:
    (data / VIEW / "view.json").unlink()
    scan(gateway)
    assert gateway.stale() == [VIEW]


@pytest.mark.parametrize("rewrites", [True, False])
def test_a_resource_json_before_its_data_is_caught(
    gateway: SimulatedGateway, data: Path, rewrites: bool
) -> None:
    gateway.settings.rewrites = rewrites
    for number in (2, 3):  # data that no parser can judge: only the signature tells
        new = resource({"code.py": f"x = {number}\n"})
        place(data / SCRIPT, {"resource.json": new["resource.json"]})
        scan(gateway)
        place(data / SCRIPT, {"code.py": new["code.py"]})
    assert gateway.stale() == [SCRIPT]
    assert {mishap.how for mishap in gateway.mishaps()} == {TornReadKind.EARLY}


def test_data_before_its_resource_json_is_not_caught(gateway: SimulatedGateway, data: Path) -> None:
    for number in (2, 3, 2, 1):  # back again, too: a rollback is no mishap
        new = resource({"code.py": f"x = {number}\n"})
        place(data / SCRIPT, {"code.py": new["code.py"]})
        scan(gateway)
        place(data / SCRIPT, {"resource.json": new["resource.json"]})
        scan(gateway)
    assert gateway.stale() == []


def test_an_edit_by_hand_that_is_undone_is_not_caught(gateway: SimulatedGateway, data: Path) -> None:
    old = view("One")
    for title in ("by hand", "by hand", "again by hand"):
        place(data / VIEW, {"view.json": view(title)["view.json"]})
        scan(gateway)
        place(data / VIEW, {"view.json": old["view.json"]})
        scan(gateway)
    place(data / VIEW, old)
    scan(gateway)
    assert gateway.stale() == []


def test_a_resource_that_is_empty_and_signed_so_is_whole(gateway: SimulatedGateway, data: Path) -> None:
    place(data / SCRIPT, resource({"code.py": ""}))
    scan(gateway)
    place(data / SCRIPT, resource({"code.py": "x = 2\n"}))
    scan(gateway)
    assert gateway.stale() == []


def versions(count: int) -> list[dict[str, bytes]]:
    return [
        {
            f"{SCRIPT}/{name}": text.encode()
            for name, text in resource({"code.py": f"x = {n}\n" * 400}).items()
        }
        for n in range(count)
    ]


def test_random_scans_catch_a_careless_writer(gateway: SimulatedGateway, data: Path) -> None:
    gateway.scan_at_random(400.0, seed=1)
    stop = threading.Event()

    def write_carelessly() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for name, text in view(f"Number {number}").items():
                with (data / VIEW / name).open("w") as file:
                    for part in (text[:20], text[20:]):
                        file.write(part)
                        file.flush()
                        os.fsync(file.fileno())

    writer = threading.Thread(target=write_carelessly)
    writer.start()
    try:
        eventually(lambda: gateway.stale() == [VIEW], 30, "a torn resource is read")
    finally:
        stop.set()
        writer.join()


def test_random_scans_find_nothing_wrong_with_a_good_writer(gateway: SimulatedGateway, data: Path) -> None:
    history = [{f"{SCRIPT}/{name}": text.encode() for name, text in resource({"code.py": "x = 1\n"}).items()}]
    history += versions(ROUNDS)
    gateway.scan_at_random(400.0, seed=2)
    for version in history:
        place(data / SCRIPT, {Path(path).name: content.decode() for path, content in version.items()})
        next_random_scan(gateway)
    gateway.scan_at_random(0)
    assert gateway.random_scans >= ROUNDS
    assert gateway.stale() == []
    mine = [one for one in gateway.scanned.sightings if one.resource == SCRIPT]
    assert len(mine) >= ROUNDS, "the scans saw what was written"
    known = [*history, tree(data)]
    assert (gateway.scanned.torn(), gateway.scanned.out_of_order(known)) == ([], [])
    assert gateway.scanned.unknown(known) == []


def test_content_of_no_version_is_reported(gateway: SimulatedGateway, data: Path) -> None:
    """Half a script parses as well as a whole one; only who knows all versions can tell."""
    history = [tree(data)]
    assert gateway.scanned.unknown(history) == []
    (data / SCRIPT / "code.py").write_text("x =")
    scan(gateway)
    assert gateway.scanned.unknown(history) == [f"{SCRIPT}/code.py"]


def test_random_scans_disregard_the_lock_and_do_not_give_it_back(
    gateway: SimulatedGateway, data: Path
) -> None:
    body = b'{"acquireTimeout":0,"holdTimeout":60}'
    assert ask_with(gateway.url, KEY, "POST", "/data/api/v1/scan-lock/projects", body).status == 200
    before = gateway.projects["filler"]
    place(data / VIEW, {"view.json": view("Two")["view.json"]})
    gateway.scan_at_random(200.0)
    eventually(lambda: gateway.projects["filler"] != before, message="it looks")
    assert gateway.locked(ScanLockKind.PROJECTS)
    assert (data / VIEW / "resource.json").read_text() == view("One")["resource.json"], "it only looks"
    gateway.scan_at_random(0)
    done = gateway.random_scans
    scan(gateway)
    assert gateway.random_scans == done
    assert gateway.locked(ScanLockKind.PROJECTS), "nor does a scan for a reason of its own"


def test_a_signature_that_does_not_fit_is_rewritten_as_external(
    gateway: SimulatedGateway, data: Path
) -> None:
    before = (data / VIEW / "resource.json").read_bytes()
    place(data / VIEW, {"view.json": view("One")["view.json"].replace("\n", "\r\n")})
    scan(gateway)
    after = (data / VIEW / "resource.json").read_bytes()
    document, old = json.loads(after), json.loads(before)
    assert fits(document, {"view.json": (data / VIEW / "view.json").read_bytes()})
    assert document["attributes"]["lastModification"]["actor"] == "external"
    assert claimed(document) != claimed(old)
    assert {**document, "attributes": {}} == {**old, "attributes": {}}
    scan(gateway)
    assert (data / VIEW / "resource.json").read_bytes() == after, "once is enough"
    assert not list(data.rglob("written-*")), "it leaves nothing behind"


def test_a_resource_without_a_signature_gets_one(gateway: SimulatedGateway, data: Path) -> None:
    place(data / SCRIPT, {"resource.json": '{"scope": "A", "version": 1, "files": ["code.py"]}'})
    scan(gateway)
    document = json.loads((data / SCRIPT / "resource.json").read_bytes())
    assert document["attributes"]["lastModification"]["actor"] == "external"


def test_a_signature_is_not_rewritten_where_it_was_switched_off_or_the_file_is_half(
    gateway: SimulatedGateway, data: Path
) -> None:
    external = data / "config/resources/external/ignition/database-connection/main"
    place(external, {"config.json": "{}", "resource.json": '{"version": 1, "files": ["config.json"]}'})
    scan(gateway, ScanLockKind.CONFIG)
    assert b"attributes" not in (external / "resource.json").read_bytes(), "external is not the gateway's"
    place(data / VIEW, {"view.json": ""})
    scan(gateway)
    assert (data / VIEW / "resource.json").read_text() == view("One")["resource.json"]
    gateway.settings.rewrites = False
    place(data / SCRIPT, {"code.py": "y = 1\n"})
    scan(gateway)
    assert (data / SCRIPT / "resource.json").read_text() == resource({"code.py": "x = 1\n"})["resource.json"]
