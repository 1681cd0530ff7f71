"""Drift: changes by others, and what only looks like one."""

import pytest

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.engine.plan.drift import FolderDrift, find_drift
from stoker.engine.plan.ledger import STAT, Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind

OURS = FileVersion(blob_of(b"ours"))
THEIRS = FileVersion(blob_of(b"by hand"))
FOLDER = LiveEntry(LiveKind.FOLDER)
SYMLINK = LiveEntry(LiveKind.SYMLINK)
STRANGER = LiveEntry(LiveKind.FILE)
MIRRORED = frozenset({"d"})


def wrote(*paths: str, **more: object) -> Ledger:
    facts = {"folders": MIRRORED, "mirrored": MIRRORED, **more}
    return Ledger(dict.fromkeys(paths, encode_record(OURS)), **facts)  # type: ignore[arg-type]


def found(ledger: Ledger, **entries: LiveEntry | None) -> FolderDrift:
    return find_drift(
        ledger, LiveDifferences({f"d/{name}": entry for name, entry in entries.items()}, walked=True)
    )


@pytest.mark.parametrize(
    "became",
    [
        LiveEntry(LiveKind.FILE, THEIRS),
        LiveEntry(LiveKind.FILE, FileVersion(OURS.blob, executable=True)),
        LiveEntry(LiveKind.FILE),
        SYMLINK,
        FOLDER,
    ],
    ids=["edited", "executable", "unreadable", "symlink", "folder"],
)
def test_our_file_that_became_something_else_is_modified(became: LiveEntry) -> None:
    assert found(wrote("d/a", "d/b"), a=became) == FolderDrift(modified=("d/a",))


def test_our_file_that_is_gone_is_missing() -> None:
    assert found(wrote("d/a", "d/b"), b=None) == FolderDrift(missing=("d/b",))


def test_a_file_that_was_only_touched_is_no_drift() -> None:
    touched = LiveEntry(LiveKind.FILE, OURS, STAT.pack(9, 9, 9, 9, 0))
    assert not found(wrote("d/a"), a=touched)


def test_what_was_excluded_since_it_was_written_is_no_drift() -> None:
    ledger = wrote("d/a", "d/b", "d/c", excludes=frozenset({"d/a", "d/b", "d/x"}))
    edited = LiveEntry(LiveKind.FILE, THEIRS)
    assert found(ledger, a=edited, b=None, c=edited, x=STRANGER) == FolderDrift(modified=("d/c",))


@pytest.mark.parametrize("stranger", [STRANGER, SYMLINK])
def test_a_file_of_others_is_extra_in_a_managed_folder(stranger: LiveEntry) -> None:
    assert found(wrote("d/a"), x=stranger) == FolderDrift(extra=("d/x",))
    assert found(wrote("d/a", mirrored=frozenset()), x=stranger) == FolderDrift(extra=("d/x",)), (
        "also if it stays"
    )
    assert not found(wrote("d/a", folders=frozenset({"e"}), mirrored=frozenset({"e"})), x=stranger)


def test_a_folder_and_what_is_not_there_are_not_extra() -> None:
    assert not found(wrote("d/a"), x=FOLDER, y=None)


def test_files_from_before_the_first_sync_or_intended_writes_are_not_extra() -> None:
    ledger = wrote("d/a", kept=frozenset({"d/before"}), intended={"d/begun": OURS})
    assert found(ledger, before=STRANGER, begun=STRANGER, new=STRANGER) == FolderDrift(extra=("d/new",))


def test_an_api_key_and_the_gateways_own_places_are_not_extra() -> None:
    ours = frozenset({"config", ".sync-state"})
    ledger = wrote("config/a", folders=ours, mirrored=ours)
    paths = ("config/resources/core/ignition/api-token/new/config.json", "config/local/x", ".sync-state/x")
    assert not find_drift(ledger, LiveDifferences(dict.fromkeys(paths, STRANGER), walked=True))


def test_drift_is_reported_in_order_and_by_kind() -> None:
    edited = LiveEntry(LiveKind.FILE, THEIRS)
    result = found(wrote("d/a", "d/b", "d/c"), z=STRANGER, y=STRANGER, b=edited, a=edited, c=None)
    assert result.kinds == {"modified": ("d/a", "d/b"), "missing": ("d/c",), "extra": ("d/y", "d/z")}
    assert result
    assert not find_drift(wrote("d/a"), LiveDifferences(walked=True))
