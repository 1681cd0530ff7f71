"""The body of a webhook that was authenticated is still bounded."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.webhooks.receiver.json_body import read_object
from stoker_testkit.memory_peak import peak_of


@pytest.mark.parametrize("piece", [b"{},", b"[],", b'{"":0},'])
def test_a_body_of_very_many_values_is_refused_undecoded(piece: bytes) -> None:
    body = b'{"commits":[' + piece * ((1 << 20) // len(piece)) + b"0]}"

    def refused() -> None:
        with pytest.raises(InvalidValue, match="more values"):
            read_object(body)

    assert peak_of(refused) < 4 * len(body)


def test_a_long_text_is_one_value() -> None:
    assert read_object(b'{"message":"' + b"{},[" * 200_000 + b'"}')["message"]
