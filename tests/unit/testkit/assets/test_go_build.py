"""Building the binaries, with a fake Go compiler."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stoker.domain.errors import Stalled
from stoker_testkit.assets.ensure_binaries import ALL, ensure
from stoker_testkit.assets.go_build import build

COMPILER = """#!/bin/sh
PATH=/usr/bin:/bin
if [ "$1" = version ]; then echo go version go1.26.8 linux/amd64; exit; fi
test -s go.mod && test -s go.sum || exit 7
echo "$CGO_ENABLED $@" >> "$RECORD"
case "$@" in *"$BROKEN") echo "undefined: something" >&2; exit 1;; esac
while [ "$1" != -o ]; do shift; done
echo made > "$2" && chmod 755 "$2"
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the compiler notes how it was called; it is all there is on PATH."""
    go = tmp_path / "path" / "go"
    go.parent.mkdir()
    go.write_text(COMPILER)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("BROKEN", "nothing")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "record"


def test_builds_what_is_missing_once_and_says_how_far_it_is(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ensure(ALL)
    assert all(os.access(folder / name, os.X_OK) for name in ALL)
    assert {path.name for path in folder.iterdir()} == {*ALL, ".lock"}  # and no scraps
    printed = capsys.readouterr().err
    listed = "etcd, kube-apiserver, kubectl, kube-controller-manager"
    assert printed.startswith(f"building {listed} once for this machine: about 7 min on two cores\n")
    for number, name in enumerate(ALL, start=1):
        assert f"[{number}/4] building {name} v" in printed
    assert ensure(ALL) == folder
    calls = record.read_text().splitlines()
    assert len(calls) == 4
    assert all(call.startswith("0 build -mod=readonly -trimpath -ldflags -s -w") for call in calls)


def test_a_build_that_fails_quotes_the_compiler_and_leaves_nothing(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "cmd/kube-apiserver")
    with pytest.raises(Stalled, match=r"kube-apiserver v\S+ could not be built: undefined: something"):
        build(ALL, tmp_path)
    assert (tmp_path / "etcd").exists()
    assert not (tmp_path / "kube-apiserver").exists()
    assert record.exists()


def test_two_at_once_build_each_binary_once(record: Path, tmp_path: Path) -> None:
    builders = [threading.Thread(target=build, args=(ALL, tmp_path)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert len(record.read_text().splitlines()) == 4
