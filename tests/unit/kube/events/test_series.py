"""Series of reports: which become Events, and when they are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stoker.domain.reasons import Reason
from stoker.kube.events.series import (
    EventLimits,
    EventReport,
    EventReportResult,
    EventSeries,
    EventSeriesTracker,
    EventType,
    ObjectRef,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def about(name: str = "line-1") -> ObjectRef:
    return ObjectRef("stoker.io/v1alpha1", "Stoker", name, "plant", f"uid-of-{name}")


def report(message: str = "no route", name: str = "line-1") -> EventReport:
    return EventReport(about(name), EventType.WARNING, Reason.SOURCE_UNREACHABLE, message)


class SeriesEnvironment:
    """A book, and the time at which it is used."""

    def __init__(self, limits: EventLimits | None = None) -> None:
        self.book = EventSeriesTracker(limits or EventLimits())
        self.now = 0.0

    def accept(self, what: EventReport) -> EventReportResult:
        return self.book.accept(what, self.now, START + timedelta(seconds=self.now))

    def write(self) -> EventSeries:
        """Write the series that is due first, which must be due by now."""
        series = self.book.next()
        assert series is not None
        assert series.due <= self.now
        self.book.wrote(series, series.count, self.now)
        return series

    def due(self) -> float | None:
        series = self.book.next()
        return None if series is None else series.due


@pytest.fixture
def environment() -> SeriesEnvironment:
    return SeriesEnvironment()


def test_the_first_report_is_due_at_once(environment: SeriesEnvironment) -> None:
    environment.now = 7.0
    environment.accept(report())
    assert environment.due() == 7.0


def test_equal_reports_are_one_series_that_counts(environment: SeriesEnvironment) -> None:
    for second in range(5):
        environment.now = float(second)
        assert environment.accept(report()) is EventReportResult.ACCEPTED
    series = environment.write()
    assert (series.count, len(environment.book)) == (5, 1)
    assert (series.first, series.last) == (START, START + timedelta(seconds=4))


@pytest.mark.parametrize(
    "other",
    [
        report("another message"),
        report(name="line-2"),
        EventReport(about(), EventType.NORMAL, Reason.SOURCE_UNREACHABLE, "no route"),
        EventReport(about(), EventType.WARNING, Reason.REF_NOT_FOUND, "no route"),
    ],
)
def test_reports_that_differ_in_anything_are_different_series(
    environment: SeriesEnvironment, other: EventReport
) -> None:
    environment.accept(report())
    environment.accept(other)
    assert environment.book.pending == 2


def test_what_is_written_is_not_due_until_it_is_reported_again(environment: SeriesEnvironment) -> None:
    environment.accept(report())
    environment.write()
    assert environment.due() is None
    environment.accept(report())
    assert environment.due() == 30.0


def test_a_steady_report_is_written_ever_more_seldom(environment: SeriesEnvironment) -> None:
    writes = []
    for second in range(3600):
        environment.now = float(second)
        environment.accept(report())
        due = environment.due()
        if due is not None and due <= environment.now:
            environment.write()
            writes.append(second)
    assert writes[:7] == [0, 30, 90, 210, 450, 750, 1050]
    assert len(writes) == 15
    assert len(environment.book) == 1


def test_reports_during_a_write_are_still_pending_after_it(environment: SeriesEnvironment) -> None:
    environment.accept(report())
    series = environment.book.next()
    assert series is not None
    count = series.count
    environment.accept(report())
    environment.book.wrote(series, count, environment.now)
    assert environment.due() == 30.0


def test_after_a_silence_the_same_report_is_a_new_series(environment: SeriesEnvironment) -> None:
    environment.accept(report())
    first = environment.write()
    environment.now = 600.0
    environment.accept(report())
    second = environment.write()
    assert second is not first
    assert (second.count, second.first) == (1, START + timedelta(seconds=600))


def test_a_series_that_could_not_be_written_does_not_end_with_the_window(
    environment: SeriesEnvironment,
) -> None:
    environment.accept(report())
    environment.now = 5000.0
    environment.accept(report())
    assert environment.write().count == 2


def test_a_series_that_the_server_refused_is_forgotten(environment: SeriesEnvironment) -> None:
    environment.accept(report())
    series = environment.book.next()
    assert series is not None
    environment.book.drop(series)
    assert (len(environment.book), environment.book.pending) == (0, 0)


def test_an_object_that_keeps_saying_new_things_runs_out_of_credit(environment: SeriesEnvironment) -> None:
    fates = [environment.accept(report(f"failure {number}")) for number in range(30)]
    assert fates == [EventReportResult.ACCEPTED] * 25 + [EventReportResult.RATE_LIMITED] * 5
    environment.now = 299.0
    assert environment.accept(report("too early")) is EventReportResult.RATE_LIMITED
    environment.now = 300.0
    assert environment.accept(report("one more")) is EventReportResult.ACCEPTED
    assert environment.accept(report("and another")) is EventReportResult.RATE_LIMITED


def test_credit_grows_back_to_the_burst_and_not_beyond() -> None:
    environment = SeriesEnvironment(EventLimits(capacity=100_000))
    for number in range(25):
        environment.accept(report(f"{number}"))
    environment.now = 1e6
    fates = [environment.accept(report(f"later {number}")) for number in range(30)]
    assert fates.count(EventReportResult.ACCEPTED) == 25


def test_repetitions_cost_no_credit(environment: SeriesEnvironment) -> None:
    for _ in range(1000):
        environment.accept(report())
    fates = [environment.accept(report(f"failure {number}")) for number in range(25)]
    assert fates.count(EventReportResult.ACCEPTED) == 24


def test_one_noisy_object_takes_nothing_from_another(environment: SeriesEnvironment) -> None:
    for number in range(30):
        environment.accept(report(f"failure {number}"))
    assert environment.accept(report(name="line-2")) is EventReportResult.ACCEPTED


def test_what_finds_no_room_is_refused_while_nothing_can_be_written() -> None:
    environment = SeriesEnvironment(EventLimits(capacity=10))
    fates = [environment.accept(report(name=f"line-{number}")) for number in range(15)]
    assert fates == [EventReportResult.ACCEPTED] * 10 + [EventReportResult.FULL] * 5
    assert environment.accept(report(name="line-3")) is EventReportResult.ACCEPTED  # it has its place already
    assert len(environment.book) == 10


def test_series_that_are_written_make_room_the_most_silent_first() -> None:
    environment = SeriesEnvironment(EventLimits(capacity=3))
    for name in ("a", "b", "c"):
        environment.accept(report(name=name))
        environment.write()
    environment.accept(report(name="a"))
    environment.now = 30.0
    environment.write()
    assert environment.accept(report(name="d")) is EventReportResult.ACCEPTED
    environment.write()
    assert len(environment.book) == 3
    environment.accept(report(name="a"))
    environment.now = 100.0
    assert environment.write().count == 3  # its series was kept, that of b had to go


def test_series_that_are_over_all_make_room_together() -> None:
    environment = SeriesEnvironment(EventLimits(capacity=10))
    for number in range(10):
        environment.accept(report(name=f"line-{number}"))
        environment.write()
    environment.now = 601.0
    environment.accept(report(name="new"))
    assert len(environment.book) == 1


def test_the_credits_of_many_objects_take_bounded_room() -> None:
    environment = SeriesEnvironment(EventLimits(capacity=10, burst=1))
    for number in range(100):
        environment.accept(report(name=f"line-{number}"))
        environment.write()
    assert len(environment.book) <= 10
    assert environment.accept(report("again", name="line-99")) is EventReportResult.RATE_LIMITED
    assert (
        environment.accept(report("again", name="line-0")) is EventReportResult.ACCEPTED
    )  # forgotten, so it starts anew
