"""Pending gateway work outlives the process, and cannot be falsified."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.ignition.sync.pending_work import STATE_FILE, PendingWork, PendingWorkStore
from stoker.ignition.sync.state_files import StateFiles


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / ".sync-state"


@pytest.fixture
def pending(state: Path) -> PendingWorkStore:
    return PendingWorkStore(StateFiles(state))


ALL_OF_IT = PendingWork(
    scan=False,
    gone=frozenset({"projects/Line 1"}),
    modules=frozenset({"user-lib/modules/x.modl"}),
    quarantined=frozenset({"com.example.sick"}),
    lock_ends=1767225600.5,
)


def test_nothing_is_pending_at_first_and_looking_leaves_no_trace(
    pending: PendingWorkStore, state: Path
) -> None:
    assert pending.owed() is None
    pending.settle()
    assert not state.exists()


def test_pending_work_is_found_by_the_next_process(pending: PendingWorkStore, state: Path) -> None:
    pending.remember(ALL_OF_IT)
    assert PendingWorkStore(StateFiles(state)).owed() == ALL_OF_IT
    assert (state / STATE_FILE).stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in state.iterdir()] == [STATE_FILE]
    pending.settle()
    assert pending.owed() is None


def test_pending_work_adds_up(pending: PendingWorkStore) -> None:
    pending.remember(ALL_OF_IT)
    pending.incur(
        PendingWork(gone=frozenset({"projects/B"}), quarantined=frozenset({"com.example.new"}), lock_ends=1.0)
    )
    assert pending.owed() == PendingWork(
        scan=True,
        gone=frozenset({"projects/Line 1", "projects/B"}),
        modules=ALL_OF_IT.modules,
        quarantined=frozenset({"com.example.sick"}),
        lock_ends=ALL_OF_IT.lock_ends,
    )


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"gone": 7, "lockEnds": "x"}']
)
def test_a_mark_that_cannot_be_read_still_means_a_scan(
    pending: PendingWorkStore, state: Path, content: bytes
) -> None:
    state.mkdir()
    (state / STATE_FILE).write_bytes(content)
    assert pending.owed() == PendingWork()


def test_a_link_in_place_of_the_folder_is_not_followed(
    pending: PendingWorkStore, state: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    state.symlink_to(elsewhere)
    with pytest.raises(Retry) as refused:
        pending.incur()
    assert refused.value.reason is Reason.DATA_VOLUME_FAILED
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_place_of_a_mark_is_not_followed(
    pending: PendingWorkStore, state: Path, tmp_path: Path
) -> None:
    state.mkdir()
    (tmp_path / "precious").write_text("mine")
    (state / f"{STATE_FILE}.new").symlink_to(tmp_path / "precious")
    pending.incur()
    assert (tmp_path / "precious").read_text() == "mine"
    assert (state / STATE_FILE).is_file()
    assert not (state / STATE_FILE).is_symlink()


def test_a_mark_that_is_already_so_is_not_written_again(pending: PendingWorkStore, state: Path) -> None:
    pending.incur()
    before = (state / STATE_FILE).stat().st_ino
    pending.incur()
    assert (state / STATE_FILE).stat().st_ino == before
