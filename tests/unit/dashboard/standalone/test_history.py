"""History from before this process, from an audit log that other processes may have changed."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.dashboard.standalone import history

GOOD = {
    "timestamp": "2026-01-02T03:04:05.678Z",
    "commit": "a" * 40,
    "ref": "main",
    "filesChanged": 3,
    "duration": "0.10s",
    "result": "success",
}


def written(folder: Path, *lines: object) -> Path:
    state = folder / ".sync-state"
    state.mkdir()
    text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
    (state / "audit.jsonl").write_text(text)
    return folder


def test_the_newest_comes_first_and_pauses_are_no_syncs(tmp_path: Path) -> None:
    folder = written(
        tmp_path, GOOD, {**GOOD, "result": "Paused"}, {**GOOD, "ref": "v2", "result": "SyncPartial"}
    )
    found = history.read_history(folder)
    assert [(one.ref, one.result, one.files_changed) for one in found] == [
        ("v2", "SyncPartial", 3),
        ("main", "success", 3),
    ]
    assert found[0].timestamp == "2026-01-02T03:04:05Z"
    before = history.restored_report("filler", found)
    assert (before.synced_commit, before.synced_ref, before.synced_at) == (
        "a" * 40,
        "main",
        "2026-01-02T03:04:05Z",
    )


def test_lines_that_are_not_ours_are_left_out(tmp_path: Path) -> None:
    strange = [
        "",
        "null",
        "[]",
        "{",
        "[" * 100_000,
        {},
        {**GOOD, "timestamp": "yesterday"},
        {**GOOD, "timestamp": 7},
        {**GOOD, "result": ["success"]},
        {**GOOD, "filesChanged": "many", "commit": None},
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ]
    found = history.read_history(written(tmp_path, *strange, GOOD))
    assert [(one.commit, one.files_changed) for one in found] == [("a" * 40, 3), ("", 0)]


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path, *({**GOOD, "filesChanged": number} for number in range(5000)))
    found = history.read_history(folder)
    assert [one.files_changed for one in found] == list(range(4999, 4999 - history.MAX_ENTRIES, -1))


def test_where_nothing_was_written_there_is_nothing(tmp_path: Path) -> None:
    assert history.read_history(tmp_path) == ()
    assert history.read_history(tmp_path / "nowhere") == ()
    assert history.restored_report("filler", ()).synced_commit == ""


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps(GOOD) + "\n")
    (tmp_path / ".sync-state").mkdir()
    (tmp_path / ".sync-state/audit.jsonl").symlink_to(tmp_path / "secret")
    assert history.read_history(tmp_path) == ()
