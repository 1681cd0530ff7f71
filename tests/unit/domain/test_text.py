"""Text from elsewhere loses its secrets."""

from __future__ import annotations

import pytest

from stoker.domain.text import redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://host/x?sig=abc&se=2026 failed", "GET https://host/x?sig=<secret>&se=<secret> failed"),
        ("'https://host/x?key=a/b+c=='", "'https://host/x?key=<secret>'"),
        ("nothing to hide? no", "nothing to hide? no"),
        ("a=b stays", "a=b stays"),
    ],
)
def test_values_in_the_query_of_an_address_are_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert redacted("user:password", ("password", "user:password")) == "<secret>"
