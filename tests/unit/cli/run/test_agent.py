"""Options for agents are checked by the webhook, and a typo keeps no gateway from its files."""

from __future__ import annotations

import pytest

from stoker.cli.run.agent_variables import agent_environment
from stoker.domain.errors import StokerError


@pytest.mark.parametrize(
    "given",
    [
        ["STOKER_AUDIT_SYSLOG=udp://logs:70000"],
        ["STOKER_AUDIT_SYSLOG=carrier-pigeon://logs"],
        ["STOKER_AUDIT_SYSLOG=tls://logs:6514", "STOKER_AUDIT_SYSLOG_CA=-----BEGIN CERTIFICATE-----\ntorn"],
        ["STOKER_AUDIT_SYSLOG=udp://logs:514", "STOKER_AUDIT_SYSLOG_FACILITY=kitchen"],
        ["PATH=/evil"],
    ],
)
def test_what_agents_could_make_nothing_of_is_refused(given: list[str]) -> None:
    with pytest.raises(StokerError):
        agent_environment(given)


def test_a_path_is_a_file_of_the_agents_own() -> None:
    given = ["STOKER_AUDIT_SYSLOG=tls://logs:6514", "STOKER_AUDIT_SYSLOG_CA=/not/here.pem", "OTEL_X=1"]
    assert dict(agent_environment(given))["STOKER_AUDIT_SYSLOG_CA"] == "/not/here.pem"
