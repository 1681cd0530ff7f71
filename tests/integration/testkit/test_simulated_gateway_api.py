"""More of the simulated gateway's API: sessions, modules, restarts, tags, both generations of paths."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.gateway.http_client import Reply, ask, ask_with, pull
from stoker_testkit.gateway.rest_api.request_checks import HEADER, GatewaySettings, Paths
from stoker_testkit.gateway.runtime import Designer, PerspectiveBrowser, ScanLockKind, State
from stoker_testkit.gateway.sessions import SessionMessage
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, resource, view
from stoker_testkit.wait_until import eventually

V1 = "/data/api/v1"
V2 = "/data/api/v2"
PERSPECTIVE = "/data/perspective/api/v1/sessions"
CORE = "config/resources/core/ignition"
LOCK = b'{"acquireTimeout":0,"holdTimeout":60}'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    put(folder / "projects/filler", {"project.json": '{"title": "Filler"}'})
    put(folder / f"projects/filler/{VIEWS}/Overview", view("Filler"))
    return folder


@pytest.fixture
def gateway(data: Path) -> Iterator[SimulatedGateway]:
    with SimulatedGateway.start(data, scan_seconds=0.0) as running:
        yield running


def put(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def get(gateway: SimulatedGateway, path: str) -> Reply:
    return ask_with(gateway.url, KEY, "GET", path)


def items(reply: Reply, key: str = "items") -> list[dict[str, object]]:
    found = reply.object()[key]
    assert isinstance(found, list)
    return found


def scanned(gateway: SimulatedGateway, kind: ScanLockKind) -> None:
    before = gateway.scans_done
    gateway.ask_for_scan(kind)
    eventually(lambda: gateway.scans_done > before, message="the scan has ended")


def test_it_says_what_it_is(gateway: SimulatedGateway) -> None:
    gateway.settings.deployment_mode = "production"
    document = get(gateway, f"{V1}/gateway-info").object()
    assert document == {
        "name": "gateway",
        "edition": "standard",
        "ignitionVersion": "8.3.7 (b2026010100)",
        "deploymentMode": "production",
        "redundancyRole": "Independent",
        "port": int(gateway.url.rpartition(":")[2]),
    }
    assert get(gateway, f"{V1}/status").status == 404


def test_some_know_status_only(gateway: SimulatedGateway) -> None:
    gateway.settings.status_only = True
    assert get(gateway, f"{V1}/gateway-info").status == 404
    assert get(gateway, f"{V1}/status").object()["ignitionVersion"] == "8.3.7 (b2026010100)"


def test_a_gateway_that_was_not_commissioned_redirects_every_request(gateway: SimulatedGateway) -> None:
    gateway.settings.commissioned = False
    assert get(gateway, f"{V1}/gateway-info").status == 302
    assert ask(gateway.url, "GET", "/StatusPing").status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("PUT", f"{V1}/gateway-info", None, "", 405),
        ("POST", f"{V1}/designers", None, "", 405),
        ("POST", f"{V1}/scan/projects", b"{}", "application/json", 400),
        ("DELETE", f"{V1}/designer/7", b"{}", "application/json", 400),
        ("POST", f"{V1}/scan-lock/projects", LOCK, "application/x-www-form-urlencoded", 415),
        ("POST", f"{V1}/restart-tasks/restart", None, "", 400),
        ("DELETE", PERSPECTIVE, None, "", 400),
        ("GET", f"{V1}/tags/export?provider=default", None, "", 400),
        ("GET", f"{V1}/projects/list?limit=x", None, "", 400),
    ],
)
def test_it_refuses_what_it_does_not_understand(
    gateway: SimulatedGateway, method: str, path: str, body: bytes | None, kind: str, status: int
) -> None:
    headers = {HEADER: KEY, **({"Content-Type": kind} if kind else {})}
    before = gateway.scans_done
    assert ask(gateway.url, method, path, headers, body).status == status
    assert gateway.state is State.RUNNING
    assert (gateway.scans_done, gateway.locked(ScanLockKind.PROJECTS)) == (before, False)


def test_a_list_may_show_a_part_of_itself(gateway: SimulatedGateway, data: Path) -> None:
    for name in ("a", "b", "c"):
        put(data / "projects" / name, {"project.json": "{}"})
    scanned(gateway, ScanLockKind.PROJECTS)
    assert len(items(get(gateway, f"{V1}/projects/list"))) == 4
    gateway.settings.page_limit = 2
    part = get(gateway, f"{V1}/projects/list?offset=1")
    assert [one["name"] for one in items(part)] == ["b", "c"]
    assert part.object()["metadata"] == {"total": 4, "matching": 4, "limit": 2, "offset": 1}
    assert len(items(get(gateway, f"{V1}/projects/list?limit=-1"))) == 4


def test_projects_are_found_by_name(gateway: SimulatedGateway) -> None:
    assert get(gateway, f"{V1}/projects/names").json() == ["filler"]
    found = get(gateway, f"{V1}/projects/find/filler").object()
    assert found == {"name": "filler", "title": "Filler", "enabled": True}
    assert items(get(gateway, f"{V1}/projects/list")) == [found]


def test_a_perspective_session_is_listed_and_ended_with_words(gateway: SimulatedGateway) -> None:
    gateway.open_session(PerspectiveBrowser("b1", "otto", "filler"))
    gateway.open_session(PerspectiveBrowser("b2", "anna", "filler", scope="designer"))
    first, second = items(get(gateway, f"{PERSPECTIVE}/"))
    assert first.items() >= {"id": "b1", "username": "otto", "project": "filler"}.items()
    assert (first["sessionScope"], second["sessionScope"]) == ("browser", "designer")
    path = f"{PERSPECTIVE}?sessionId=b1&message=Back%20soon"
    assert ask_with(gateway.url, KEY, "DELETE", path).body == b'{"terminated": 1}'
    assert ask_with(gateway.url, KEY, "DELETE", path).body == b'{"terminated": 0}'
    assert gateway.messages == [SessionMessage("b1", "Back soon")]
    assert gateway.sessions == ["b2"]
    assert get(gateway, PERSPECTIVE).status == 405, "without the slash it is another path"


def test_a_graceful_session_goes_some_time_after_the_message(gateway: SimulatedGateway) -> None:
    gateway.settings.paths = Paths.V2
    gateway.open_session(PerspectiveBrowser("polite", "otto", "filler", leaves_after=0.2))
    gateway.open_session(PerspectiveBrowser("deaf", "emil", "filler", leaves_after=None))
    for session in ("polite", "deaf"):
        path = f"{V2}/sessions/{session}/message"
        assert ask_with(gateway.url, KEY, "POST", path, b'{"message": "Please close"}').status == 200
        assert ask_with(gateway.url, KEY, "POST", path, b'{"text": "Please close"}').status == 400
    assert gateway.sessions == ["polite", "deaf"], "not at once"
    eventually(lambda: gateway.sessions == ["deaf"], message="who listens has gone")
    assert ask_with(gateway.url, KEY, "DELETE", f"{V2}/sessions/deaf").status == 200
    assert gateway.sessions == []


NEWER = [f"{V1}/designers", f"{PERSPECTIVE}/", f"{V1}/modules/healthy", f"{V1}/restart-tasks/pending"]
OLDER = [f"{V2}/design/sessions", f"{V2}/sessions", f"{V2}/projects/filler", f"{V2}/modules"]


@pytest.mark.parametrize(
    ("paths", "newer", "older"), [(Paths.V83, 200, 404), (Paths.V2, 404, 200), (Paths.BOTH, 200, 200)]
)
def test_each_generation_of_paths_can_be_had(
    gateway: SimulatedGateway, paths: Paths, newer: int, older: int
) -> None:
    gateway.settings.paths = paths
    assert {get(gateway, path).status for path in NEWER} == {newer}
    assert {get(gateway, path).status for path in [*OLDER, f"{V2}/tag-providers"]} == {older}
    assert get(gateway, f"{V1}/scan/projects").status == 200, "what both have"


def test_the_specification_knows_sessions_by_other_names(gateway: SimulatedGateway) -> None:
    gateway.settings.paths = Paths.V2
    gateway.open_designer(Designer("d1", "anna", "filler"))
    gateway.open_session(PerspectiveBrowser("b1", "otto", "filler"))
    both = items(get(gateway, f"{V2}/sessions"), "sessions")
    assert [(one["sessionId"], one["type"]) for one in both] == [("d1", "designer"), ("b1", "perspective")]
    (designer,) = items(get(gateway, f"{V2}/design/sessions"), "sessions")
    assert (designer["userName"], designer["projectName"]) == ("anna", "filler")
    (of_project,) = items(get(gateway, f"{V2}/projects/filler"), "designSessions")
    assert of_project["userName"] == "anna"


def test_tag_providers_and_their_types_appear_with_a_config_scan(
    gateway: SimulatedGateway, data: Path
) -> None:
    listed = f"{V1}/resources/list/ignition/tag-provider"
    export = f"{V1}/tags/export?provider=site&type=json&path=_types_"
    put(data / CORE / "tag-provider/site", resource({"config.json": '{"parent": "hq"}'}))
    motor, pump = {"name": "Motor", "tagType": "UdtType"}, {"name": "Pump", "tagType": "UdtType"}
    put(data / CORE / "tag-type-definition/site/Motor", resource({"udts.json": json.dumps(motor)}))
    put(data / CORE / "tag-type-definition/site/area/wet", resource({"udts.json": json.dumps([pump])}))
    assert (items(get(gateway, listed)), get(gateway, export).status) == ([], 404)
    scanned(gateway, ScanLockKind.PROJECTS)
    assert items(get(gateway, listed)) == [], "the other scan does not look there"
    scanned(gateway, ScanLockKind.CONFIG)
    (found,) = items(get(gateway, listed))
    assert (found["name"], found["collection"], found["config"]) == ("site", "core", {"parent": "hq"})
    folder = {"name": "wet", "tagType": "Folder", "tags": [pump]}
    assert get(gateway, export).object() == {
        "name": "_types_",
        "tagType": "Folder",
        "tags": [motor, {"name": "area", "tagType": "Folder", "tags": [folder]}],
    }
    gateway.settings.managed_providers = ("MQTT Engine",)
    assert [one["name"] for one in items(get(gateway, listed))] == ["site", "MQTT Engine"]
    gateway.settings.paths = Paths.V2
    own, managed = items(get(gateway, f"{V2}/tag-providers"), "providers")
    assert (own, managed) == ({"name": "site", "parent": "hq"}, {"name": "MQTT Engine", "managed": True})


def test_a_restart_takes_up_new_modules_and_ends_sessions(gateway: SimulatedGateway, data: Path) -> None:
    modules = data / "user-lib/modules"
    modules.mkdir(parents=True)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("module.xml", "<modules><module><id>org.example.pumps</id></module></modules>")
    (modules / "pumps.modl").write_bytes(packed.getvalue())
    (modules / "plain.jar").write_bytes(b"whatever")
    (modules / "half.modl").write_bytes(b"")
    gateway.open_designer(Designer("d1", "anna", "filler"))
    gateway.needs_restart("Modules changed")
    gateway.settings.quarantined = ("org.example.old",)
    assert get(gateway, f"{V1}/restart-tasks/pending").object() == {"pending": ["Modules changed"]}
    assert "plain" not in {one["id"] for one in items(get(gateway, f"{V1}/modules/healthy"))}

    asked = ask_with(gateway.url, KEY, "POST", f"{V1}/restart-tasks/restart?confirm=true")
    assert (asked.status, asked.json()) == (200, True)
    assert gateway.state is State.RUNNING, "not at once"
    eventually(lambda: gateway.state is State.STARTING, message="it starts again")
    assert get(gateway, f"{V1}/gateway-info").status == 503
    eventually(lambda: gateway.state is State.RUNNING, message="it runs again")
    healthy = [one["id"] for one in items(get(gateway, f"{V1}/modules/healthy"))]
    assert healthy[-2:] == ["plain", "org.example.pumps"]
    sick = {one["id"]: one["reason"] for one in items(get(gateway, f"{V1}/modules/quarantined"))}
    assert sick == {"org.example.old": "its certificate was not accepted", "half": "the file is empty"}
    assert get(gateway, f"{V1}/restart-tasks/pending").object() == {"pending": []}
    assert items(get(gateway, f"{V1}/designers")) == []
    gateway.settings.paths = Paths.V2
    states = {one["moduleId"]: one["state"] for one in items(get(gateway, f"{V2}/modules"), "modules")}
    assert (states["plain"], states["half"]) == ("running", "quarantined")
    assert ask_with(gateway.url, KEY, "POST", f"{V1}/restart").status == 200


def test_a_slow_start_is_seen_from_outside(data: Path) -> None:
    with SimulatedGateway.start(data, slow_start=0.3) as gateway:
        assert ask(gateway.url, "GET", "/StatusPing").object() == {"state": "STARTING"}
        assert get(gateway, f"{V1}/gateway-info").status == 503
        assert gateway.projects == {}
        eventually(lambda: gateway.state is State.RUNNING, message="it runs")
        assert "filler" in gateway.projects


def test_a_gateway_that_is_switched_off_does_not_answer(gateway: SimulatedGateway) -> None:
    url = gateway.url
    gateway.go_down()
    with pytest.raises(ConnectionRefusedError):
        ask(url, "GET", "/StatusPing")
    gateway.come_up()
    assert gateway.url == url
    assert get(gateway, f"{V1}/gateway-info").status == 200


def test_the_first_start_makes_a_gateways_own_files_and_touches_no_other(data: Path) -> None:
    put(data / "config/resources/core", {"config-mode.json": '{"title": "ours"}'})
    with SimulatedGateway.start(data, commissions=True) as gateway:
        own = (".uuid", ".resources", "db", "config/resources/local/config-mode.json")
        assert all((data / path).exists() for path in own)
        assert (data / "config/resources/core/config-mode.json").read_text() == '{"title": "ours"}'
        uuid = (data / ".uuid").read_text()
        (data / "config/resources/core/config-mode.json").unlink()
        gateway.restart()
        assert (data / ".uuid").read_text() == uuid
        assert not (data / "config/resources/core/config-mode.json").exists(), "only the first time"


def test_without_commissioning_it_makes_no_files(gateway: SimulatedGateway, data: Path) -> None:
    assert sorted(path.name for path in data.iterdir()) == ["projects"]
    assert gateway.state is State.RUNNING


def test_its_strings_can_be_pulled_from_another_process(gateway: SimulatedGateway, data: Path) -> None:
    url = gateway.url
    pull(url, "open-designer", id="d1", user="anna", project="filler")
    pull(url, "open-session", id="b1", user="otto", project="filler", leaves_after=None)
    assert [one["id"] for one in items(get(gateway, f"{V1}/designers"))] == ["d1"]
    pull(url, "close-designer", id="d1")
    pull(url, "close-session", id="b1")
    assert (items(get(gateway, f"{V1}/designers")), gateway.sessions) == ([], [])

    pull(url, "settings", scan_lock=False, version="8.3.0", paths="both", restart_seconds=1)
    assert (gateway.settings.scan_lock, gateway.settings.paths) == (False, Paths.BOTH)
    pull(url, "settings", scan_lock=True)
    pull(url, "pending", tasks=["x"])
    assert get(gateway, f"{V1}/restart-tasks/pending").object() == {"pending": ["x"]}

    pull(url, "saving", kind="config", busy=True)
    assert ask_with(gateway.url, KEY, "POST", f"{V1}/scan-lock/config", LOCK).status == 408
    pull(url, "saving", kind="config", busy=False)
    assert pull(url, "save", path="projects/filler/x", text="y") == {"written": True}
    before = gateway.scans_done
    pull(url, "scan", kind="projects")
    pull(url, "scan-at-random", rate=100)
    eventually(lambda: gateway.scans_done > before + 2, message="it scans")
    pull(url, "scan-at-random", rate=0)
    torn = data / f"projects/filler/{VIEWS}/Overview/view.json"
    torn.write_text("")
    scanned(gateway, ScanLockKind.PROJECTS)
    result = pull(url, "stale")
    assert result["stale"] == [f"projects/filler/{VIEWS}/Overview"]
    assert result["mishaps"] == [
        {"resource": result["stale"][0], "how": "was read half-written", "files": ["view.json"]}
    ]
    assert pull(url, "messages") == {"messages": []}

    asked = pull(url, "requests")["requests"]
    assert isinstance(asked, list)
    assert not [one for one in asked if "/testing/" in one["path"]]
    assert asked[-1].items() >= {"path": f"{V1}/scan-lock/config", "status": 408, "key": "stoker"}.items()
    pull(url, "state", state="FAULTED")
    assert gateway.state is State.FAULTED
    pull(url, "restart", seconds=0)
    eventually(lambda: gateway.state is State.RUNNING, message="it runs again")


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("state", b'{"state": "ASLEEP"}'),
        ("state", b"[]"),
        ("state", b"{"),
        ("scan", b"{}"),
        ("settings", b'{"nonsense": 1}'),
        ("settings", b'{"scan_lock": "no"}'),
        ("settings", b'{"paths": "v9"}'),
        ("open-designer", b'{"id": "d1"}'),
        ("open-designer", b'{"id": 7, "user": "x", "project": "y"}'),
        ("close-designer", b'{"id": "nobody"}'),
        ("scan-at-random", b'{"rate": "often"}'),
    ],
)
def test_a_string_that_is_pulled_wrongly_says_so(gateway: SimulatedGateway, verb: str, body: bytes) -> None:
    refused = ask(gateway.url, "POST", f"/testing/{verb}", body=body)
    assert (refused.status, bool(refused.object()["message"])) == (400, True)
    assert gateway.settings.scan_lock == GatewaySettings().scan_lock


def test_a_string_that_there_is_not_is_not_found(gateway: SimulatedGateway) -> None:
    assert ask(gateway.url, "POST", "/testing/nonsense").status == 404
