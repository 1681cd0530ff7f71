"""The ledger survives, or counts as absent; one pass at a time gets in."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import Retry, Stalled, Wait
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Ledger
from stoker.engine.objects import FileVersion, blob_of
from stoker.fs.confined import DataFolder
from stoker.fs.ledger import MANIFEST, load, locked, save

LEDGER = Ledger(
    files={
        RelPath("d/Línea 1"): FileVersion(blob_of(b"1")),
        RelPath("d/run"): FileVersion(blob_of(b"2"), True),
    },
    intended={RelPath("d/new"): FileVersion(blob_of(b"3", digits=64))},
    mappings=frozenset({"s -> d"}),
    folders=frozenset({RelPath("d")}),
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    with DataFolder.opened(tmp_path) as opened:
        yield opened


def test_a_folder_without_one_is_first_contact(folder: DataFolder) -> None:
    assert load(folder).ledger is None
    assert load(folder).trouble == ()


def test_what_was_saved_is_loaded(folder: DataFolder, tmp_path: Path) -> None:
    save(folder, Ledger())
    save(folder, LEDGER)
    assert load(folder).ledger == LEDGER
    assert sorted(path.name for path in (tmp_path / ".sync-state").iterdir()) == ["manifest"]
    assert stat.S_IMODE((tmp_path / ".sync-state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / MANIFEST).stat().st_mode) == 0o600


def test_what_a_killed_pass_left_of_a_new_one_is_overwritten(folder: DataFolder, tmp_path: Path) -> None:
    save(folder, LEDGER)
    (tmp_path / ".sync-state/manifest.new").write_text("{half")
    assert load(folder).ledger == LEDGER
    save(folder, Ledger())
    assert load(folder).ledger == Ledger()


def tampered(**changes: object) -> str:
    files = {"d/a": [blob_of(b"1"), "644"]}
    whole: dict[str, object] = {"format": 1, "files": files, "intended": {}, "mappings": [], "folders": []}
    return json.dumps(whole | changes)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        "[" * 100_000,
        tampered(files=[]),
        tampered(files={"../../etc/passwd": [blob_of(b"1"), "644"]}),
        tampered(files={"/etc/passwd": [blob_of(b"1"), "644"]}),
        tampered(files={"d/a": ["nonsense", "644"]}),
        tampered(files={"d/a": [blob_of(b"1")]}),
        tampered(folders=["../.."]),
        tampered(mappings={"a": 1}),
    ],
)
def test_one_that_cannot_be_read_counts_as_first_contact_and_is_named(
    folder: DataFolder, tmp_path: Path, content: str
) -> None:
    save(folder, LEDGER)
    (tmp_path / MANIFEST).write_text(content)
    found = load(folder)
    assert found.ledger is None
    assert [note.path for note in found.trouble] == [".sync-state/manifest"]


def test_the_untampered_form_of_those_is_read(folder: DataFolder, tmp_path: Path) -> None:
    save(folder, LEDGER)
    (tmp_path / MANIFEST).write_text(tampered())
    assert load(folder).ledger == Ledger(files={RelPath("d/a"): FileVersion(blob_of(b"1"))})


def test_one_of_a_later_version_stops_the_pass(folder: DataFolder, tmp_path: Path) -> None:
    save(folder, LEDGER)
    (tmp_path / MANIFEST).write_text(tampered(format=2))
    with pytest.raises(Stalled, match="format 2"):
        load(folder)


def test_a_symlink_in_its_place_is_not_followed(folder: DataFolder, tmp_path: Path) -> None:
    save(folder, LEDGER)
    outside = tmp_path / "outside"
    (tmp_path / MANIFEST).rename(outside)
    (tmp_path / MANIFEST).symlink_to(outside)
    with pytest.raises(Retry, match="symlink") as failed:
        load(folder)
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED


def test_a_symlink_in_the_place_of_its_folder_is_not_followed(folder: DataFolder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / ".sync-state").symlink_to(tmp_path / "outside")
    with pytest.raises(Retry, match="symlink"):
        save(folder, LEDGER)
    with pytest.raises(Retry, match="symlink"), locked(folder):
        pass
    assert list((tmp_path / "outside").iterdir()) == []


def test_one_pass_at_a_time(folder: DataFolder) -> None:
    with locked(folder):
        with pytest.raises(Wait, match="another sync") as waiting, locked(folder):
            pass
        assert waiting.value.reason is Reason.SYNC_IN_PROGRESS
    with locked(folder):
        assert load(folder).ledger is None
