"""Answers of a forge are bounded: a tenant names the forge, and one controller reads for all."""

from __future__ import annotations

import msgspec
import pytest

from stoker.forges.detect import ForgeRepository
from stoker.forges.errors import ForgeRefused
from stoker.forges.http import MAX_REPLY, ForgeApi
from stoker.http_client import ServiceResponse
from stoker_testkit.memory_peak import peak_of

FORGE = ForgeApi(ForgeRepository("https://forge.test", "forge.test", "a/b"), {})
BOMB = b'{"errors":[' + b"{}," * (MAX_REPLY // 3 - 10) + b"{}]}"


class _Label(msgspec.Struct):
    name: str = ""


def test_a_refusal_of_very_many_values_is_not_decoded() -> None:
    assert peak_of(lambda: FORGE.refusal(ServiceResponse(422, BOMB))) < 1 << 20


def test_a_list_of_very_many_values_is_not_decoded() -> None:
    body = b"[" + b"{}," * (MAX_REPLY // 3 - 10) + b"{}]"

    def refused() -> None:
        with pytest.raises(ForgeRefused, match="cannot be read"):
            FORGE.read(ServiceResponse(200, body), list[_Label])

    assert peak_of(refused) < 4 * len(body)
