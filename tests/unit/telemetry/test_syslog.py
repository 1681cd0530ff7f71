"""Audit records as syslog: the form of a message, every way to a log server, and what happens without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.audit.audit_export import (
    FACILITY,
    SYSLOG_ADDRESS_VARIABLE,
    SYSLOG_CA_VARIABLE,
    exporter_for,
    shipper_for,
)
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.telemetry.log_shipper import LogShipper
from stoker.telemetry.syslog import INFO, MAX_MESSAGE_BYTES, SyslogAddress, SyslogTransport, syslog_message
from stoker_testkit.certificates import Authority
from stoker_testkit.services.syslog_server import SyslogServer
from stoker_testkit.wait_until import eventually

RECORD: dict[str, Any] = {
    "timestamp": "2026-03-02T08:15:00.123Z",
    "cr": "line",
    "namespace": "plant",
    "gateway": 'filler "one" ]',
    "trigger": "webhook",
    "projectsSynced": ["filler"],
    "result": "success",
}


def built(record: dict[str, Any] = RECORD) -> bytes:
    return syslog_message(record, facility=13, severity=INFO, host="gateway-0", process=7, kind="audit")


def test_a_message_is_what_the_rfc_says() -> None:
    head, _, text = built().partition(b" {")
    assert head == (
        b"<110>1 2026-03-02T08:15:00.123Z gateway-0 stoker 7 audit "
        b'[stoker@32473 cr="line" namespace="plant" gateway="filler \\"one\\" \\]" '
        b'trigger="webhook" result="success"]'
    )
    assert text.startswith(b'"timestamp":"2026-03-02T08:15:00.123Z","cr":"line"')


def test_a_record_that_is_too_large_loses_names_of_projects_and_says_so() -> None:
    message = built({**RECORD, "projectsSynced": ["p" * 200] * 64})
    assert len(message) <= MAX_MESSAGE_BYTES
    assert b'"cut":true' in message
    assert message.endswith(b"}")


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("unix:/dev/log", SyslogAddress(SyslogTransport.UNIX, "/dev/log")),
        ("unix:///dev/log", SyslogAddress(SyslogTransport.UNIX, "/dev/log")),
        ("udp://siem.example", SyslogAddress(SyslogTransport.UDP, "siem.example", 514)),
        ("tcp://siem.example:1514", SyslogAddress(SyslogTransport.TCP, "siem.example", 1514)),
        ("tls://[::1]", SyslogAddress(SyslogTransport.TLS, "::1", 6514)),
    ],
)
def test_an_address_is_understood(address: str, server: SyslogAddress) -> None:
    assert SyslogAddress.parse(address) == server


@pytest.mark.parametrize(
    "address",
    ["siem.example", "http://siem", "tcp://", "tcp://u:p@siem", "tcp://siem:port", "tcp://siem/x?y"],
)
def test_what_is_no_address_is_refused_at_the_start(address: str) -> None:
    with pytest.raises(Misconfigured, match=r"is none of unix:/PATH, udp://HOST:PORT"):
        shipper_for({SYSLOG_ADDRESS_VARIABLE: address})


def test_what_else_is_wrong_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="facility 'mail' is none of user"):
        shipper_for({SYSLOG_ADDRESS_VARIABLE: "udp://siem", FACILITY: "mail"})
    with pytest.raises(Misconfigured, match="No such file"):
        shipper_for({SYSLOG_ADDRESS_VARIABLE: "tls://siem", SYSLOG_CA_VARIABLE: str(tmp_path / "gone.pem")})
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    with pytest.raises(InvalidValue, match="no certificate in PEM form"):
        shipper_for({SYSLOG_ADDRESS_VARIABLE: "tls://siem", SYSLOG_CA_VARIABLE: broken})
    assert shipper_for({}) is None


@pytest.fixture(params=["unix", "udp", "tcp", "tls"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SyslogServer, LogShipper]]:
    authority = Authority()
    pair = authority.server().save(tmp_path, "siem")
    tls = pair if request.param == "tls" else None
    with SyslogServer.start(request.param, tls=tls, path=tmp_path / "log") as server:
        shipper = shipper_for(
            {
                SYSLOG_ADDRESS_VARIABLE: server.address,
                FACILITY: "local3",
                SYSLOG_CA_VARIABLE: authority.pem.decode(),
            }
        )
        assert shipper is not None
        yield server, shipper
        shipper.close()


def test_records_arrive_by_every_way(way: tuple[SyslogServer, LogShipper]) -> None:
    server, shipper = way
    export = exporter_for(shipper, "gateway-0")
    export(RECORD)
    export({**RECORD, "result": "ScanFailed"})
    eventually(lambda: len(server.messages) == 2, message=lambda: f"two messages; {server.complaints}")
    good, bad = server.messages
    assert (good.facility, good.severity, bad.severity) == (19, 6, 4)
    assert (good.host, good.app, good.kind, good.record) == ("gateway-0", "stoker", "audit", RECORD)
    assert server.complaints == []
    shipper.close()
    assert (shipper.sent, shipper.dropped) == (2, 0)


def test_a_server_that_was_away_gets_what_happened_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.telemetry.log_shipper.FIRST_PAUSE", 0.02)
    server = SyslogServer.start("tcp")
    shipper = LogShipper(SyslogAddress.parse(server.address))
    export = exporter_for(shipper)
    export({**RECORD, "commit": "0"})
    eventually(lambda: len(server.messages) == 1)
    server.stop()
    for number in range(1, 6):
        export({**RECORD, "commit": str(number)})
    with SyslogServer.start("tcp", port=server.port) as again:
        eventually(lambda: len(again.messages) == 5, message=lambda: f"{again.messages}")
        assert [one.record["commit"] for one in again.messages] == ["1", "2", "3", "4", "5"]
        shipper.close()
    assert shipper.dropped == 0


def test_messages_without_room_are_counted_and_no_caller_waits(capsys: pytest.CaptureFixture[str]) -> None:
    shipper = LogShipper(SyslogAddress.parse("tcp://127.0.0.1:1"), capacity=3)
    export = exporter_for(shipper)
    for _ in range(50):
        export(RECORD)
    assert 46 <= shipper.dropped <= 47, "three wait, and one may be in the hands of the thread"
    shipper.close(grace=0.0)
    assert (shipper.sent, shipper.dropped) == (0, 50)
    assert {one.name: one.value for one in shipper.readings()} == {
        "ignition_sync_audit_exported_total": 0,
        "ignition_sync_audit_dropped_total": 50,
    }
    printed = capsys.readouterr().err
    assert printed.count("audit.dropped") == 2, "once when it began, and once at the end with the sum"
    assert '"dropped":50' in printed


def test_an_untrusted_server_gets_nothing(tmp_path: Path) -> None:
    pair = Authority("stranger").server().save(tmp_path, "siem")
    with SyslogServer.start("tls", tls=pair) as server:
        shipper = shipper_for(
            {SYSLOG_ADDRESS_VARIABLE: server.address, SYSLOG_CA_VARIABLE: Authority().pem.decode()}
        )
        assert shipper is not None
        exporter_for(shipper)(RECORD)
        eventually(lambda: server.complaints)
        shipper.close(grace=0.0)
        assert (server.messages, shipper.sent, shipper.dropped) == ([], 0, 1)
