"""A redundant pair: the backup gets what the master has, refuses edits, and takes over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.gateway.http_client import ask, ask_with
from stoker_testkit.gateway.redundant_pair import RedundantPair
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, resource, view
from stoker_testkit.wait_until import eventually

API = "/data/api/v1"
VIEW = f"projects/filler/{VIEWS}/Overview"
PROVIDER = "config/resources/core/ignition/tag-provider/site"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[RedundantPair]:
    put(tmp_path / "master/projects/filler", {"project.json": "{}"})
    put(tmp_path / "master" / VIEW, view("One"))
    with RedundantPair.start(tmp_path / "master", tmp_path / "backup", scan_seconds=0.0) as running:
        yield running


def put(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def scan(gateway: SimulatedGateway, kind: str = "projects") -> dict[str, object]:
    return ask_with(gateway.url, KEY, "POST", f"{API}/scan/{kind}").object()


def role(gateway: SimulatedGateway) -> tuple[object, str]:
    """The role, and whether it is the one that works, by two ways."""
    document = ask_with(gateway.url, KEY, "GET", f"{API}/overview").object()["redundancy"]
    assert isinstance(document, dict)
    info = ask(gateway.url, "GET", "/system/gwinfo").body.decode()
    assert info.endswith(f"RedundancyStatus={document['activityLevel']}")
    named = ask_with(gateway.url, KEY, "GET", f"{API}/gateway-info").object()["redundancyRole"]
    assert named == document["role"]
    return named, str(document["activityLevel"])


def test_the_roles_are_shown(pair: RedundantPair) -> None:
    assert (role(pair.master), role(pair.backup)) == (("Master", "Active"), ("Backup", "Warm"))


def test_configuration_goes_from_master_to_backup_after_a_scan(pair: RedundantPair) -> None:
    master, backup = pair.master.data_dir, pair.backup.data_dir
    assert pair.backup.projects == pair.master.projects, "at the start, too"
    put(master / VIEW, view("Two"))
    put(master / PROVIDER, resource({"config.json": "{}"}))
    put(master / "config/resources/local/own", resource({"config.json": "{}"}))
    put(backup / "projects/old", {"project.json": "{}"})
    assert (backup / VIEW / "view.json").read_text() == view("One")["view.json"], "not before the scan"
    for kind in ("projects", "config"):
        assert scan(pair.master, kind)["scanActive"]
    eventually(lambda: pair.backup.config == pair.master.config != {}, message="it is replicated")
    assert pair.backup.projects == pair.master.projects
    assert (backup / VIEW / "view.json").read_text() == view("Two")["view.json"]
    assert not (backup / "projects/old").exists()
    assert not (backup / "config/resources/local").exists(), "what is local stays local"
    assert pair.backup.stale() == [], "replication tears nothing"


def test_a_backup_refuses_edits_politely(pair: RedundantPair) -> None:
    done = pair.backup.scans_done
    assert scan(pair.backup)["success"] is False
    body = b'{"acquireTimeout":0,"holdTimeout":60}'
    lock = ask_with(pair.backup.url, KEY, "POST", f"{API}/scan-lock/projects", body)
    assert (lock.status, lock.object()["success"]) == (200, False)
    assert pair.backup.scans_done == done
    put(pair.backup.data_dir / VIEW, {"view.json": '{"edited": true}'})
    before = (pair.backup.data_dir / VIEW / "resource.json").read_bytes()
    pair.backup.load()
    assert (pair.backup.data_dir / VIEW / "resource.json").read_bytes() == before, "it edits nothing itself"


def test_the_backup_takes_over_and_the_master_takes_back(pair: RedundantPair) -> None:
    url = pair.master.url
    pair.fail_over()
    with pytest.raises(ConnectionRefusedError):
        ask(url, "GET", "/StatusPing")
    assert role(pair.backup) == ("Backup", "Active")
    put(pair.backup.data_dir / VIEW, view("By the backup"))
    before = pair.backup.projects["filler"]
    assert scan(pair.backup)["scanActive"]
    eventually(lambda: pair.backup.projects["filler"] != before, message="the backup scans")

    pair.bring_back()
    assert pair.master.url == url
    assert (role(pair.master), role(pair.backup)) == (("Master", "Active"), ("Backup", "Warm"))
    assert pair.backup.projects == pair.master.projects
    assert (pair.backup.data_dir / VIEW / "view.json").read_text() == view("One")["view.json"]
    count = pair.replications
    scan(pair.master)
    eventually(lambda: pair.replications > count, message="replication goes on")
