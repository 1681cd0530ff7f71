"""The search for secrets finds them in whatever form, and on the command line of who shows one."""

from __future__ import annotations

import base64
import gzip
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.secret_leaks.canary_tokens import Canaries, CommandLineSearch
from stoker_testkit.wait_until import eventually

VALUE = "p4ss/w+rd & more: ü-0123456789"
PEM = f"-----BEGIN PRIVATE KEY-----\n{'Ab1/' * 16}\n{'Cd2+' * 16}\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def canaries() -> Canaries:
    made = Canaries()
    made.add("password", VALUE)
    made.add("key", PEM)
    return made


@pytest.mark.parametrize(
    "shown",
    [
        VALUE,
        quote(VALUE),
        quote(VALUE, safe=""),
        VALUE.encode().hex(),
        *(base64.b64encode(f"{'u' * before}:{VALUE}!".encode()).decode() for before in range(6)),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
        VALUE.replace("ü", "\\u00fc"),
    ],
)
def test_a_value_is_found_in_every_form(canaries: Canaries, shown: str) -> None:
    assert canaries.in_text("a log", f'{{"message": "it said {shown} to us"}}') == ["password in a log"]


def test_a_line_of_a_key_is_enough(canaries: Canaries) -> None:
    assert canaries.in_text("an event", "Cd2+" * 16) == ["key in an event"]
    assert canaries.in_text("an event", "-----BEGIN PRIVATE KEY-----") == []


def test_what_is_packed_in_a_repository_or_an_archive_is_found(canaries: Canaries, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "plant.git")
    repository.commit({"a": f"password: {VALUE}"})
    repository.commit({"a": "taken away again"}, message="nothing here")
    (tmp_path / "log.gz").write_bytes(gzip.compress(VALUE.encode()))
    (tmp_path / base64.b64encode(VALUE.encode()).decode().replace("/", "_")).touch()
    found = canaries.in_folder(tmp_path)
    assert any("an object of" in one for one in found)
    assert any("unpacked" in one for one in found)
    assert any("a file name" in one for one in found)
    assert not [one for one in found if VALUE in one], "a finding names the credential"


def test_of_secrets_only_the_data_may_hold_one(canaries: Canaries) -> None:
    data = {"password": base64.b64encode(VALUE.encode()).decode()}
    fine = {"items": [{"kind": "Secret", "metadata": {"name": "git"}, "data": data}]}
    assert canaries.in_objects("the API", fine) == []
    noted = {"kind": "Secret", "metadata": {"annotations": {"last-applied": VALUE}}, "data": data}
    assert canaries.in_objects("the API", noted) == ["password in the API"]
    assert canaries.in_objects("the API", {"kind": "ConfigMap", "data": data}) == ["password in the API"]


def test_a_command_line_that_shows_one_is_seen(canaries: Canaries) -> None:
    password = canaries.make("shown")
    command = [sys.executable, "-c", "input()", password]
    with CommandLineSearch(canaries) as lines, subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        eventually(lines.found, 10, "it to be seen")
        process.communicate(b"\n")
    assert len(lines.found()) == 1
    assert lines.found()[0].startswith("shown in the command line of ")


def test_what_would_be_found_by_chance_is_no_canary() -> None:
    with pytest.raises(ValueError, match="so short"):
        Canaries().add("pin", "1234")
