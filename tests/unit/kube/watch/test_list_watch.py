"""The protocol of list and watch, line by line and without a network."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from stoker.domain.errors import Stalled, StokerError
from stoker.kube.client.errors import (
    ApiServerUnreachable,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.list_watch import (
    AWAY,
    HASTY,
    HOPELESS,
    LIVED,
    SPREAD,
    STANDSTILLS,
    ListAll,
    ListWatchState,
    ListWatchStep,
    ResourceVersionWentBack,
    WatchFrom,
    is_newer,
)
from stoker.kube.watch.store import ObjectCache, ObjectChange, ObjectKey
from stoker.kube.watch.watch_events import MalformedEvent

POISON = "poison"


def item(name: str, uid: str, version: str, data: str = "") -> bytes:
    metadata = {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": version}
    return msgspec.json.encode({"metadata": metadata, "data": data})


def event(kind: str, name: str, uid: str, version: str, data: str = "") -> bytes:
    return msgspec.json.encode({"type": kind, "object": msgspec.Raw(item(name, uid, version, data))})


def bookmark(version: str) -> bytes:
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}})


def error_line(code: int, reason: str = "", after: int = 0) -> bytes:
    details = {"retryAfterSeconds": after}
    status = {"kind": "Status", "code": code, "reason": reason, "details": details}
    return msgspec.json.encode({"type": "ERROR", "object": status})


def keep(raw: bytes) -> str:
    if POISON.encode() in raw:
        raise ValueError("this object is poison")
    return raw.decode()


class ListWatchRun:
    """A machine with its store, and the changes that came out, as short words."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.store = ObjectCache(keep, on_refused=lambda key, _: self.refused.append(key.name))
        self.machine = ListWatchState(
            self.store,
            backoff=Backoff(base=0.5, ceiling=30.0, jitter=0.0),
            slow_backoff=Backoff(base=5.0, ceiling=60.0, jitter=0.0),
            random=lambda: 1.0,
        )
        self.delivered: list[str] = []

    def listed(self, version: str, *items: bytes) -> ListWatchRun:
        self.machine.page(items)
        self._deliver(self.machine.listed(version))
        return self

    def hears(self, *lines: bytes) -> ListWatchRun:
        """Lines of one stream; the one that breaks it is its last."""
        for line in lines:
            try:
                self._deliver(self.machine.line(line))
            except StokerError as error:
                self.machine.failed(error)
                break
        return self

    def fresh(self) -> list[str]:
        result, self.delivered = self.delivered, []
        return result

    @property
    def step(self) -> ListAll | WatchFrom:
        return self.machine.step

    def names(self) -> set[str]:
        return {key.name for key in self.store}

    def _deliver(self, changes: Iterable[ObjectChange[str]]) -> None:
        for change in changes:
            sign = "+" if change.old is None else "-" if change.new is None else "~"
            self.delivered.append(f"{sign}{change.key.name}:{change.uid}@{change.resource_version}")


@pytest.fixture
def watch_run() -> ListWatchRun:
    return ListWatchRun()


@pytest.fixture
def watching(watch_run: ListWatchRun) -> ListWatchRun:
    """Listed at 10 with two objects, and nothing was delivered yet."""
    watch_run.listed("10", item("a", "ua", "3"), item("b", "ub", "7"))
    watch_run.fresh()
    return watch_run


class TestListing:
    def test_begins_with_a_list(self, watch_run: ListWatchRun) -> None:
        assert watch_run.step == ListAll()

    def test_a_complete_list_is_delivered_and_then_watched_from_its_version(
        self, watch_run: ListWatchRun
    ) -> None:
        watch_run.listed("10", item("a", "ua", "3"), item("b", "ub", "7"))
        assert watch_run.delivered == ["+a:ua@3", "+b:ub@7"]
        assert watch_run.step == WatchFrom("10")

    def test_pages_change_nothing_before_the_last(self, watching: ListWatchRun) -> None:
        watching.machine.resync()
        watching.machine.page([item("a", "ua", "11")])
        watching.machine.page([item("c", "uc", "12")])
        assert watching.fresh() == []
        assert watching.names() == {"a", "b"}

    def test_a_list_that_fails_midway_changes_nothing_and_begins_anew(self, watching: ListWatchRun) -> None:
        watching.machine.resync()
        watching.machine.page([item("c", "uc", "12")])
        watching.machine.failed(ApiServerUnreachable("gone"))
        assert watching.step == ListAll(0.5)
        assert watching.names() == {"a", "b"}
        watching.listed("20", item("a", "ua", "3"), item("b", "ub", "7"))
        assert watching.fresh() == []

    def test_object_by_object_each_is_delivered_with_its_bytes_before_the_next_is_read(
        self, watching: ListWatchRun
    ) -> None:
        items = [item("a", "ua", "11"), item("b", "ub", "7"), item("c", "uc", "12")]
        changes = watching.machine.each_of_page(items)
        first = next(changes)
        assert (first.key.name, first.raw, first.listed) == ("a", items[0], True)
        assert "c" not in watching.names()
        assert [change.key.name for change in changes] == ["c"], "b has the version that is known"
        assert watching.machine.listed("20") == [], "everything is delivered already"

    def test_object_by_object_deletions_wait_for_the_last_page(self, watching: ListWatchRun) -> None:
        watching.machine.resync()
        assert [change.key.name for change in watching.machine.each_of_page([item("c", "uc", "12")])] == ["c"]
        watching.machine.failed(Gone("compacted", status=410))
        assert watching.names() == {"a", "b", "c"}, "a list that fails midway proves no deletion"
        assert list(watching.machine.each_of_page([item("b", "ub", "7")])) == []
        gone = watching.machine.listed("21")
        assert [(change.key.name, change.deleted, change.listed) for change in gone] == [
            ("a", True, True),
            ("c", True, True),
        ]

    def test_a_list_that_expires_between_two_pages_begins_anew(self, watch_run: ListWatchRun) -> None:
        watch_run.machine.page([item("a", "ua", "3")])
        watch_run.machine.failed(Gone("expired", status=410))
        assert watch_run.step == ListAll(0.5)

    def test_an_item_without_identity_spoils_the_list_because_it_is_unknown_what_it_replaces(
        self, watching: ListWatchRun
    ) -> None:
        watching.machine.resync()
        with pytest.raises(MalformedEvent):
            watching.machine.page([item("a", "ua", "3"), b'{"metadata":{}}'])

    def test_a_list_without_a_version_is_refused(self, watch_run: ListWatchRun) -> None:
        with pytest.raises(MalformedEvent, match="resourceVersion"):
            watch_run.machine.listed("")

    def test_failures_while_listing_pause_ever_longer(self, watch_run: ListWatchRun) -> None:
        pauses = []
        for _ in range(8):
            watch_run.machine.failed(ServerError("no", status=500))
            pauses.append(watch_run.step.after)
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]

    def test_a_list_is_the_truth_even_when_it_goes_back_in_time(self, watching: ListWatchRun) -> None:
        watching.machine.resync()
        watching.listed("5", item("a", "ua", "2"))
        assert watching.fresh() == ["-b:ub@5", "~a:ua@2"]
        assert watching.step == WatchFrom("5")


class TestDifferences:
    """What a list finds that no watch has delivered."""

    @pytest.mark.parametrize(
        ("items", "lines"),
        [
            ([item("a", "ua", "3"), item("b", "ub", "7")], []),
            ([item("a", "ua", "11"), item("b", "ub", "7")], ["~a:ua@11"]),
            ([item("a", "ua", "3")], ["-b:ub@20"]),
            ([item("a", "ua", "3"), item("b", "ub", "7"), item("c", "uc", "12")], ["+c:uc@12"]),
            ([item("a", "new", "12"), item("b", "ub", "7")], ["-a:ua@12", "+a:new@12"]),
            ([], ["-a:ua@20", "-b:ub@20"]),
        ],
        ids=["nothing", "an update", "a deletion", "an addition", "a new object of the old name", "all gone"],
    )
    def test_are_delivered(self, watching: ListWatchRun, items: list[bytes], lines: list[str]) -> None:
        watching.machine.failed(Gone("too old", status=410))
        watching.listed("20", *items)
        assert watching.fresh() == lines

    def test_an_unchanged_object_is_not_read_again(self, watching: ListWatchRun) -> None:
        watching.machine.resync()
        # The same version with other bytes: only reading it would notice.
        watching.listed("20", item("a", "ua", "3", POISON), item("b", "ub", "7"))
        assert watching.refused == []


class TestEvents:
    def test_are_delivered_in_order_and_move_the_version(self, watching: ListWatchRun) -> None:
        watching.hears(
            event("ADDED", "c", "uc", "11"),
            event("MODIFIED", "a", "ua", "12"),
            event("DELETED", "b", "ub", "13"),
        )
        assert watching.fresh() == ["+c:uc@11", "~a:ua@12", "-b:ub@13"]
        watching.machine.ended(lasted=300.0)
        assert watching.step == WatchFrom("13", after=SPREAD)

    def test_a_repetition_is_not_delivered_twice(self, watching: ListWatchRun) -> None:
        line = event("MODIFIED", "a", "ua", "12")
        watching.hears(line, line, event("ADDED", "b", "ub", "7"))
        assert watching.fresh() == ["~a:ua@12"]
        assert watching.machine.duplicates == 2
        watching.machine.ended(lasted=300.0)
        assert watching.step == WatchFrom("12", after=SPREAD)

    def test_an_older_version_of_a_known_object_is_dropped(self, watching: ListWatchRun) -> None:
        watching.hears(
            event("MODIFIED", "a", "ua", "15"),
            event("MODIFIED", "a", "ua", "12"),
            event("ADDED", "c", "uc", "16"),
        )
        assert watching.fresh() == ["~a:ua@15", "+c:uc@16"], "and the stream goes on"

    def test_versions_are_compared_as_numbers_and_not_as_text(self, watching: ListWatchRun) -> None:
        watching.hears(event("MODIFIED", "a", "ua", "99"), event("MODIFIED", "a", "ua", "100"))
        assert watching.fresh() == ["~a:ua@99", "~a:ua@100"]

    def test_versions_that_are_no_numbers_are_taken_in_the_order_in_which_they_come(
        self, watch_run: ListWatchRun
    ) -> None:
        watch_run.listed("x9", item("a", "ua", "x3"))
        watch_run.hears(event("MODIFIED", "a", "ua", "x2"), event("MODIFIED", "a", "ua", "x2"))
        assert watch_run.delivered == ["+a:ua@x3", "~a:ua@x2"]
        watch_run.machine.ended(lasted=300.0)
        assert watch_run.step == WatchFrom("x2", after=SPREAD)

    def test_a_deletion_is_delivered_once(self, watching: ListWatchRun) -> None:
        line = event("DELETED", "b", "ub", "13")
        watching.hears(line, line)
        assert watching.fresh() == ["-b:ub@13"]
        assert watching.step == WatchFrom("10"), "a repeated deletion is no reason to list"

    def test_a_deletion_that_carries_the_last_version_is_delivered(self, watching: ListWatchRun) -> None:
        watching.hears(event("DELETED", "b", "ub", "7"))
        assert watching.fresh() == ["-b:ub@7"]

    def test_deletions_that_share_a_version_are_all_delivered(self, watching: ListWatchRun) -> None:
        watching.hears(event("DELETED", "a", "ua", "13"), event("DELETED", "b", "ub", "13"))
        assert watching.fresh() == ["-a:ua@13", "-b:ub@13"]

    def test_a_new_uid_under_an_old_name_ends_the_old_object_first(self, watching: ListWatchRun) -> None:
        watching.hears(event("ADDED", "a", "new", "12"))
        assert watching.fresh() == ["-a:ua@12", "+a:new@12"]

    def test_the_deletion_of_a_successor_that_was_never_seen_ends_the_object(
        self, watching: ListWatchRun
    ) -> None:
        watching.hears(event("DELETED", "a", "new", "12"))
        assert watching.fresh() == ["-a:ua@12"]

    def test_a_bookmark_moves_the_version_and_delivers_nothing(self, watching: ListWatchRun) -> None:
        watching.hears(bookmark("50"))
        assert watching.fresh() == []
        watching.machine.ended(lasted=300.0)
        assert watching.step == WatchFrom("50", after=SPREAD)

    def test_a_ghost_from_before_the_stream_is_not_delivered_and_calls_for_a_list(
        self, watching: ListWatchRun
    ) -> None:
        watching.hears(event("DELETED", "b", "ub", "13"), event("ADDED", "b", "ub", "7"))
        assert watching.fresh() == ["-b:ub@13"]
        assert isinstance(watching.step, ListAll)

    def test_a_bookmark_from_the_past_calls_for_a_list(self, watching: ListWatchRun) -> None:
        with pytest.raises(ResourceVersionWentBack):
            watching.machine.line(bookmark("9"))


class TestRefusals:
    def test_an_unreadable_object_does_not_stop_the_others(self, watch_run: ListWatchRun) -> None:
        watch_run.listed("10", item("a", "ua", "3", POISON), item("b", "ub", "7"))
        watch_run.hears(event("ADDED", "c", "uc", "11", POISON), event("ADDED", "d", "ud", "12"))
        assert watch_run.delivered == ["+b:ub@7", "+d:ud@12"]
        assert watch_run.refused == ["a", "c"]
        watch_run.machine.ended(lasted=300.0)
        assert watch_run.step == WatchFrom("12", after=SPREAD)

    def test_an_unreadable_version_leaves_the_last_readable_one(self, watching: ListWatchRun) -> None:
        watching.hears(event("MODIFIED", "a", "ua", "12", POISON))
        watching.machine.resync()
        watching.listed("20", item("a", "ua", "12", POISON), item("b", "ub", "7"))
        assert watching.fresh() == []
        assert watching.refused == ["a", "a"]
        entry = watching.store.entry(ObjectKey("shop", "a"))
        assert entry is not None
        assert entry.resource_version == "3"

    def test_an_unreadable_successor_still_ends_the_old_object(self, watching: ListWatchRun) -> None:
        watching.hears(event("ADDED", "a", "new", "12", POISON))
        assert watching.fresh() == ["-a:ua@12"]

    def test_an_unreadable_successor_in_a_list_still_ends_the_old_object(
        self, watching: ListWatchRun
    ) -> None:
        watching.machine.resync()
        watching.listed("20", item("a", "new", "12", POISON), item("b", "ub", "7"))
        assert watching.fresh() == ["-a:ua@20"]


class TestBrokenStreams:
    def test_is_resumed_after_the_last_event(self, watching: ListWatchRun) -> None:
        watching.hears(event("MODIFIED", "a", "ua", "12"))
        watching.machine.failed(ApiServerUnreachable("reset"))
        assert watching.step == WatchFrom("12", after=0.5)

    def test_a_truncated_line_is_a_broken_stream(self, watching: ListWatchRun) -> None:
        watching.hears(event("MODIFIED", "a", "ua", "12"), event("MODIFIED", "a", "ua", "13")[:-7])
        assert watching.fresh() == ["~a:ua@12"]
        assert watching.step == WatchFrom("12", after=0.5)

    def test_an_unknown_type_of_line_is_a_broken_stream(self, watching: ListWatchRun) -> None:
        watching.hears(event("RENAMED", "a", "ua", "12"))
        assert watching.step == WatchFrom("10", after=0.5)

    @pytest.mark.parametrize(
        "line", [error_line(410, "Expired"), error_line(410, "Gone"), error_line(0, "Expired")]
    )
    def test_an_expired_version_in_the_stream_calls_for_a_list(
        self, watching: ListWatchRun, line: bytes
    ) -> None:
        watching.hears(line)
        assert watching.step == ListAll(0.5)

    def test_an_expired_version_as_an_answer_calls_for_a_list(self, watching: ListWatchRun) -> None:
        watching.machine.failed(Gone("too old", status=410))
        assert watching.step == ListAll(0.5)

    def test_expiring_again_after_each_list_pauses_ever_longer(self, watching: ListWatchRun) -> None:
        pauses = []
        for _ in range(4):
            watching.hears(error_line(410, "Expired"))
            pauses.append(watching.step.after)
            watching.listed("20")
        assert pauses == [0.5, 1.0, 2.0, 4.0]

    def test_another_error_in_the_stream_is_resumed_after_a_pause(self, watching: ListWatchRun) -> None:
        watching.hears(error_line(500))
        assert watching.step == WatchFrom("10", after=0.5)

    def test_errors_at_the_same_version_end_in_a_list(self, watching: ListWatchRun) -> None:
        for _ in range(STANDSTILLS - 1):
            watching.hears(error_line(500))
            assert isinstance(watching.step, WatchFrom)
        watching.hears(error_line(500))
        assert watching.step == ListAll(2.0)

    def test_a_line_that_can_never_be_read_is_passed_by_a_list(self, watching: ListWatchRun) -> None:
        for _ in range(STANDSTILLS):
            watching.hears(event("ADDED", "a", "ua", "3"), b"{")
        assert isinstance(watching.step, ListAll), "repetitions are no headway"

    def test_errors_with_headway_between_them_do_not(self, watching: ListWatchRun) -> None:
        for version in range(11, 11 + 2 * STANDSTILLS):
            watching.hears(event("MODIFIED", "a", "ua", str(version)), error_line(500))
        assert watching.step == WatchFrom("16", after=0.5)

    def test_the_time_to_stay_away_is_added_to_the_pause(self, watching: ListWatchRun) -> None:
        watching.hears(error_line(429, after=7))
        assert watching.step == WatchFrom("10", after=7.5)
        watching.machine.failed(TooManyRequests("busy", status=429, after=3.0))
        assert watching.step == WatchFrom("10", after=4.0)

    def test_a_server_that_answers_nothing_but_errors_is_listed_in_the_end(
        self, watching: ListWatchRun
    ) -> None:
        for _ in range(HOPELESS - 1):
            watching.machine.failed(ServerError("no", status=503))
            assert isinstance(watching.step, WatchFrom)
        watching.machine.failed(ServerError("no", status=503))
        assert watching.step == ListAll(30.0)

    def test_a_stream_that_lived_forgives_earlier_failures(self, watching: ListWatchRun) -> None:
        for _ in range(5):
            watching.machine.failed(ApiServerUnreachable("reset"))
        watching.machine.failed(ApiServerUnreachable("reset"), lasted=LIVED)
        assert watching.step == WatchFrom("10", after=0.5)

    @pytest.mark.parametrize(
        "error",
        [Forbidden("no", status=403), NotFound("no such kind", status=404), Stalled("whatever")],
        ids=["forbidden", "not found", "anything a human must fix"],
    )
    def test_an_error_that_needs_a_human_is_retried_slowly_and_from_a_list(
        self, watching: ListWatchRun, error: StokerError
    ) -> None:
        pauses = []
        for _ in range(HASTY + 2):
            watching.machine.failed(error)
            assert isinstance(watching.step, ListAll)
            pauses.append(watching.step.after)
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 60.0, 60.0], (
            "a server that has just started says no to all"
        )
        assert watching.names() == {"a", "b"}, "a kind that cannot be read is no deletion of its objects"

    def test_a_server_that_is_away_is_tried_every_few_seconds(self, watching: ListWatchRun) -> None:
        for _ in range(4 * HOPELESS - 1):
            watching.machine.failed(ApiServerUnreachable("refused"))
            assert isinstance(watching.step, WatchFrom)
            assert watching.step.after <= AWAY
        watching.machine.failed(ApiServerUnreachable("refused"))
        assert isinstance(watching.step, ListAll), "after minutes it has forgotten where we were"

    @pytest.mark.parametrize(
        ("error", "step"),
        [
            (Forbidden("not yet", status=403), ListAll(0.5)),
            (Unauthorized("not yet", status=401), ListAll(0.5)),
            (TooManyRequests("starting", status=429, after=1.0), WatchFrom("10", after=1.5)),
            (ServerError("starting", status=503), WatchFrom("10", after=0.5)),
            (Gone("too old", status=410), ListAll(0.5)),
        ],
        ids=["forbidden", "unauthorized", "busy", "not ready", "expired"],
    )
    def test_what_a_server_says_that_is_back_is_not_waited_for_as_long_as_it_was_away(
        self, watching: ListWatchRun, error: StokerError, step: ListWatchStep
    ) -> None:
        for _ in range(8):
            watching.machine.failed(ApiServerUnreachable("refused"))
        watching.machine.failed(error)
        assert watching.step == step

    def test_a_server_that_refuses_and_is_away_in_turn_is_retried_ever_more_slowly(
        self, watching: ListWatchRun
    ) -> None:
        for _ in range(8):
            watching.machine.failed(ApiServerUnreachable("refused"))
            watching.machine.failed(ServerError("no", status=503))
        assert watching.step.after == 30.0


def test_what_was_never_allowed_is_tried_slowly_from_the_beginning(watch_run: ListWatchRun) -> None:
    pauses = []
    for _ in range(6):
        watch_run.machine.failed(Forbidden("no", status=403))
        pauses.append(watch_run.step.after)
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


class TestEnds:
    def test_an_ordinary_end_is_resumed_within_the_spread(self, watching: ListWatchRun) -> None:
        watching.machine.ended(lasted=300.0)
        assert watching.step == WatchFrom("10", after=SPREAD)

    def test_ends_without_a_word_pause_ever_longer_and_end_in_a_list(self, watching: ListWatchRun) -> None:
        pauses = []
        while isinstance(watching.step, WatchFrom):
            watching.machine.ended(lasted=0.01)
            pauses.append(watching.step.after)
        assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
        assert len(pauses) == HOPELESS

    def test_a_short_stream_with_events_is_an_ordinary_end(self, watching: ListWatchRun) -> None:
        watching.hears(bookmark("50"))
        watching.machine.ended(lasted=0.01)
        assert watching.step == WatchFrom("50", after=SPREAD)

    def test_silence_is_resumed_and_silence_again_and_again_is_listed(self, watching: ListWatchRun) -> None:
        for _ in range(STANDSTILLS - 1):
            watching.machine.silent()
            assert watching.step == WatchFrom("10", after=SPREAD)
        watching.machine.silent()
        assert watching.step == ListAll(SPREAD)
        assert watching.machine.failures == 0


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("2", "1", True),
        ("1", "1", False),
        ("10", "9", True),
        ("9", "10", False),
        ("1" * 5000, "9", True),
        ("b", "a", True),
        ("a", "b", True),
        ("a", "a", False),
        ("7", "a", True),
        ("7", "", True),
    ],
)
def test_which_version_is_newer(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer
