"""Captured changes: what is remembered, held, packed and reported."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.agent.bidirectional import holds as hold_rules
from stoker.agent.bidirectional import state
from stoker.agent.bidirectional.local_changes import MAX_MODE_CHANGES, UNREAD_VERSION, LocalChanges
from stoker.agent.bidirectional.outbox import ChangeTooLarge, pack_changes
from stoker.agent.bidirectional.state import CaptureState, RefusedChange, SentChanges
from stoker.agent.bidirectional.status import CaptureStatus
from stoker.agent.bidirectional.types import next_id
from stoker.agent.status.fields import held_projects, sync_status
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.git_objects import FileVersion, HeldPath, blob_of
from stoker.domain.intent.files import ExcludePolicy
from stoker.domain.paths import RelPath
from stoker.domain.protocol import (
    ChangeAction,
    ChangedFile,
    ChangeSet,
    ChangeSetReply,
    ChangeSetResult,
    GatewayChangesReport,
    SyncState,
)
from stoker.domain.protocol.change_set_codec import ChangeSetChunk, decode
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.layout.reverse_map import CapturablePaths
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.plan import DeleteFile, SetFileMode, SyncPlan, WriteFile
from stoker.fs.apply_plan import ApplyResult
from stoker.fs.data_folder import DataFolder
from stoker.fs.exec_bit_support import supports_modes
from stoker.fs.watch.paths import ChangedPaths
from stoker_testkit.manual_clock import ManualClock

COMMIT = CommitId("1" * 40)
OURS, MINE, GITS = (FileVersion(blob_of(text)) for text in (b"ours", b"mine", b"git's"))
SENT = CaptureState(
    recorded={"old": "x"},
    sent=SentChanges("20260101-000000", {"a": MINE.blob, "b": ""}),
    last_id="20260101-000000",
)


def test_an_answer_to_the_set_on_its_way_says_of_each_file_what_became_of_it() -> None:
    answer = ChangeSetReply("20260101-000000", refused=("b",), message="it is protected")
    after = SENT.answered(answer)
    assert (after.sent, dict(after.recorded)) == (None, {"old": "x", "a": MINE.blob})
    assert after.why_refused("b", "") == "it is protected"
    assert after.why_refused("b", "another content") is None
    none = SENT.answered(replace(answer, result=ChangeSetResult.REFUSED, refused=()))
    assert (set(none.refused), dict(none.recorded)) == ({"a", "b"}, {"old": "x"})


@pytest.mark.parametrize("answer", [None, ChangeSetReply("20260101-000001")])
def test_an_answer_to_another_set_says_nothing(answer: ChangeSetReply | None) -> None:
    assert SENT.answered(answer) is SENT


def test_what_was_refused_is_asked_again_once_when_a_request_is_over() -> None:
    first = ChangeSetReply("20260101-000000", refused=("b",), message="the request is full")
    over = replace(first, over=first.id)
    refused = SENT.answered(first)
    assert refused.answered(first) is refused
    again = refused.answered(over)
    assert (again.refused, again.recorded) == ({}, refused.recorded)
    assert again.answered(over) is again
    unread = SENT.answered(over)  # it was closed before the answer was read
    assert (unread.refused, dict(unread.recorded), unread.sent) == ({}, {"old": "x", "a": MINE.blob}, None)
    on_its_way = refused.sending(SentChanges("20260101-000001", {"c": MINE.blob}))
    assert on_its_way.answered(over).refused == {}
    later = ChangeSetReply("20260101-000001", refused=("c",), message="it is protected", over=first.id)
    assert set(on_its_way.answered(later).refused) == {"c"}, "the answer before was never read"
    told = on_its_way.answered(later)
    assert told.answered(later) is told


def test_what_is_no_longer_a_change_is_forgotten() -> None:
    memory = CaptureState(
        settings="s", recorded={"a": "1", "b": "2", "c": "3"}, refused={"d": RefusedChange("4", "large")}
    )
    after = memory.knowing({"a": "1", "b": "other", "d": "4"}, undone={"c"})
    assert (dict(after.recorded), set(after.refused)) == ({"a": "1", "c": "3"}, {"d"})
    assert after.without(["a"]).recorded == {"c": "3"}
    assert after.under("s") is after
    assert after.under("other").refused == {}


def test_what_is_remembered_is_read_again_and_what_is_damaged_counts_as_nothing(tmp_path: Path) -> None:
    with DataFolder.opened(tmp_path) as folder:
        assert state.load(folder) == CaptureState()
        memory = replace(
            SENT, refused={"ü": RefusedChange("1", "too large")}, settings="x", over="20260101-000000"
        )
        state.save(folder, memory)
        assert state.load(folder) == memory
        place = tmp_path / ".sync-state" / state.NAME
        assert place.stat().st_mode & 0o777 == 0o600
        for text in (b"", b"{", b"[]", b'{"edition": 2}', b'{"edition": 1, "sent": 3}', b"\xff"):
            place.write_bytes(text)
            assert state.load(folder) == CaptureState()
        place.unlink()
        os.mkfifo(place)
        assert state.load(folder) == CaptureState()


def test_ids_only_grow() -> None:
    clock = ManualClock()
    first = next_id(clock, "")
    second = next_id(clock, first)
    third = next_id(clock, second)
    assert (second, third) == (f"{first}-1", f"{first}-2")
    assert next_id(clock, "29990101-000000") == "29990101-000000-1"  # the clock was set back


def plan(*actions: WriteFile | DeleteFile | SetFileMode) -> SyncPlan:
    return SyncPlan(
        writes=tuple(one for one in actions if isinstance(one, WriteFile)),
        modes=tuple(one for one in actions if isinstance(one, SetFileMode)),
        deletions=tuple(one for one in actions if isinstance(one, DeleteFile)),
    )


WRITE = WriteFile(RelPath("p/a"), GITS, replaces=True)
PROGRAM = GITS._replace(executable=True)
LEDGER = Ledger(
    files={
        "p/a": encode_record(OURS),
        "v/resource.json": encode_record(OURS),
        "v/view.json": encode_record(OURS),
    }
)


@pytest.mark.parametrize(
    ("action", "there", "recorded", "holds", "held"),
    [
        (WRITE, MINE, "", (), True),
        (WRITE, MINE, MINE.blob, (), False),
        (WRITE, MINE, GITS.blob, (), True),
        (WRITE, MINE, MINE.blob, ("p/a",), True),
        (WRITE, GITS, "", (), False),
        (WRITE, None, "", (), False),
        (WRITE, None, "x", (), True),
        (DeleteFile(RelPath("p/a")), MINE, "x", (), True),
        (DeleteFile(RelPath("p/a")), None, "x", (), False),
        (WRITE, GITS._replace(executable=True), "", (), True),
        (SetFileMode(RelPath("p/a"), GITS), MINE, "x", (), False),
        (SetFileMode(RelPath("p/a"), GITS), PROGRAM, GITS.blob, (), True),
        (SetFileMode(RelPath("p/a"), GITS), PROGRAM, f"{GITS.blob}+x", (), False),
        (SetFileMode(RelPath("p/a"), GITS), PROGRAM, f"{GITS.blob}+x", ("p/a",), True),
    ],
)
def test_a_change_is_held_until_git_has_exactly_that(
    action: WriteFile | DeleteFile | SetFileMode,
    there: FileVersion | None,
    recorded: str,
    holds: tuple[str, ...],
    held: bool,
) -> None:
    memory = CaptureState(recorded={"p/a": recorded})
    found = hold_rules.held_paths(plan(action), {"p/a": there}, LEDGER, holds, memory.has)
    assert bool(found) is held
    assert all(one.reason is Reason.CHANGE_HELD for one in found)
    assert hold_rules.are_still_held(found, {"p/a": there}, holds, memory.has)
    if held and not holds:
        assert not hold_rules.are_still_held(found, {}, (), memory.has)


def test_unchanged_files_are_not_held_and_a_resource_is_held_whole() -> None:
    memory = CaptureState()
    writes = [WriteFile(RelPath(f"v/{name}"), GITS, True) for name in ("resource.json", "view.json")]
    assert hold_rules.held_paths(plan(WRITE, *writes), {}, LEDGER, (), memory.has) == ()
    (held,) = hold_rules.held_paths(plan(WRITE, *writes), {"v/view.json": MINE}, LEDGER, (), memory.has)
    assert held.place == "v"
    assert plan(WRITE, *writes).holding([held], LEDGER).writes == (WRITE,)


def changed(path: str, content: bytes) -> ChangedFile:
    return ChangedFile(path, f"s/{path}", ChangeAction.WRITTEN, "", blob_of(content), content)


def test_what_does_not_fit_goes_with_the_next_set_by_whole_folders() -> None:
    files = tuple(changed(f"f{n}/{name}", os.urandom(1_500_000)) for n in range(4) for name in ("a", "b"))
    whole = ChangeSet("20260101-000000", "filler", COMMIT, files)
    now, chunks = pack_changes(whole)
    assert now.files == files[:4]
    assert decode(map(ChangeSetChunk.parse, chunks)) == now
    one_folder = tuple(changed(f"f0/{n}", os.urandom(1_500_000)) for n in range(6))
    assert pack_changes(replace(whole, files=one_folder))[0].files == one_folder[:3]
    with pytest.raises(ChangeTooLarge, match="larger than a change set") as unfit:
        pack_changes(replace(whole, files=(changed("f0/a", os.urandom(7_500_000)),)))
    assert unfit.value.path == "f0/a"


def test_captured_changes_are_summarized_in_the_report() -> None:
    said = CaptureStatus(most=2)
    assert said.told({}, CaptureState(), ()) == GatewayChangesReport()
    changes = {"a": MINE, "b": None, "c": GITS}
    can = said.sorted(changes, CaptureState(), "1")
    assert (can, said.too_many) == (changes, True)
    told = said.told(changes, CaptureState(), ())
    assert told is not None
    assert (told.pending, told.refused, told.reason) == (3, 0, Reason.CHANGE_REFUSED)
    said.refuse("a", MINE.blob, "is larger than 5 bytes")
    assert set(said.sorted(changes, CaptureState(), "1")) == {"b", "c"}
    told = said.told(changes, CaptureState(), ())
    assert told is not None
    assert (told.pending, told.refused, told.paths) == (2, 1, ("a", "b", "c"))
    assert told.message == "a: is larger than 5 bytes"
    again = said.sorted(changes, CaptureState(), "2")  # with another commit it may go
    assert set(again) == {"a", "b", "c"}
    memory = CaptureState(recorded={"a": MINE.blob, "b": "", "c": GITS.blob})
    assert said.told(changes, memory, ()) == GatewayChangesReport()


def test_a_path_that_waits_for_git_is_distinguished_from_one_that_waits_for_a_designer() -> None:
    ours = HeldPath("projects/x/view.json", "why", reason=Reason.CHANGE_HELD)
    theirs = HeldPath("projects/line", "is open", "anna")
    report = SyncReport(COMMIT, GitRef("main"), SyncPlan(held=(ours,)), ApplyResult())
    assert sync_status(report) == (SyncState.SYNCING, Reason.CHANGE_HELD, "projects/x/view.json: why")
    both = replace(report, plan=SyncPlan(held=(ours, theirs)))
    assert sync_status(both)[1:] == (Reason.DESIGNER_SESSION_ACTIVE, "projects/line: is open")
    assert [one.project for one in held_projects(both.plan.held)] == ["line"]


async def test_rights_alone_are_an_edit_unless_everything_has_others(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    names = [f"p/{number}" for number in range(MAX_MODE_CHANGES + 1)]
    for name in names:
        (tmp_path / name).write_text("ours")
    (tmp_path / "p/new").write_text("mine")
    ledger = Ledger(files=dict.fromkeys(names, encode_record(OURS)), commit=COMMIT)
    sight = LocalChanges(CapturablePaths(("p/**",), (), ExcludePolicy()))
    with DataFolder.opened(tmp_path) as data:
        for name in names[1:]:
            (tmp_path / name).chmod(0o755)
        await sight.walk(data, ledger)
        assert sight.changes(ledger) == {
            **dict.fromkeys(names[1:], OURS._replace(executable=True)),
            "p/new": MINE,
        }
        (tmp_path / names[0]).chmod(0o700)
        await sight.look(data, ledger, ChangedPaths(frozenset(names[:1])))
        assert sight.changes(ledger) == {"p/new": MINE}, "a script went over all of them"
        sight.modes = False  # as on a share that shows every file as executable
        await sight.walk(data, ledger)
        assert sight.changes(ledger) == {"p/new": MINE}


def test_whether_rights_are_kept_is_found_out_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataFolder.opened(tmp_path) as folder:
        assert supports_modes(folder)
        assert not any((tmp_path / ".sync-state").iterdir())
        monkeypatch.setattr(os, "fchmod", lambda fd, mode: None)
        assert not supports_modes(folder)


async def test_what_cannot_be_read_is_known_as_such_until_it_can(tmp_path: Path) -> None:
    allowed = CapturablePaths(("p/**",), (), ExcludePolicy())
    sight = LocalChanges(allowed)
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a").write_text("mine")
    ledger = Ledger(files={"p/a": encode_record(OURS)}, commit=COMMIT)
    with DataFolder.opened(tmp_path) as folder:
        sight.unread.add("p/a")  # as a file that was being written
        await sight.look(folder, ledger, ChangedPaths())
        assert (sight.unread, sight.changes(ledger)) == (set(), {"p/a": MINE})
        sight.unread.add("p/gone")
        await sight.walk(folder, ledger)
        assert sight.unread == set()
        (tmp_path / "p/a").unlink()
        (tmp_path / "p/a").symlink_to("elsewhere")
        (tmp_path / "p/pipe").parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / "p/pipe")
        await sight.look(folder, ledger, ChangedPaths(frozenset({"p/a", "p/pipe", "p/../x", "q/a"})))
        assert sight.unread == set()
        assert sight.changes(ledger) == {}
    held = hold_rules.held_paths(plan(WRITE), {"p/a": UNREAD_VERSION}, LEDGER, (), CaptureState().has)
    assert [one.place for one in held] == ["p/a"]
