"""Log lines: events with keys, on standard error.

Every module takes its logger from `get_logger(__name__)` and says what happened
(`log.info("sync.done", files=3)`); the command that starts the process calls
`configure_logging` once. Lines are JSON for a collector, or readable when standard error
is a terminal. One id per pass is bound with `bind_pass` and rides on every line
of that pass, also on those of libraries, whose standard loggers are led here.

This module alone knows structlog. It must never show a secret (every value goes
through `stoker.telemetry.redaction`), never write to standard output, and never
fail: a line that cannot be written is lost, not the pass that wrote it.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TextIO, TypeAlias

from stoker.telemetry import structlog_light  # noqa: F401 - before anybody else loads structlog

# isort: split
import structlog
from structlog.contextvars import bound_contextvars, get_contextvars, merge_contextvars
from structlog.typing import FilteringBoundLogger as Logger

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured
from stoker.telemetry.redaction import PlainValue, describe_error, redact_items

__all__ = ["LogFormat", "Logger", "bind_pass", "configure_logging", "get_logger", "pass_id"]

LogFormat: TypeAlias = Literal["auto", "json", "console"]
_LogEvent: TypeAlias = MutableMapping[str, Any]  # structlog's own type for an event on its way

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MAX_LINE = 64 * 1024
"""Bytes, as a collector counts them."""
_LEADING_KEYS = ("timestamp", "level", "logger", "event")
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}


def get_logger(name: str) -> Logger:
    """The logger of one module."""
    logger: Logger = structlog.get_logger(name)
    return logger


@contextmanager
def bind_pass(**keys: object) -> Iterator[str]:
    """One pass over one thing: its fresh id and these keys stand on every line written meanwhile."""
    fresh = secrets.token_hex(6)
    with bound_contextvars(pass_id=fresh, **keys):
        yield fresh


def pass_id() -> str | None:
    """The id of the pass in which this is called."""
    found = get_contextvars().get("pass_id")
    return found if isinstance(found, str) else None


def configure_logging(
    *,
    level: str = "info",
    log_format: LogFormat = "auto",
    stream: TextIO | None = None,
    clock: Clock | None = None,
) -> None:
    """Set the threshold and the form for the whole process, including what libraries log."""
    if level not in LEVELS:
        raise Misconfigured(f"log level {level[:40]!r} is none of {', '.join(LEVELS)}")
    if log_format not in {"auto", "json", "console"}:
        raise Misconfigured(f"log format {log_format[:40]!r} is none of auto, json, console")
    pipeline = _LogPipeline(_LogSink(stream), log_format, clock or SystemClock())
    _install(pipeline, LEVELS[level])
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _LibraryLogHandler):
            root.removeHandler(handler)
    root.addHandler(_LibraryLogHandler(pipeline))
    root.setLevel(max(LEVELS[level], logging.INFO))  # what libraries say while debugging is not about us
    logging.captureWarnings(True)


class _LogSink:
    """The end of the line. Without a stream of its own it follows whatever standard error is now."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def stream(self) -> TextIO:
        return self._stream or sys.stderr

    def write(self, line: str) -> None:
        # A closed pipe or a full disk behind standard error is no reason to stop a sync.
        with suppress(OSError, ValueError):
            self.stream.write(line + "\n")
            self.stream.flush()


class _NamedLogger:
    """What structlog calls a logger: the name of the module that speaks, and where its lines end."""

    __slots__ = ("name", "write")

    def __init__(self, name: str, sink: _LogSink) -> None:
        self.name = name
        self.write = sink.write

    def __getattr__(self, level: str) -> Callable[[str], None]:
        return self.write  # whatever the level, a line is a line


class _LogPipeline:
    """From an event to a line; ours and the libraries' take the same way."""

    def __init__(self, sink: _LogSink, log_format: LogFormat, clock: Clock) -> None:
        self.sink = sink
        self._clock = clock
        self._format = log_format

    def __call__(self, logger: _NamedLogger, method: str, event: _LogEvent) -> str:
        """What structlog calls with each event that passed the threshold."""
        return self.line(method, merge_contextvars(logger, method, {"logger": logger.name, **event}))

    def line(self, level: str, event: _LogEvent) -> str:
        error = _error_of(event.pop("exc_info", None))
        event.pop("stack_info", None)
        event["timestamp"] = self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event["level"] = level
        ordered = {key: event.pop(key) for key in _LEADING_KEYS if key in event}
        shown = redact_items({**ordered, **event})
        if error is not None:
            shown["exception"] = describe_error(error, trace=True)
        return _console_line(shown, self._coloured) if self._readable else _json_line(shown)

    @property
    def _readable(self) -> bool:
        return self._format == "console" or (self._format == "auto" and _is_terminal(self.sink.stream))

    @property
    def _coloured(self) -> bool:
        return "NO_COLOR" not in os.environ and _is_terminal(self.sink.stream)


class _LibraryLogHandler(logging.Handler):
    """Takes what libraries hand to the standard logging module."""

    def __init__(self, pipeline: _LogPipeline) -> None:
        super().__init__()
        self._pipeline = pipeline

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)  # the library's own mistake: arguments that do not fit its text
        event: _LogEvent = {**get_contextvars(), "event": message, "logger": record.name}
        if record.exc_info:
            event["exc_info"] = record.exc_info
        self._pipeline.sink.write(self._pipeline.line(record.levelname.lower(), event))


def _install(pipeline: _LogPipeline, threshold: int) -> None:
    structlog.configure(
        processors=[pipeline],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda name="": _NamedLogger(name, pipeline.sink),
        # Loggers are module globals: cached, they would keep the form they had before `configure_logging`.
        cache_logger_on_first_use=False,
    )


def _error_of(exc_info: object) -> BaseException | None:
    """What a caller may pass as `exc_info`: an error, the triple of `sys.exc_info`, or a plain yes."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return exc_info[1] if len(exc_info) == 3 and isinstance(exc_info[1], BaseException) else None
    return sys.exc_info()[1] if exc_info else None


def _json_line(shown: dict[str, PlainValue]) -> str:
    line = _one_line(shown)
    size = len(line.encode())
    if size <= MAX_LINE:
        return line
    kept = {key: shown[key] for key in (*_LEADING_KEYS, "pass_id") if key in shown}
    return _one_line({**kept, "cut": f"a line of {size} bytes"})


def _one_line(shown: dict[str, PlainValue]) -> str:
    line = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    # Lines are read on terminals too; what could steer one is escaped.
    return line if line.isprintable() else json.dumps(shown, separators=(",", ":"))


def _console_line(shown: dict[str, PlainValue], coloured: bool) -> str:
    level, stamp = str(shown.pop("level")), str(shown.pop("timestamp"))
    logger, event = shown.pop("logger", None), _printable(str(shown.pop("event", "")))
    error = shown.pop("exception", None)
    label = f"{level:<8}"
    if coloured:
        label = f"\x1b[{_COLOURS.get(level, '0')}m{label}\x1b[0m"
    keys = " ".join(f"{key}={_console_value(value)}" for key, value in shown.items())
    line = _truncate_line(f"{stamp[11:23]} {label} {event}  {keys}".rstrip())
    if logger is not None:
        line += f"  [{_printable(str(logger))}]"
    if isinstance(error, dict):
        line += "\n" + _printable(str(error["trace"]), keep="\n").rstrip()
    return line


def _truncate_line(line: str) -> str:
    """At most so many bytes, and no half of a character."""
    return line if len(line) * 4 <= MAX_LINE else line.encode()[:MAX_LINE].decode(errors="ignore")


def _console_value(value: PlainValue) -> str:
    if isinstance(value, str) and value.isprintable() and value and " " not in value:
        return value
    return _printable(json.dumps(value, ensure_ascii=False))


def _printable(text: str, keep: str = "") -> str:
    """Without characters that move the cursor or turn the text: values come from other people."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


# Before a command has spoken, warnings and worse are heard, and standard output stays clean.
_install(_LogPipeline(_LogSink(None), "auto", SystemClock()), logging.WARNING)
