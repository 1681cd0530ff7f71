"""Actions of the backup of a redundant pair, as a table of sentences."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.domain.intent.policies import RedundancyRole
from stoker.domain.reasons import Reason
from stoker.ignition.sync.redundancy import (
    SILENT_SECONDS,
    BackupAction,
    PrimaryHealth,
    PrimaryReport,
    RedundancyState,
    decide_redundancy,
)

OLD, NEW = "a" * 40, "b" * 40
NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT_NEW = PrimaryReport(NEW, scanned=True, at=NOW)
BACKUP = RedundancyState(wanted=NEW, here=OLD, role=RedundancyRole.BACKUP, peer="line-1", primary=AT_NEW)


@pytest.mark.parametrize(
    ("pair", "course"),
    [
        pytest.param(RedundancyState(wanted=NEW), BackupAction.SYNC, id="a standalone gateway syncs"),
        pytest.param(replace(BACKUP, role=RedundancyRole.PRIMARY), BackupAction.SYNC, id="a primary syncs"),
        pytest.param(
            replace(BACKUP, role=RedundancyRole.STANDALONE, said="Master"),
            BackupAction.SYNC,
            id="so does one whose gateway calls itself master",
        ),
        pytest.param(
            replace(BACKUP, role=RedundancyRole.STANDALONE, said="Independent"),
            BackupAction.SYNC,
            id="and one that calls itself independent",
        ),
        pytest.param(
            replace(BACKUP, role=RedundancyRole.STANDALONE, said="Backup", primary=None),
            BackupAction.WAIT,
            id="a gateway that calls itself backup is one",
        ),
        pytest.param(
            replace(BACKUP, role=RedundancyRole.PRIMARY, said="Backup", primary=None),
            BackupAction.SYNC,
            id="an annotation wins over the gateway's own word",
        ),
        pytest.param(
            replace(BACKUP, initial=True, primary=None),
            BackupAction.SYNC,
            id="before the first start there is no wait",
        ),
        pytest.param(
            replace(BACKUP, peer=""), BackupAction.SYNC, id="a backup without a primary syncs, with a warning"
        ),
        pytest.param(
            replace(BACKUP, primary=None), BackupAction.WAIT, id="it waits for one that has not reported"
        ),
        pytest.param(
            replace(BACKUP, primary=PrimaryReport(OLD, scanned=True, at=NOW)),
            BackupAction.WAIT,
            id="and for one that is at another commit",
        ),
        pytest.param(
            replace(BACKUP, primary=replace(AT_NEW, scanned=False)),
            BackupAction.WAIT,
            id="and for one whose gateway has not accepted the scan",
        ),
        pytest.param(BACKUP, BackupAction.SYNC, id="it follows a primary that has loaded the commit"),
        pytest.param(
            replace(BACKUP, here=NEW), BackupAction.SKIP, id="at the same commit it leaves everything"
        ),
        pytest.param(
            replace(BACKUP, failed_checks=1, primary=None), BackupAction.WAIT, id="one failure is none"
        ),
        pytest.param(
            replace(BACKUP, failed_checks=2, primary=None), BackupAction.PROMOTE, id="two are enough"
        ),
        pytest.param(
            replace(BACKUP, failed_checks=2, here=NEW),
            BackupAction.PROMOTE,
            id="whatever the last report said",
        ),
    ],
)
def test_course(pair: RedundancyState, course: BackupAction) -> None:
    assert decide_redundancy(pair).course is course


def test_a_promotion_is_a_warning_that_names_the_primary() -> None:
    decision = decide_redundancy(replace(BACKUP, failed_checks=3))
    assert decision.warning
    assert decision.reason is Reason.PRIMARY_UNAVAILABLE
    assert "primary line-1 did not answer 3 times" in decision.why


def test_waiting_says_what_for() -> None:
    decision = decide_redundancy(replace(BACKUP, primary=PrimaryReport(OLD, scanned=True, at=NOW)))
    assert decision.reason is Reason.WAITING_FOR_PRIMARY
    assert not decision.warning
    assert decision.why == "primary line-1 is at aaaaaaaa; this backup waits until it has loaded bbbbbbbb"


def test_a_primary_that_is_back_is_waited_for_again() -> None:
    watch = PrimaryHealth()
    courses = []
    for well in (True, False, False, False, True, False):
        watch.checked(well=well)
        courses.append(
            decide_redundancy(replace(BACKUP, primary=None, failed_checks=watch.failed_checks)).course
        )
        assert watch.promoted == (courses[-1] is BackupAction.PROMOTE)
    assert courses == [BackupAction.WAIT] * 2 + [BackupAction.PROMOTE] * 2 + [BackupAction.WAIT] * 2


@pytest.mark.parametrize(
    ("age", "silent"), [(0.0, False), (SILENT_SECONDS, False), (SILENT_SECONDS + 1, True), (-60.0, False)]
)
def test_a_report_that_was_not_renewed_is_of_an_agent_that_is_gone(age: float, silent: bool) -> None:
    report = replace(AT_NEW, at=NOW - timedelta(seconds=age))
    assert report.is_silent(NOW) is silent
    assert report.is_well(NOW) is not silent


def test_an_agent_that_reports_a_gateway_which_does_not_answer_is_not_well() -> None:
    assert not replace(AT_NEW, down=True).is_well(NOW)


def test_a_report_without_a_time_is_not_used() -> None:
    assert PrimaryReport(NEW, scanned=True).is_silent(NOW)
