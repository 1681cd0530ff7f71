"""Nothing can format, serialize or copy a Secret by accident."""

import copy
import json
import logging
import pickle
import traceback

import msgspec
import pytest

from stoker.domain.secrets import HIDDEN, Secret

CANARY = "canary-9f3b"


def test_no_formatter_shows_the_value() -> None:
    secret = Secret(CANARY)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        "{} {!r}".format(secret, secret),  # noqa: UP032 - one of the ways a value leaks
        f"{[secret]}",
        f"{secret:>9}",
    ]
    assert all(CANARY not in text for text in shown)
    assert str(secret) == HIDDEN


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (b"", True),
        (b"token", True),
        ("größe 3".encode(), True),
        (b"\xff", False),
        (b"a\nb", False),
        (b"a\rb", False),
        (b"a\0b", False),
    ],
)
def test_only_a_line_of_text_can_be_handed_on_in_a_variable(value: bytes, fits: bool) -> None:
    assert Secret(value).is_one_line is fits


def test_no_log_line_or_traceback_shows_the_value(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(CANARY)
    logging.getLogger("test").error("token %s of %r", secret, {"token": secret})
    try:
        raise ValueError(secret)
    except ValueError as error:
        text = "".join(traceback.format_exception(error))
    assert CANARY not in caplog.text
    assert CANARY not in text


@pytest.mark.parametrize(
    "leak", [json.dumps, msgspec.json.encode, pickle.dumps, copy.deepcopy, copy.copy, vars, hash]
)
def test_nothing_serializes_or_copies_it(leak) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError):
        leak(Secret(CANARY))


def test_the_one_way_in_is_named() -> None:
    assert Secret(CANARY).reveal() == CANARY
    assert Secret(b"\xff\x00").reveal_bytes() == b"\xff\x00"


def test_equality_is_by_value_and_only_with_another_secret() -> None:
    assert Secret("a") == Secret(b"a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    for part in ("ab", "bc", ""):
        assert Secret("abc") != Secret(part)
        assert Secret(part) != Secret("abc")


def test_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("x")
