"""The token of a standalone dashboard is written only where no other user reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.dashboard.standalone.token_check import TOKEN_FILE, LocalToken
from stoker.domain.errors import Misconfigured


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / ".sync-state"
    folder.mkdir(mode=0o700)
    return folder


def test_a_file_that_another_user_prepared_does_not_get_the_token(state: Path) -> None:
    prepared = state / f"{TOKEN_FILE}.new"
    prepared.write_bytes(b"")
    prepared.chmod(0o666)
    with prepared.open("rb") as spy:
        token = LocalToken(state)
        token.write()
        assert spy.read() == b"", "a descriptor that was open before sees nothing"
    assert token.file.read_bytes().strip() == token.value.reveal_bytes()
    assert token.file.stat().st_mode & 0o777 == 0o600
    assert token.file.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770])
def test_a_folder_that_others_read_gets_no_token(state: Path, mode: int) -> None:
    state.chmod(mode)
    with pytest.raises(Misconfigured, match="owned or can be read by another user"):
        LocalToken(state).write()
    assert not (state / TOKEN_FILE).exists()


def test_a_folder_of_the_gateways_user_gets_no_token(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only root could give the folder to another user; so the process runs as another user than its owner.
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 1)
    with pytest.raises(Misconfigured, match="owned or can be read by another user"):
        LocalToken(state).write()
    assert not (state / TOKEN_FILE).exists()


def test_the_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    token = LocalToken(tmp_path / ".sync-state")
    token.write()
    assert (tmp_path / ".sync-state").stat().st_mode & 0o777 == 0o700
