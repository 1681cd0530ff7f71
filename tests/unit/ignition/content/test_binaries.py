"""The policy for files that run on the gateway."""

from __future__ import annotations

import pytest

from stoker.domain.intent.files import BinaryPolicy
from stoker.domain.reasons import Reason
from stoker.ignition.content.binaries import binary_refusal

PATHS = ["projects/p/a/resource.json", "projects/p/b/data.bin", "projects/p/a/DATA.BIN"]


@pytest.mark.parametrize(
    ("policy", "signed", "refused"),
    [
        (BinaryPolicy.ALLOW, False, False),
        (BinaryPolicy.REQUIRE_SIGNED, True, False),
        (BinaryPolicy.REQUIRE_SIGNED, False, True),
        (BinaryPolicy.REFUSE, True, True),
        (BinaryPolicy.REFUSE, False, True),
    ],
)
def test_what_each_policy_allows(policy: BinaryPolicy, signed: bool, refused: bool) -> None:
    stalled = binary_refusal(PATHS, policy, signed=signed)
    assert (stalled is not None) is refused
    if stalled is not None:
        assert stalled.reason is Reason.BINARY_REFUSED
        assert stalled.message.startswith("projects/p/a/DATA.BIN, projects/p/b/data.bin would be written")
        assert policy in stalled.message
    assert binary_refusal(PATHS[:1], policy, signed=signed) is None
    assert binary_refusal([], policy, signed=signed) is None


def test_only_the_first_few_are_named() -> None:
    stalled = binary_refusal([f"{n}.bin" for n in range(9)], BinaryPolicy.REFUSE, signed=False)
    assert stalled is not None
    assert "4.bin and 4 more would be written" in stalled.message
