"""Variables that an installation gives to all agents."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Misconfigured
from stoker.domain.intent.delivery import SidecarMode
from stoker.domain.pods.images import ImageRef
from stoker.domain.pods.injection import AgentInstallation, SidecarTemplate, parse_environment


def test_variables_are_sorted_and_the_last_one_counts() -> None:
    given = ["STOKER_B=2", "OTEL_A=x=y", "STOKER_B=3"]
    assert parse_environment(given) == (("OTEL_A", "x=y"), ("STOKER_B", "3"))
    assert AgentInstallation(ImageRef.parse("stoker:1")).environment == parse_environment([])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("POD_NAME=other", "no NAME=VALUE with OTEL_ or STOKER_ in front"),
        ("LD_PRELOAD=/x", "no NAME=VALUE"),
        ("OTEL_A", "no NAME=VALUE"),
        ("OTEL_a=1", "no NAME=VALUE"),
        ("OTEL_EXPORTER_OTLP_HEADERS=api-key=hunter2", "may hold a credential"),
        (f"OTEL_A={'x' * 20_000}", "more than 16384 bytes"),
    ],
)
def test_what_could_change_or_betray_an_agent_is_refused(given: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why) as caught:
        parse_environment([given])
    assert "hunter2" not in caught.value.message


def test_too_many_are_refused() -> None:
    with pytest.raises(Misconfigured, match="at most 32"):
        parse_environment([f"OTEL_{number}=x" for number in range(33)])


def test_pods_that_were_made_before_there_were_any_are_as_good_as_new_ones() -> None:
    plain = SidecarTemplate(
        "stoker:1", "Always", SidecarMode.NATIVE, (), (), 300.0, "2Gi", None, None, (), None
    )
    assert plain.digest == "6c934f027637a509"
    result = SidecarTemplate(
        *("stoker:1", "Always", SidecarMode.NATIVE, (), (), 300.0, "2Gi", None, None, (), None),
        environment=(("OTEL_A", "1"),),
    )
    assert result.digest != plain.digest
