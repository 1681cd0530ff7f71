"""What a forge answers becomes one sentence, in which no token is left, however it is cut."""

from __future__ import annotations

import json

import pytest

from stoker.domain.secrets import Secret
from stoker.forges.errors import LONGEST_QUOTE, words

TOKEN = "glpat-" + "0123456789abcdef" * 2


@pytest.mark.parametrize("before", [LONGEST_QUOTE - 20, 4 * LONGEST_QUOTE - 20])
def test_a_token_that_a_cut_goes_through_leaves_no_part(before: int) -> None:
    body = json.dumps({"message": "x" * before + TOKEN + "y" * 2000}).encode()
    assert TOKEN[:8] not in words(body, Secret(TOKEN))


def test_a_token_that_is_repeated_is_hidden_to_its_last_occurrence() -> None:
    body = json.dumps({"message": (TOKEN + " ") * 500}).encode()
    assert TOKEN[:4] not in words(body, Secret(TOKEN))
