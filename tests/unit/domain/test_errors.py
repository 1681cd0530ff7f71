"""An error carries its reason and what it asks of the loop."""

import re

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled, StokerError, Wait
from stoker.domain.reasons import ConditionType, Reason


def test_an_error_says_its_sentence_and_its_reason() -> None:
    error = Stalled("the source is empty", reason=Reason.SOURCE_EMPTY)
    assert str(error) == error.message == "the source is empty"
    assert error.reason is Reason.SOURCE_EMPTY


@pytest.mark.parametrize("kind", [StokerError, Stalled, InvalidValue, Misconfigured, Retry])
def test_each_error_has_a_reason_of_its_own(kind: type[StokerError]) -> None:
    assert kind("x").reason is kind.default_reason


def test_waiting_and_retrying_say_when_to_come_back() -> None:
    assert Wait("x", after=5).after == 5
    assert Retry("x").after is None
    assert Retry("x", after=2).after == 2


@pytest.mark.parametrize("word", [*Reason, *ConditionType])
def test_every_reason_is_a_word_that_the_api_accepts(word: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", word)
    assert word[0].isupper()
