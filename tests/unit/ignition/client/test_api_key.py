"""A key that no gateway would take is refused in words before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.reasons import Reason
from stoker.ignition.client.api_key import api_key_file


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"hunter2", "name:secret"),
        (b":hunter2", "name:secret"),
        (b"stoker:", "name:secret"),
        (b"Bearer stoker:hunter2", "begins with 'Bearer'"),
        (b"stoker:hunter2\nother:line", "line breaks"),
        (b"stoker:hun\0ter2", "characters that no key has"),
        (b"stoker:hunter2\xff", "characters that no key has"),
        (b"stoker:" + b"x" * 9000, "larger than any key"),
    ],
)
def test_a_malformed_key_is_named_and_not_shown(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(InvalidValue, match=words) as refused:
        api_key_file(file)()
    assert refused.value.reason is Reason.TOKEN_MALFORMED
    assert "hunter2" not in refused.value.message


def test_a_key_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("stoker:old\n")
    read = api_key_file(file)
    assert read().reveal() == "stoker:old"
    file.write_text("stoker:new:with:colons\n")
    assert read().reveal() == "stoker:new:with:colons"


def test_a_missing_file_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: No such file"):
        api_key_file(tmp_path / "key")()
