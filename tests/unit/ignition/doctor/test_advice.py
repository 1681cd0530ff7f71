"""The doctor describes a gateway's problem so that an operator can fix it."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue, Retry, Stalled, StokerError
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.designer_sessions import DesignerSession
from stoker.ignition.client.inventory import GatewayInfo, ModuleHealth
from stoker.ignition.client.responses import GatewayPresence, GatewayState
from stoker.ignition.doctor import advice

PLAIN = GatewayAddress("gw.plant.example", 8088, tls=False)
SECURE = GatewayAddress("gw.plant.example", 8043, tls=True)
LOCAL = GatewayAddress("localhost", 8043, tls=True)


def unreachable(why: str) -> Retry:
    return Retry(f"asking: the gateway at {PLAIN} {why}", reason=Reason.GATEWAY_UNREACHABLE)


def untrusted(why: str) -> Retry:
    words = f"asking: the gateway at {SECURE} shows a certificate that is not trusted: {why}"
    return Retry(words, reason=Reason.CERTIFICATE_NOT_TRUSTED)


@pytest.mark.parametrize(
    ("error", "address", "fix"),
    [
        (InvalidValue("the key is empty", reason=Reason.TOKEN_MALFORMED), PLAIN, "NAME:SECRET"),
        (Stalled("no", reason=Reason.TOKEN_REJECTED), SECURE, "API Keys: there must"),
        (Stalled("no", reason=Reason.TOKEN_REJECTED), PLAIN, "Require secure connections"),
        (Stalled("granted Gateway Write", reason=Reason.LEVEL_NOT_GRANTED), SECURE, "Gateway Write Perm"),
        (Stalled("granted Gateway Read", reason=Reason.LEVEL_NOT_GRANTED), SECURE, "Gateway Read Perm"),
        (Stalled("granted Gateway Read", reason=Reason.LEVEL_NOT_GRANTED), PLAIN, "Require secure conn"),
        (Stalled("no", reason=Reason.SECURE_REQUIRED), PLAIN, "https://HOST:8043"),
        (Stalled("no", reason=Reason.NOT_IGNITION_83), PLAIN, "upgrade the gateway"),
        (Retry("no", reason=Reason.GATEWAY_STARTING), PLAIN, "Wait"),
        (Retry("no", reason=Reason.GATEWAY_FAULTED), PLAIN, "user 2003"),
        (Retry("no", reason=Reason.NOT_COMMISSIONED), PLAIN, "in a browser"),
        (Retry("no", reason=Reason.GATEWAY_ERROR), PLAIN, "wrapper.log"),
        (unreachable("cannot be reached: its name is not known"), PLAIN, "spelling"),
        (unreachable("cannot be reached: Connection refused"), PLAIN, "8088 .*8043"),
        (unreachable("cannot be reached: no connection in time"), PLAIN, "firewall"),
        (
            unreachable("closed the connection without an answer"),
            PLAIN,
            "write https://gw.plant.example:8088",
        ),
        (unreachable("does not speak TLS: WRONG"), SECURE, "write http://gw.plant.example:8043"),
        (untrusted("self-signed certificate"), SECURE, "--gateway-ca-file"),
        (untrusted("certificate has expired"), SECURE, "Renew"),
        (
            untrusted("Hostname mismatch, certificate is not valid for 'gw'."),
            SECURE,
            "a name in its certificate",
        ),
    ],
)
def test_every_reason_has_a_fix(error: StokerError, address: GatewayAddress, fix: str) -> None:
    found = advice.error_finding("check", error, address)
    assert found.mark is FindingStatus.WRONG
    assert found.reason is error.reason
    assert found.said == error.message
    with pytest.raises(AssertionError, match=fix):
        raise AssertionError(found.fix)


def test_only_what_the_command_was_given_is_wrong_input() -> None:
    assert advice.error_finding("key", InvalidValue("x"), PLAIN).of_input
    assert not advice.error_finding("login", Stalled("x"), PLAIN).of_input


@pytest.mark.parametrize(
    ("address", "trust", "mark", "words"),
    [
        (PLAIN, "plain HTTP", FindingStatus.NOTE, "the key can be read"),
        (GatewayAddress("127.0.0.1", 8088, tls=False), "plain HTTP", FindingStatus.WELL, "does not leave"),
        (SECURE, "verified", FindingStatus.WELL, "is trusted"),
        (SECURE, "unverified", FindingStatus.NOTE, "--gateway-insecure"),
        (LOCAL, "unverified loopback", FindingStatus.WELL, "unverified loopback"),
        (LOCAL, "verified", FindingStatus.WELL, "is trusted"),
    ],
)
def test_the_protection_of_the_connection_is_reported(
    address: GatewayAddress, trust: str, mark: FindingStatus, words: str
) -> None:
    found = advice.transport_finding(address, trust)
    assert (found.mark, words in found.said) == (mark, True)


@pytest.mark.parametrize(
    ("here", "mark"),
    [
        (GatewayPresence(), FindingStatus.WRONG),
        (GatewayPresence(version="8.1.44"), FindingStatus.WELL),
        (GatewayPresence(GatewayState.STARTING), FindingStatus.WELL),
        (GatewayPresence(GatewayState.RUNNING, "8.3.7"), FindingStatus.WELL),
    ],
)
def test_another_program_is_distinguished_from_ignition(here: GatewayPresence, mark: FindingStatus) -> None:
    assert advice.ignition_finding(here, PLAIN).mark is mark


def test_an_old_version_is_wrong_and_an_unknown_one_is_not() -> None:
    assert advice.version_finding(GatewayPresence(GatewayState.RUNNING, "8.1.44")).mark is FindingStatus.WRONG
    assert advice.version_finding(GatewayPresence(GatewayState.RUNNING, "")).mark is FindingStatus.WELL


def test_notes_name_what_a_sync_will_meet() -> None:
    quarantined = advice.modules_finding(ModuleHealth(frozenset({"a"}), {"b": "no licence", "c": ""}))
    assert (quarantined.mark, quarantined.said) == (FindingStatus.NOTE, "quarantined: b (no licence), c")
    open_now = advice.designers_finding(
        [DesignerSession("1", "anna", "Line 1", ""), DesignerSession("2", "", "", "")]
    )
    assert open_now.said == "open: Line 1 by anna, no project by an unknown user"
    backup = advice.redundancy_finding(GatewayInfo("gw", "8.3.7", "Backup"))
    assert backup.mark is FindingStatus.NOTE
    due = advice.restarts_finding(("Module Enabled: a",))
    assert due.said.endswith("Module Enabled: a")


def test_what_a_gateway_does_not_offer_is_not_called_well() -> None:
    for found in (
        advice.modules_finding(None),
        advice.designers_finding(None),
        advice.restarts_finding(None),
    ):
        assert found.mark is FindingStatus.UNTRIED


def test_nothing_unusual_is_called_well() -> None:
    for found in (
        advice.modules_finding(ModuleHealth(frozenset({"a"}), {})),
        advice.designers_finding(()),
        advice.restarts_finding(()),
        advice.redundancy_finding(GatewayInfo("gw", "8.3.7", "Independent")),
    ):
        assert found.mark is FindingStatus.WELL


def test_long_lists_are_cut() -> None:
    assert (
        first_names([str(n) for n in range(12)], advice.MAX_NAMES)
        == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    )


def test_a_finding_is_one_line_and_its_fix_another() -> None:
    found = Finding("login", FindingStatus.WRONG, "no", "Do this.", Reason.TOKEN_REJECTED)
    assert list(found.lines()) == [
        "WRONG   login       TokenRejected: no",
        "                    -> Do this.",
    ]
    assert found.as_json() == {
        "check": "login",
        "mark": "wrong",
        "message": "no",
        "fix": "Do this.",
        "reason": "TokenRejected",
    }
