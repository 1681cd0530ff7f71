"""The ledger survives, or counts as absent; one pass at a time gets in."""

from __future__ import annotations

import json
import os
import random
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.errors import Retry, Stalled, Wait
from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import STAT, Ledger, encode_record
from stoker.engine.plan.plan import LedgerFacts
from stoker.fs import journal
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import JOURNAL, MANIFEST, SMALL, LedgerStore, lock_folder
from stoker.fs.stat_stamp import unseen_stamp

ONE, TWO, THREE = (FileVersion(blob_of(content)) for content in (b"1", b"2", b"3"))
RUN = FileVersion(blob_of(b"2", digits=64), True)
SEEN = STAT.pack(1, 2, 3, 4, 0)
FILES = {"d/Línea 1": encode_record(ONE, SEEN), "d/run": encode_record(RUN, STAT.pack(1, 2, 3, 4, 1))}
FACTS = LedgerFacts(
    commit="c" * 40,
    settings="s",
    mappings=frozenset({"s -> d"}),
    folders=frozenset({"d"}),
    kept=frozenset({"d/theirs"}),
    excludes=frozenset({"**/*.bak"}),
    mirrored=frozenset({"d"}),
    given=frozenset({"0:d/ 2"}),
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    with DataFolder.opened(tmp_path) as opened:
        yield opened


@pytest.fixture
def book(folder: DataFolder) -> LedgerStore:
    """A ledger with two files."""
    book = LedgerStore.load(folder)
    book.settle(folder, FILES, (), FACTS, complete=True)
    return book


def known(folder: DataFolder) -> Ledger:
    ledger = LedgerStore.load(folder).ledger
    assert ledger is not None
    return ledger


def sizes(place: Path) -> tuple[int, int]:
    return (place / MANIFEST).stat().st_size, (place / JOURNAL).stat().st_size


def records(**versions: FileVersion) -> dict[str, bytes]:
    return {
        path.replace("__", "/"): encode_record(version, unseen_stamp(version.executable))
        for path, version in versions.items()
    }


def test_a_folder_without_one_is_first_contact(folder: DataFolder, tmp_path: Path) -> None:
    book = LedgerStore.load(folder)
    assert book.ledger is None
    assert book.trouble == ()
    assert book.unchanged_on_disk(folder)
    assert list(tmp_path.iterdir()) == []


def test_what_was_settled_is_loaded(folder: DataFolder, tmp_path: Path, book: LedgerStore) -> None:
    ledger = known(folder)
    assert ledger == book.ledger
    assert ledger.files == FILES
    assert ledger.version("d/run") == RUN
    facts = {name: getattr(ledger, name) for name in LedgerFacts.__dataclass_fields__}
    assert LedgerFacts(**facts) == FACTS
    assert ledger.complete
    assert sorted(path.name for path in (tmp_path / ".sync-state").iterdir()) == ["manifest"]
    assert stat.S_IMODE((tmp_path / ".sync-state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / MANIFEST).stat().st_mode) == 0o600


def test_changes_are_added_to_the_journal(folder: DataFolder, tmp_path: Path, book: LedgerStore) -> None:
    manifest = (tmp_path / MANIFEST).stat()
    new = {"d/new": encode_record(THREE, SEEN)}
    book.settle(folder, new, ["d/run", "never/heard"], FACTS, complete=False)
    ledger = known(folder)
    assert ledger == book.ledger
    assert ledger.files == {"d/Línea 1": FILES["d/Línea 1"]} | new
    assert not ledger.complete
    assert (tmp_path / MANIFEST).stat().st_ino == manifest.st_ino
    assert stat.S_IMODE((tmp_path / JOURNAL).stat().st_mode) == 0o600
    assert (tmp_path / JOURNAL).stat().st_size < 300


def test_the_files_of_a_ledger_go_on_with_the_book(folder: DataFolder, book: LedgerStore) -> None:
    before = book.ledger
    assert before is not None
    book.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    assert "d/new" in before.files
    assert book.ledger is not None
    assert book.ledger.files is before.files


def test_an_intention_is_kept_until_it_is_settled(folder: DataFolder, book: LedgerStore) -> None:
    after = LedgerFacts(commit="new", mappings=frozenset({"t -> e"}), folders=frozenset({"e"}))
    book.intend(folder, records(e__a=ONE, e__b=RUN), after)
    ledger = known(folder)
    assert ledger == book.ledger
    assert ledger.intended == {"e/a": ONE, "e/b": RUN}
    assert ledger.files == FILES
    assert not ledger.complete
    # Until all is done the old facts count, and so do the new ones.
    assert ledger.folders == {"d", "e"}
    assert ledger.kept == {"d/theirs"}
    assert ledger.mappings == {"s -> d", "t -> e"}
    assert ledger.commit == FACTS.commit
    book.settle(folder, {"e/a": encode_record(ONE)}, (), after, complete=False, done=False)
    ledger = known(folder)
    assert ledger == book.ledger
    assert ledger.intended == {"e/b": RUN}
    assert ledger.commit == FACTS.commit
    assert ledger.folders == {"d", "e"}
    book.settle(folder, {"e/b": encode_record(RUN)}, FILES, after, complete=True)
    ledger = known(folder)
    assert not ledger.intended
    assert ledger.commit == "new"
    assert ledger.folders == {"e"}
    assert not ledger.kept


@pytest.mark.parametrize("step", ["intended", "failed in part"])
def test_a_folder_in_which_a_sync_began_to_allow_foreign_files_is_not_mirrored(
    folder: DataFolder, book: LedgerStore, step: str
) -> None:
    assert known(folder).mirrors("d/new")
    welcoming = replace(FACTS, mirrored=frozenset())
    if step == "intended":
        book.intend(folder, records(d__a=ONE), welcoming)
    else:
        book.settle(folder, {}, (), welcoming, complete=False, done=False)
    assert not known(folder).mirrors("d/new")
    book.settle(folder, {}, (), FACTS, complete=False, done=False)
    assert not known(folder).mirrors("d/new"), "until a pass has looked who came meanwhile"
    book.settle(folder, {}, (), FACTS, complete=True)
    assert known(folder).mirrors("d/new")


def test_on_first_contact_the_strangers_are_known_before_the_first_change(folder: DataFolder) -> None:
    book = LedgerStore.load(folder)
    book.intend(folder, records(d__a=ONE), FACTS)
    assert known(folder).kept == {"d/theirs"}


def test_nothing_is_written_when_nothing_changed(
    folder: DataFolder, tmp_path: Path, book: LedgerStore
) -> None:
    before = {path: path.stat() for path in (tmp_path / ".sync-state").iterdir()}
    book.settle(folder, FILES, ["never/heard"], FACTS, complete=True)
    book.settle(folder, {}, (), FACTS, complete=True)
    after = {path: path.stat() for path in (tmp_path / ".sync-state").iterdir()}
    assert {path: found.st_mtime_ns for path, found in after.items()} == {
        path: found.st_mtime_ns for path, found in before.items()
    }


def test_newer_stat_data_alone_rides_with_the_next_change(
    folder: DataFolder, tmp_path: Path, book: LedgerStore
) -> None:
    newer = encode_record(ONE, STAT.pack(1, 2, 99, 4, 0))
    book.settle(folder, {"d/Línea 1": newer}, (), FACTS, complete=True)
    assert not (tmp_path / JOURNAL).exists()
    assert book.ledger is not None
    assert book.ledger.files["d/Línea 1"] == newer
    assert known(folder).files == FILES
    book.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    assert known(folder).files["d/Línea 1"] == newer


@pytest.mark.parametrize(
    "kept", [encode_record(TWO, SEEN), encode_record(FileVersion(ONE.blob, True), STAT.pack(1, 2, 3, 4, 1))]
)
def test_another_version_is_written_at_once(folder: DataFolder, book: LedgerStore, kept: bytes) -> None:
    book.settle(folder, {"d/Línea 1": kept}, (), FACTS, complete=True)
    assert known(folder).files["d/Línea 1"] == kept


def test_a_path_that_is_gone_and_written_again_is_there(folder: DataFolder, book: LedgerStore) -> None:
    book.settle(folder, {"d/run": FILES["d/run"]}, ["d/run"], FACTS, complete=False)
    assert known(folder).files == FILES


def test_a_long_journal_becomes_a_new_manifest(folder: DataFolder, tmp_path: Path, book: LedgerStore) -> None:
    first = (tmp_path / MANIFEST).stat().st_ino
    turns = 0
    while (tmp_path / MANIFEST).stat().st_ino == first:
        kept = encode_record(FileVersion(blob_of(b"%d" % turns)))
        book.settle(folder, {f"d/{turns}/{n}": kept for n in range(200)}, (), FACTS, complete=True)
        assert not (tmp_path / JOURNAL).exists() or (tmp_path / JOURNAL).stat().st_size <= SMALL
        turns += 1
    assert turns > 5
    assert not (tmp_path / JOURNAL).exists()
    assert known(folder) == book.ledger
    # From now on half of the manifest is what the journal may be.
    base = (tmp_path / MANIFEST).stat().st_size
    assert base > SMALL
    book.settle(folder, {}, ["d/1/1"], FACTS, complete=True)
    assert sizes(tmp_path)[1] < 200
    assert known(folder) == book.ledger


def test_a_large_first_sync_is_one_manifest(folder: DataFolder, tmp_path: Path) -> None:
    book = LedgerStore.load(folder)
    book.intend(folder, {f"d/{n}": encode_record(ONE) for n in range(10_000)}, FACTS)
    book.settle(folder, {f"d/{n}": encode_record(ONE) for n in range(10_000)}, (), FACTS, complete=True)
    assert not (tmp_path / JOURNAL).exists()
    assert known(folder) == book.ledger
    assert not known(folder).intended


def test_what_another_process_wrote_is_noticed(folder: DataFolder, book: LedgerStore) -> None:
    assert book.unchanged_on_disk(folder)
    other = LedgerStore.load(folder)
    other.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    assert other.unchanged_on_disk(folder)
    assert not book.unchanged_on_disk(folder)
    with pytest.raises(Retry, match="another process"):
        book.settle(folder, {"d/x": encode_record(ONE)}, (), FACTS, complete=True)
    assert known(folder) == other.ledger
    with pytest.raises(Retry):  # and it does not forget that
        book.settle(folder, {"d/x": encode_record(ONE)}, (), FACTS, complete=True)


def test_a_ledger_that_vanished_is_noticed(folder: DataFolder, tmp_path: Path, book: LedgerStore) -> None:
    for path in (tmp_path / ".sync-state").iterdir():
        path.unlink()
    assert not book.unchanged_on_disk(folder)
    (tmp_path / ".sync-state").rmdir()
    assert not book.unchanged_on_disk(folder)


def test_what_a_killed_sync_left_of_a_new_manifest_is_overwritten(folder: DataFolder, tmp_path: Path) -> None:
    (tmp_path / ".sync-state").mkdir()
    (tmp_path / ".sync-state/manifest.new").write_text("half")
    book = LedgerStore.load(folder)
    book.settle(folder, FILES, (), FACTS, complete=True)
    assert known(folder).files == FILES
    assert not (tmp_path / ".sync-state/manifest.new").exists()


def test_a_torn_tail_is_cut_off_and_then_nothing_is_taken_for_granted(
    folder: DataFolder, tmp_path: Path, book: LedgerStore
) -> None:
    book.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    whole = (tmp_path / JOURNAL).read_bytes()
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b"torn" * 1000)  # more than the next change needs
    torn = LedgerStore.load(folder)
    assert torn.ledger is not None
    assert torn.ledger.files == FILES | {"d/new": encode_record(THREE)}
    assert not torn.ledger.complete
    torn.settle(folder, {"d/x": encode_record(ONE)}, (), FACTS, complete=True)
    assert (tmp_path / JOURNAL).read_bytes().startswith(whole)
    assert known(folder) == torn.ledger
    assert known(folder).complete


def test_the_journal_of_another_manifest_is_ignored(
    folder: DataFolder, tmp_path: Path, book: LedgerStore
) -> None:
    book.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    other = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / MANIFEST).unlink()
    again = LedgerStore.load(folder)
    assert again.ledger is None
    again.settle(folder, FILES, (), FACTS, complete=True)
    (tmp_path / JOURNAL).write_bytes(other)
    found = LedgerStore.load(folder)
    assert found.ledger is not None
    assert found.ledger.files == FILES
    assert not found.ledger.complete
    found.settle(folder, {"d/x": encode_record(ONE)}, (), FACTS, complete=True)
    assert known(folder).files == FILES | {"d/x": encode_record(ONE)}


OLD = json.dumps({"format": 1, "files": {"d/a": [blob_of(b"1"), "644"]}, "intended": {}, "mappings": []})


@pytest.mark.parametrize("content", [b"", b"{", b"\x80", OLD.encode(), b"[" * 100_000, os.urandom(5000)])
def test_one_that_cannot_be_read_counts_as_first_contact_and_is_named(
    folder: DataFolder, tmp_path: Path, book: LedgerStore, content: bytes
) -> None:
    book.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    (tmp_path / MANIFEST).write_bytes(content)
    found = LedgerStore.load(folder)
    assert found.ledger is None
    assert [note.path for note in found.trouble] == [".sync-state/manifest"]
    assert found.unchanged_on_disk(folder)
    found.settle(folder, {"d/x": encode_record(ONE)}, (), FACTS, complete=True)
    assert known(folder).files == {"d/x": encode_record(ONE)}


def test_one_that_is_larger_than_any_is_not_read(
    folder: DataFolder, tmp_path: Path, book: LedgerStore
) -> None:
    os.truncate(tmp_path / MANIFEST, 1 << 40)
    assert LedgerStore.load(folder).ledger is None


def test_a_ledger_of_a_later_version_stops_the_sync(
    folder: DataFolder, tmp_path: Path, book: LedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FORMAT", 3)
    (tmp_path / MANIFEST).write_bytes(b"".join(journal.encode_base(b"g" * 16, journal.LedgerChange({}))))
    monkeypatch.undo()
    with pytest.raises(Stalled, match="format 3"):
        LedgerStore.load(folder)


@pytest.mark.parametrize("name", [MANIFEST, JOURNAL])
def test_a_symlink_in_its_place_is_not_followed(
    folder: DataFolder, tmp_path: Path, book: LedgerStore, name: str
) -> None:
    book.settle(folder, {"d/new": encode_record(THREE)}, (), FACTS, complete=True)
    outside = tmp_path / "outside"
    (tmp_path / name).rename(outside)
    (tmp_path / name).symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(Retry, match="symlink") as failed:
        LedgerStore.load(folder)
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    with pytest.raises(Retry):
        book.settle(folder, {"d/x": encode_record(ONE)}, (), FACTS, complete=True)
    assert outside.read_bytes() == before


def test_a_symlink_in_the_place_of_its_folder_is_not_followed(folder: DataFolder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / ".sync-state").symlink_to(tmp_path / "outside")
    with pytest.raises(Retry, match="symlink"):
        LedgerStore.load(folder)
    with pytest.raises(Retry, match="symlink"):
        LedgerStore().settle(folder, FILES, (), FACTS, complete=True)
    with pytest.raises(Retry, match="symlink"), lock_folder(folder):
        pass
    assert list((tmp_path / "outside").iterdir()) == []


def test_one_sync_at_a_time(folder: DataFolder) -> None:
    with lock_folder(folder):
        with pytest.raises(Wait, match="another sync") as waiting, lock_folder(folder):
            pass
        assert waiting.value.reason is Reason.SYNC_IN_PROGRESS
    with lock_folder(folder):
        assert LedgerStore.load(folder).ledger is None


def test_a_state_folder_that_is_open_to_others_is_closed(folder: DataFolder, tmp_path: Path) -> None:
    (tmp_path / ".sync-state").mkdir(mode=0o755)
    with lock_folder(folder):
        assert stat.S_IMODE((tmp_path / ".sync-state").stat().st_mode) == 0o700


PATHS = st.sampled_from([f"d/{n}" for n in range(6)])
STEPS = st.lists(
    st.tuples(
        st.dictionaries(PATHS, st.sampled_from([ONE, TWO, RUN]), max_size=4),
        st.frozensets(PATHS),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 300))
def test_memory_and_disk_always_agree(
    steps: list[tuple[dict[str, FileVersion], frozenset[str], bool]], small: int
) -> None:
    """Whatever is settled in whatever order, and wherever the journal is cut into a new manifest."""
    with (
        tempfile.TemporaryDirectory() as place,
        DataFolder.opened(Path(place)) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("stoker.fs.ledger_store.SMALL", small)
        book = LedgerStore.load(folder)
        model: dict[str, FileVersion] = {}
        for number, (versions, gone, done) in enumerate(steps):
            facts = LedgerFacts(commit=str(number % 3), folders=frozenset({f"f{number % 2}"}))
            kept = {
                path: encode_record(version, unseen_stamp(version.executable))
                for path, version in versions.items()
            }
            if number % 2:
                book.intend(folder, kept, facts)
            book.settle(folder, kept, gone, facts, complete=done, done=done)
            model = {path: v for path, v in model.items() if path not in gone} | versions
            ledger = known(folder)
            assert ledger == book.ledger
            assert {path: ledger.version(path) for path in ledger.files} == model
            assert ledger.complete == done


def test_whatever_happens_to_the_bytes_on_disk_it_loads_or_is_named(
    folder: DataFolder, tmp_path: Path, book: LedgerStore
) -> None:
    """Any bit, any length: no crash, and no path that we did not write."""
    for number in range(4):
        book.intend(folder, {f"d/{number}": encode_record(THREE)}, FACTS)
        book.settle(folder, {f"d/{number}": encode_record(THREE)}, (), FACTS, complete=True)
    paths = {*FILES, *(f"d/{number}" for number in range(4))}
    chance = random.Random(11)  # noqa: S311 - the same damage each time
    for name in (MANIFEST, JOURNAL):
        whole = (tmp_path / name).read_bytes()
        for _ in range(400):
            at, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
            flipped = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
            (tmp_path / name).write_bytes(
                chance.choice([flipped, whole[:at], whole[:at] + chance.randbytes(30)])
            )
            found = LedgerStore.load(folder)
            if name == MANIFEST:
                assert found.trouble
            ledger = found.ledger or Ledger()
            assert ledger.files.keys() <= paths
            assert ledger.intended.keys() <= paths
            assert not ledger.complete or len(ledger.files) < len(paths)
        (tmp_path / name).write_bytes(whole)
    assert known(folder).files.keys() == paths


def test_a_file_that_went_does_not_come_back_with_newer_stat_data(folder: DataFolder) -> None:
    book = LedgerStore.load(folder)
    book.settle(
        folder, {"d/a": encode_record(ONE), "d/b": encode_record(ONE)}, (), LedgerFacts(), complete=True
    )
    newer = encode_record(ONE, SEEN)
    book.settle(
        folder, {"d/a": newer}, (), LedgerFacts(), complete=True
    )  # not written until something changes
    book.settle(folder, {}, ["d/a"], LedgerFacts(), complete=True)
    for known in (book.ledger, LedgerStore.load(folder).ledger):
        assert known is not None
        assert known.files.keys() == {"d/b"}


def test_an_intention_ends_with_its_sync_even_if_nothing_came_of_it(folder: DataFolder) -> None:
    book = LedgerStore.load(folder)
    book.settle(folder, {"d/a": encode_record(ONE)}, (), LedgerFacts(), complete=False)
    book.intend(folder, {"d/b": encode_record(ONE)}, LedgerFacts())
    book.settle(folder, {}, (), LedgerFacts(), complete=False)
    for known in (book.ledger, LedgerStore.load(folder).ledger):
        assert known is not None
        assert known.intended == {}
