"""Lines are events with keys, bounded, readable by machines and people, and never show a secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from stoker.domain.errors import Misconfigured, Stalled
from stoker.telemetry import logs
from stoker_testkit.manual_clock import ManualClock

CANARY = "c4n4ry-S3cr3t"
log = logs.get_logger("tests.logs")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    lines = io.StringIO()
    logs.configure_logging(level="debug", log_format="json", stream=lines)
    yield lines
    logs.configure_logging()


def events(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def only(stream: io.StringIO) -> dict[str, object]:
    (event,) = events(stream)
    return event


def test_a_line_is_an_event_with_keys(stream: io.StringIO) -> None:
    log.info("sync.done", files=3, names=["a", "b"], nothing=None, ratio=0.5, ok=True)
    event = only(stream)
    assert list(event)[:4] == ["timestamp", "level", "logger", "event"]
    assert event["level"] == "info"
    assert event["logger"] == "tests.logs"
    assert event["event"] == "sync.done"
    assert (event["files"], event["names"], event["nothing"]) == (3, ["a", "b"], None)
    assert (event["ratio"], event["ok"]) == (0.5, True)


def test_time_is_utc_with_milliseconds() -> None:
    lines = io.StringIO()
    moment = datetime(2031, 2, 3, 4, 5, 6, 7_999, tzinfo=UTC)
    logs.configure_logging(log_format="json", stream=lines, clock=ManualClock(moment))
    log.info("x")
    logs.configure_logging()
    assert only(lines)["timestamp"] == "2031-02-03T04:05:06.007Z"


def test_below_the_threshold_nothing_is_written() -> None:
    lines = io.StringIO()
    logs.configure_logging(level="warning", log_format="json", stream=lines)
    log.info("quiet")
    logging.getLogger("some.library").info("quiet too")
    log.warning("loud")
    logs.configure_logging()
    assert [event["event"] for event in events(lines)] == ["loud"]


@pytest.mark.parametrize(
    ("level", "log_format", "words"),
    [("verbose", "json", "log level 'verbose'"), ("info", "xml", "log format 'xml'")],
)
def test_an_unknown_setting_is_refused_by_name(level: str, log_format: logs.LogFormat, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        logs.configure_logging(level=level, log_format=log_format)


def test_one_id_is_on_every_line_of_a_pass(stream: io.StringIO) -> None:
    with logs.bind_pass(cr="plant/site") as first:
        log.info("one")
        logging.getLogger("some.library").warning("two")
        assert logs.pass_id() == first
    with logs.bind_pass() as second:
        log.info("three")
    log.info("four")
    one, two, three, four = events(stream)
    assert one["pass_id"] == two["pass_id"] == first
    assert one["cr"] == two["cr"] == "plant/site"
    assert three["pass_id"] == second != first
    assert "pass_id" not in four
    assert logs.pass_id() is None


async def test_passes_that_run_side_by_side_keep_their_own_id(stream: io.StringIO) -> None:
    both = asyncio.Barrier(2)

    async def one_pass(name: str) -> str:
        with logs.bind_pass(name=name) as mine:
            await both.wait()
            log.info("inside", name_again=name)
            return mine

    ids = await asyncio.gather(one_pass("a"), one_pass("b"))
    seen = {event["name_again"]: event["pass_id"] for event in events(stream)}
    assert seen == {"a": ids[0], "b": ids[1]}


def test_an_exception_is_one_bounded_field(stream: io.StringIO) -> None:
    def deep(level: int) -> None:
        if level == 0:
            raise Stalled("x" * 100_000)
        deep(level - 1)

    try:
        deep(200)
    except Stalled:
        log.exception("pass.failed", cr="a/b")
    event = only(stream)
    described = event["exception"]
    assert isinstance(described, dict)
    assert described["type"] == "Stalled"
    assert described["reason"] == "Stalled"
    assert "deep(level - 1)" in described["trace"]
    assert len(json.dumps(event)) < 16 * 1024
    assert len(stream.getvalue().splitlines()) == 1


def test_an_error_given_by_hand_is_described_with_its_reason(stream: io.StringIO) -> None:
    log.warning("renew.failed", error=Misconfigured("port 1 is taken"))
    log.warning("renew.failed", exc_info=Misconfigured("port 2 is taken"))
    log.warning("renew.failed", exc_info=True)
    by_key, by_exc_info, outside_of_any = events(stream)
    assert by_key["error"] == {
        "type": "Misconfigured",
        "reason": "Misconfigured",
        "message": "port 1 is taken",
    }
    assert by_exc_info["exception"]["message"] == "port 2 is taken"  # type: ignore[index]
    assert "exception" not in outside_of_any


def test_an_exception_that_caused_itself_is_shown_once(stream: io.StringIO) -> None:
    error = ValueError("ring")
    error.__cause__ = RuntimeError("other half")
    error.__cause__.__cause__ = error
    log.error("x", exc_info=error)
    assert str(only(stream)["exception"]).count("ValueError: ring") == 1


def test_values_are_bounded(stream: io.StringIO) -> None:
    log.info(
        "big", text="x" * 1_000_000, many=list(range(1_000_000)), wide={str(i): i for i in range(10_000)}
    )
    event = only(stream)
    assert str(event["text"]).endswith("(1000000 characters)")
    assert len(stream.getvalue()) < logs.MAX_LINE + 1024


@pytest.mark.parametrize("letter", ["y", "ß", "\u202e", "\U0001f525"], ids=ascii)
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_line_has_more_bytes_than_a_collector_takes(letter: str, log_format: logs.LogFormat) -> None:
    lines = io.StringIO()
    logs.configure_logging(log_format=log_format, stream=lines)
    log.info("huge", **{f"key{i}": letter * 7000 for i in range(9)})
    logs.configure_logging()
    (line,) = lines.getvalue().splitlines()
    assert len(line.encode()) <= logs.MAX_LINE + len("  [tests.logs]")


def test_a_line_that_is_still_too_long_keeps_its_event_and_pass_id(stream: io.StringIO) -> None:
    with logs.bind_pass() as mine:
        log.info("huge", **{f"key{i}": "y" * 8000 for i in range(100)})
    event = only(stream)
    assert (event["event"], event["pass_id"]) == ("huge", mine)
    assert "cut" in event


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("not for anybody")


def test_depth_is_bounded(stream: io.StringIO) -> None:
    ring: list[object] = []
    ring.append(ring)
    log.info("ring", ring=ring)
    assert "<list of 1>" in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (2**80, "<integer of 81 bits>"),
        ([-(1 << 20_000)], ["<integer of 20001 bits>"]),
        (b"12345", "<5 bytes>"),
        ("broken \udcff name", "broken \\udcff name"),
        (datetime(2031, 1, 1, tzinfo=timezone(timedelta(hours=1))), "2031-01-01T00:00:00+01:00"),
        (Unshowable(), "<Unshowable that cannot be shown>"),
        ({1: {2}}, {"1": [2]}),
    ],
)
def test_any_value_becomes_json(stream: io.StringIO, value: object, shown: object) -> None:
    log.info("odd", value=value)
    assert only(stream)["value"] == shown


def test_hostile_text_cannot_steer_a_terminal() -> None:
    formats: tuple[logs.LogFormat, ...] = ("json", "console")
    for log_format in formats:
        lines = io.StringIO()
        logs.configure_logging(log_format=log_format, stream=lines)
        log.info("branch \x1b[2J", name="\x9b31m\u202egnp.exe\r\nfake line")
        try:
            raise ValueError("\x1b]0;title\x07")
        except ValueError:
            log.exception("bad")
        logs.configure_logging()
        text = lines.getvalue()
        assert not {"\x1b", "\x9b", "\u202e", "\r", "\x07"} & set(text)
        assert "fake line" not in [line.strip() for line in text.splitlines()]


def test_a_closed_stream_loses_the_line_and_nothing_else() -> None:
    lines = io.StringIO()
    logs.configure_logging(stream=lines)
    lines.close()
    log.error("into the void")
    heard = io.StringIO()
    logs.configure_logging(stream=heard)
    log.error("heard again")
    assert "heard again" in heard.getvalue()
    assert "into the void" not in heard.getvalue()
    logs.configure_logging()


SPEAKER = """
from stoker.telemetry import logs
log = logs.get_logger("speaker")
log.info("before")
log.warning("early", password="c4n4ry-S3cr3t")
logs.configure_logging(log_format="auto")
log.info("after", files=3, note="two words")
log.error("bad")
"""

# What pytest's own log and warning catchers would keep from arriving in this process.
LIBRARY = """
import logging, warnings
from stoker.telemetry import logs
logs.configure_logging(log_format="json")
warnings.warn("deprecated: https://user:c4n4ry-S3cr3t@host")
logging.getLogger("some.library").warning("only %s of %s", "one")
"""


def test_standard_error_carries_json_and_standard_output_stays_clean() -> None:
    done = subprocess.run([sys.executable, "-c", SPEAKER], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    seen = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert seen == ["early", "after", "bad"]
    assert CANARY not in done.stderr


@pytest.mark.parametrize("no_color", [False, True])
def test_on_a_terminal_lines_are_for_people(no_color: bool) -> None:
    master, slave = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    if no_color:
        environment["NO_COLOR"] = "1"
    subprocess.run([sys.executable, "-c", SPEAKER], stderr=slave, check=True, env=environment)
    os.close(slave)
    text = os.read(master, 65536).decode()
    os.close(master)
    assert 'after  files=3 note="two words"  [speaker]' in text
    assert ("\x1b[31m" in text) is not no_color
    assert CANARY not in text


def test_warnings_and_miswritten_lines_of_libraries_arrive_too() -> None:
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=True)
    warned, miswritten = [json.loads(line) for line in done.stderr.splitlines()]
    assert "deprecated: https://<secret>@host" in warned["event"]
    assert miswritten["event"] == "only %s of %s"
    assert CANARY not in done.stderr
