"""`stoker doctor` against gateways in every state, and against what is none: each reason once, end to end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker.cli.common.options import API_KEY
from stoker.cli.exit_codes import ExitCode
from stoker.domain.reasons import Reason
from stoker_testkit.certificates import Authority
from stoker_testkit.gateway.rest_api.request_checks import ApiKey, PlainHttpPolicy, Role
from stoker_testkit.gateway.runtime import State
from stoker_testkit.gateway.sessions import Designer
from stoker_testkit.gateway.simulated_gateway import KEY, SECRET, SimulatedGateway

ALL_CHECKS = [
    "address",
    "port",
    "tls",
    "ignition",
    "state",
    "version",
    "key",
    "login",
    "read",
    "write",
    "scan lock",
    "projects",
    "modules",
    "restart",
    "redundancy",
    "designers",
]


class Doctor:
    """Calls the verb with a key file, and reads what it says."""

    def __init__(self, folder: Path) -> None:
        self.key = folder / "key"
        self.key.write_text(KEY)

    def look(self, gateway: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
        arguments = ["doctor", "--gateway", gateway, "--api-key-file", str(self.key), "--output=json", *more]
        done = CliRunner().invoke(cli, arguments)
        assert SECRET not in done.output
        document = json.loads(done.stdout)
        assert document["well"] is (done.exit_code == ExitCode.DONE)
        return done.exit_code, document["findings"]

    def complaint(self, gateway: str, *more: str, code: int = ExitCode.UNVERIFIED) -> tuple[str, str, str]:
        """Check, reason and fix of what is wrong; all before it is well, and nothing comes after it."""
        ended, findings = self.look(gateway, *more)
        assert ended == code
        *before, last = findings
        assert last["mark"] == "wrong"
        assert not [one for one in before if one["mark"] == "wrong"]
        assert [one["check"] for one in findings] == ALL_CHECKS[: len(findings)]
        return last["check"], last["reason"], last["fix"]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedGateway]:
    (tmp_path / "data/projects/Line 1").mkdir(parents=True)
    (tmp_path / "data/projects/Line 1/project.json").write_text("{}")
    with SimulatedGateway.start(tmp_path / "data") as running:
        yield running


def free_port() -> int:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port: int = reserved.getsockname()[1]
    return port


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """A port that answers everything with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    if connection.recv(65536):
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def test_a_gateway_to_which_everything_works_is_well(simulated: SimulatedGateway, doctor: Doctor) -> None:
    code, findings = doctor.look(simulated.url)
    assert code == ExitCode.DONE
    assert [one["check"] for one in findings] == ALL_CHECKS
    assert {one["mark"] for one in findings} == {"ok"}
    assert not [one for one in simulated.requests if one.method != "GET" and one.status < 300], (
        "changed nothing"
    )
    assert not simulated.asked("POST", "scan/projects")


def test_a_scan_is_requested_only_with_its_flag(simulated: SimulatedGateway, doctor: Doctor) -> None:
    code, _ = doctor.look(simulated.url, "--try-scan")
    assert code == ExitCode.DONE
    assert [one.status for one in simulated.asked("POST", "scan/projects")] == [200]


def test_it_is_a_command_of_its_own(simulated: SimulatedGateway, doctor: Doctor) -> None:
    simulated.settings.keys["stoker"] = ApiKey("another")
    command = [sys.executable, "-m", "stoker", "doctor", f"--gateway={simulated.url}"]
    done = subprocess.run(
        [*command, f"--api-key-file={doctor.key}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == ExitCode.UNVERIFIED
    assert not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ok      address     127.0.0.1"
    assert lines[-2].startswith("WRONG   login       TokenRejected: ")
    assert lines[-1].startswith("                    -> On the gateway's web page")


def test_an_unknown_name(doctor: Doctor) -> None:
    check, reason, fix = doctor.complaint("no-such-gateway.invalid:8088")
    assert (check, reason) == ("address", Reason.GATEWAY_UNREACHABLE)
    assert "spelling" in fix


def test_a_closed_port(doctor: Doctor) -> None:
    check, reason, fix = doctor.complaint(f"127.0.0.1:{free_port()}")
    assert (check, reason) == ("port", Reason.GATEWAY_UNREACHABLE)
    assert "service running" in fix


def test_a_tls_port_that_was_asked_in_plain_http(tmp_path: Path, doctor: Doctor) -> None:
    pair = Authority().server(["gw"]).save(tmp_path, "gateway")
    with SimulatedGateway.start(tmp_path / "data", tls=pair) as running:
        check, reason, fix = doctor.complaint(running.url.removeprefix("https://"))
    assert (check, reason) == ("tls", Reason.GATEWAY_UNREACHABLE)
    assert "write https://127.0.0.1" in fix


def test_a_plain_port_that_was_asked_in_tls(simulated: SimulatedGateway, doctor: Doctor) -> None:
    check, reason, fix = doctor.complaint(simulated.url.replace("http:", "https:"))
    assert (check, reason) == ("tls", Reason.GATEWAY_UNREACHABLE)
    assert "write http://127.0.0.1" in fix


def test_a_certificate_of_an_unknown_authority(tmp_path: Path, doctor: Doctor) -> None:
    pair = Authority().server(["gw"]).save(tmp_path, "gateway")
    (tmp_path / "ca").write_bytes(Authority().pem)
    with SimulatedGateway.start(tmp_path / "data", tls=pair) as running:
        check, reason, fix = doctor.complaint(running.url, "--gateway-ca-file", str(tmp_path / "ca"))
        assert doctor.look(running.url)[0] == ExitCode.DONE, (
            "without an authority nothing is checked on loopback"
        )
    assert (check, reason) == ("tls", Reason.CERTIFICATE_NOT_TRUSTED)
    assert "--gateway-ca-file" in fix


def test_an_authority_that_is_none(tmp_path: Path, doctor: Doctor) -> None:
    pair = Authority().server(["gw"]).save(tmp_path, "gateway")
    with SimulatedGateway.start(tmp_path / "data", tls=pair) as running:
        code, findings = doctor.look(running.url, "--gateway-ca-file", __file__)
    assert (code, findings[-1]["check"]) == (ExitCode.WRONG_INPUT, "tls")
    assert "no certificate in PEM form" in findings[-1]["message"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>",
        b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ],
)
def test_another_web_server(doctor: Doctor, answer: bytes) -> None:
    with saying(answer) as address:
        check, reason, fix = doctor.complaint(address)
    assert (check, reason) == ("ignition", Reason.NOT_IGNITION_83)
    assert "in a browser" in fix


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", Reason.GATEWAY_UNREACHABLE),
        (b"", Reason.GATEWAY_UNREACHABLE),
        (
            b"HTTP/1.1 302 Found\r\nLocation: https://gw/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            Reason.SECURE_REQUIRED,
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: /welcome\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            Reason.NOT_COMMISSIONED,
        ),
        (
            b"HTTP/1.1 502 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            Reason.GATEWAY_UNREACHABLE,
        ),
    ],
)
def test_what_ends_it_at_the_first_request(doctor: Doctor, answer: bytes, expected: Reason) -> None:
    with saying(answer) as address:
        check, reason, fix = doctor.complaint(address)
    assert (check, reason) == ("tls", expected)
    assert fix


@pytest.mark.parametrize(
    ("state", "expected"),
    [(State.STARTING, Reason.GATEWAY_STARTING), (State.FAULTED, Reason.GATEWAY_FAULTED)],
)
def test_a_gateway_that_does_not_run(
    simulated: SimulatedGateway, doctor: Doctor, state: State, expected: Reason
) -> None:
    simulated.state = state
    check, reason, fix = doctor.complaint(simulated.url)
    assert (check, reason) == ("state", expected)
    assert fix


def test_an_8_1_gateway(simulated: SimulatedGateway, doctor: Doctor) -> None:
    simulated.settings.version = "8.1.44"
    assert doctor.complaint(simulated.url)[:2] == ("version", Reason.NOT_IGNITION_83)


def test_a_key_without_its_name(simulated: SimulatedGateway, doctor: Doctor) -> None:
    doctor.key.write_text(SECRET)
    check, reason, fix = doctor.complaint(simulated.url, code=ExitCode.WRONG_INPUT)
    assert (check, reason) == ("key", Reason.TOKEN_MALFORMED)
    assert "NAME:SECRET" in fix
    assert not [one for one in simulated.requests if one.path.startswith("/data/")], "nothing was sent"


def test_a_key_that_is_nowhere(
    simulated: SimulatedGateway, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor.key.unlink()
    code, findings = doctor.look(simulated.url)
    assert (code, findings[-1]["check"], findings[-1]["reason"]) == (
        ExitCode.WRONG_INPUT,
        "key",
        Reason.MISCONFIGURED,
    )
    monkeypatch.delenv(API_KEY, raising=False)
    done = CliRunner().invoke(cli, ["doctor", "--gateway", simulated.url])
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert "no API key was given: --api-key-file FILE" in done.output
    monkeypatch.setenv(API_KEY, KEY)
    assert CliRunner().invoke(cli, ["doctor", "--gateway", simulated.url]).exit_code == ExitCode.DONE


def test_a_key_that_the_gateway_does_not_know(simulated: SimulatedGateway, doctor: Doctor) -> None:
    doctor.key.write_text("stranger:secret")
    check, reason, fix = doctor.complaint(simulated.url)
    assert (check, reason) == ("login", Reason.TOKEN_REJECTED)
    assert "API Keys" in fix


def test_a_key_that_requires_tls(simulated: SimulatedGateway, doctor: Doctor) -> None:
    simulated.settings.insecure = PlainHttpPolicy.REFUSED
    check, reason, fix = doctor.complaint(simulated.url)
    assert (check, reason) == ("login", Reason.SECURE_REQUIRED)
    assert "Require secure connections" in fix


@pytest.mark.parametrize("permission", ["read", "write"])
def test_a_level_that_is_not_granted(simulated: SimulatedGateway, doctor: Doctor, permission: str) -> None:
    simulated.settings.keys["stoker"] = ApiKey(SECRET, **{permission: False})
    check, reason, fix = doctor.complaint(simulated.url)
    assert (check, reason) == (permission, Reason.LEVEL_NOT_GRANTED)
    assert f"Gateway {permission.title()} Permissions" in fix


def test_a_scan_that_is_refused_politely(simulated: SimulatedGateway, doctor: Doctor) -> None:
    simulated.settings.scan_refusal = "not today"
    assert doctor.complaint(simulated.url, "--try-scan")[:2] == ("write", Reason.GATEWAY_ERROR)


def test_what_a_sync_will_meet_is_noted_and_nothing_is_wrong(
    simulated: SimulatedGateway, doctor: Doctor
) -> None:
    simulated.settings.scan_lock = False
    simulated.settings.role = Role.BACKUP
    simulated.settings.quarantined = ("com.example.broken",)
    simulated.needs_restart("Module Enabled: com.example")
    simulated.open_designer(Designer("d1", "anna", "Line 1"))
    code, findings = doctor.look(simulated.url)
    assert code == ExitCode.DONE
    found = {one["check"]: (one["mark"], one["message"]) for one in findings if one["mark"] != "ok"}
    assert found.keys() == {"write", "scan lock", "redundancy", "modules", "restart", "designers"}
    assert found["write"][0] == "untried"
    assert found["modules"][1].startswith("quarantined: com.example.broken")
    assert found["designers"][1] == "open: Line 1 by anna"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key-file", __file__],
        ["--gateway", "gw:8043", "line-1"],
        ["--gateway", "ftp://gw"],
        ["--gateway", "user:secret@gw"],
        ["--gateway", "gw:8043", "--gateway-ca-file", "/nowhere"],
        ["--gateway", "gw:8043", "--gateway-ca-file", __file__, "--gateway-insecure"],
        ["--gateway", "gw:port"],
        ["--what"],
    ],
)
def test_wrong_input_is_reported_in_one_sentence(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli, ["doctor", *arguments])
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert "secret" not in done.output
    assert len(done.stderr.splitlines()) <= 1


def test_the_header_of_the_key_can_be_another_one(doctor: Doctor, simulated: SimulatedGateway) -> None:
    simulated.settings.key_header = "X-Plant-Token"
    assert doctor.complaint(simulated.url)[:2] == ("login", Reason.TOKEN_REJECTED)
    assert doctor.look(simulated.url, "--api-key-header=X-Plant-Token")[0] == ExitCode.DONE
