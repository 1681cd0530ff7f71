"""Fetching CRDs of other projects, with a fake Go client."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

import pytest

from stoker.domain.errors import Stalled
from stoker_testkit.assets.third_party_crds import FILES, LARGEST, ensure, pinned

# It has every module, with the files that are asked for and others, and says the digest that is pinned.
CLIENT = """#!/bin/sh
PATH=/usr/bin:/bin
if [ "$1" = version ]; then echo go version go1.26.8 linux/amd64; exit; fi
module=${4%@*}
echo "$4" >> "$RECORD"
if [ "$module" = "$BROKEN" ]; then echo '{"Error": "403 Forbidden"}'; exit 1; fi
sum=$(grep "^$module ${4#*@} " go.sum | cut -d' ' -f3)
if [ "$module" = "$FORGED" ]; then sum=h1:another; fi
mkdir -p "$GOMODCACHE/$module"
cp -r "$CONTENT/$module/." "$GOMODCACHE/$module"
printf '{"Dir": "%s", "Sum": "%s"}\\n' "$GOMODCACHE/$module" "$sum"
"""
FLUX = "github.com/fluxcd/source-controller"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the client notes what it was asked for; it is all there is on PATH."""
    for module, files in FILES.items():
        for file in (*files, "main.go"):
            path = tmp_path / "content" / module / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"module": module, "file": file}))
    go = tmp_path / "path" / "go"
    go.parent.mkdir()
    go.write_text(CLIENT)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CONTENT", str(tmp_path / "content"))
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("BROKEN", "none")
    monkeypatch.setenv("FORGED", "none")
    return tmp_path / "record"


def names() -> set[str]:
    return {PurePosixPath(file).name for files in FILES.values() for file in files}


def test_keeps_the_files_that_are_wanted_and_asks_once(record: Path) -> None:
    folder = ensure()
    assert {path.name for path in folder.iterdir()} == {*names(), ".lock"}  # and no scraps
    assert ensure() == folder
    assert len(record.read_text().splitlines()) == len(FILES)
    (folder / PurePosixPath(FILES[FLUX][0]).name).unlink()
    ensure()
    assert record.read_text().splitlines()[-1] == f"{FLUX}@{pinned(FLUX)[0]}"
    assert len(record.read_text().splitlines()) == len(FILES) + 1


@pytest.mark.parametrize(
    ("variable", "message"), [("BROKEN", "403 Forbidden"), ("FORGED", "its digest is not the pinned one")]
)
def test_what_cannot_be_had_as_pinned_is_refused(
    record: Path, monkeypatch: pytest.MonkeyPatch, variable: str, message: str
) -> None:
    monkeypatch.setenv(variable, FLUX)
    with pytest.raises(Stalled, match=rf"{FLUX} v\S+ could not be downloaded: {message}"):
        ensure()
    kept = {path.name for path in record.parent.glob("cache/stoker/tools/*/*")}
    assert not kept & {PurePosixPath(file).name for file in FILES[FLUX]}
    assert not [name for name in kept if name.startswith(".fetch")]


def test_a_file_that_is_no_definition_by_its_size_is_refused(record: Path) -> None:
    content = record.parent / "content" / FLUX / FILES[FLUX][0]
    os.truncate(content, LARGEST + 1)
    with pytest.raises(Stalled, match="larger than any definition"):
        ensure()


def test_every_module_is_pinned_once() -> None:
    assert all(pinned(module)[1].startswith("h1:") for module in FILES)
