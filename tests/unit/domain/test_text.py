"""Text from elsewhere loses its secrets before it is cut."""

from __future__ import annotations

import pytest

from stoker.domain.text import escape_unprintable, first_names, one_line, quote_line, redact_secrets

TOKEN = "t0ken-" + "abcdefghij" * 4


@pytest.mark.parametrize("before", range(150, 205, 5))
def test_a_secret_that_the_cut_goes_through_leaves_no_part(before: int) -> None:
    message = quote_line("x" * before + TOKEN + "y" * 500, 200, (TOKEN,))
    assert len(message) == 200
    assert "t0ken" not in message


def test_many_secrets_that_are_hidden_bring_no_part_of_another_into_view() -> None:
    assert set(quote_line((TOKEN + " ") * 200, 300, (TOKEN,)).split()) <= {"<secret>", "<secre…"} | {
        f"{'<secret>'[:length]}…" for length in range(9)
    }


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
    assert redact_secrets(text) == shown


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert redact_secrets("user:password", ("password", "user:password")) == "<secret>"


def test_foreign_text_becomes_one_short_printable_line() -> None:
    assert one_line(" a\n\x1b[31mb\t c ") == "a [31mb c"
    assert one_line("x" * 300, 200) == "x" * 199 + "…"


def test_control_characters_are_escaped_except_the_kept_ones() -> None:
    assert escape_unprintable("a\tb\x1b[0m\u202e", keep="\t") == "a\tb\\x1b[0m\\u202e"
    assert escape_unprintable("\ud800") == "\\ud800"


def test_the_first_names_and_the_count_of_the_others() -> None:
    assert first_names(["a", "b"], 2) == "a, b"
    assert first_names(["a", "b", "c"], 2) == "a, b and 1 more"
    assert first_names([]) == ""
