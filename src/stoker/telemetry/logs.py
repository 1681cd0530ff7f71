"""Structured log lines on standard error.

Every module takes its logger from `get_logger(__name__)` and logs events with keys
(`log.info("sync.done", files=3)`); the command that starts the process calls `configure_logging` once.
Lines are JSON for a log collector, or readable text if standard error is a terminal. `bind_pass` binds an
id to one sync or reconcile; every line written meanwhile carries it, also those of libraries, whose
standard loggers are redirected here.

Only this module imports structlog. It must never log a secret (every value goes through
`stoker.telemetry.redaction`), never write to standard output, and never fail: a failed write loses the
line, but does not stop the sync that logged it.
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

from stoker.domain.text import escape_unprintable
from stoker.telemetry import structlog_light  # noqa: F401 - must be the first import of structlog

# isort: split
import structlog
from structlog.contextvars import bound_contextvars, get_contextvars, merge_contextvars
from structlog.typing import FilteringBoundLogger as Logger

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured
from stoker.telemetry.redaction import PlainValue, describe_error, redact_items

__all__ = ["LogFormat", "Logger", "bind_pass", "configure_logging", "get_logger", "pass_id"]

LogFormat: TypeAlias = Literal["auto", "json", "console"]
_LogEvent: TypeAlias = MutableMapping[str, Any]  # structlog's own type of an event

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MAX_LINE = 64 * 1024
"""Limit of a line in bytes, as log collectors count."""
_LEADING_KEYS = ("timestamp", "level", "logger", "event")
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    logger: Logger = structlog.get_logger(name)
    return logger


@contextmanager
def bind_pass(**keys: object) -> Iterator[str]:
    """Bind a new id and these keys to every line logged inside the `with`: one sync or one reconcile."""
    fresh = secrets.token_hex(6)
    with bound_contextvars(pass_id=fresh, **keys):
        yield fresh


def pass_id() -> str | None:
    """Return the id of the current sync or reconcile."""
    found = get_contextvars().get("pass_id")
    return found if isinstance(found, str) else None


def configure_logging(
    *,
    level: str = "info",
    log_format: LogFormat = "auto",
    stream: TextIO | None = None,
    clock: Clock | None = None,
) -> None:
    """Set level and format for the whole process, including the logs of libraries."""
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
    root.setLevel(max(LEVELS[level], logging.INFO))  # debug logs of libraries are not useful here
    logging.captureWarnings(True)


class _LogSink:
    """The output stream. Without a stream of its own, it writes to the current `sys.stderr`."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def stream(self) -> TextIO:
        return self._stream or sys.stderr

    def write(self, line: str) -> None:
        # A closed pipe or a full disk behind standard error must not stop a sync.
        with suppress(OSError, ValueError):
            self.stream.write(line + "\n")
            self.stream.flush()


class _NamedLogger:
    """The logger object that structlog wraps: a module's name and its output."""

    __slots__ = ("name", "write")

    def __init__(self, name: str, sink: _LogSink) -> None:
        self.name = name
        self.write = sink.write

    def __getattr__(self, level: str) -> Callable[[str], None]:
        return self.write  # all levels are written the same way


class _LogPipeline:
    """Formats an event as a line; used for our own events and those of libraries."""

    def __init__(self, sink: _LogSink, log_format: LogFormat, clock: Clock) -> None:
        self.sink = sink
        self._clock = clock
        self._format = log_format

    def __call__(self, logger: _NamedLogger, method: str, event: _LogEvent) -> str:
        """Format an event; structlog calls this for each event at or above the level."""
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
    """Receives log records of libraries from the standard logging module."""

    def __init__(self, pipeline: _LogPipeline) -> None:
        super().__init__()
        self._pipeline = pipeline

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)  # a bug of the library: its arguments do not fit its format
        event: _LogEvent = {**get_contextvars(), "event": message, "logger": record.name}
        if record.exc_info:
            event["exc_info"] = record.exc_info
        self._pipeline.sink.write(self._pipeline.line(record.levelname.lower(), event))


def _install(pipeline: _LogPipeline, threshold: int) -> None:
    structlog.configure(
        processors=[pipeline],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda name="": _NamedLogger(name, pipeline.sink),
        # Loggers are module globals: if cached, they would keep the format from before `configure_logging`.
        cache_logger_on_first_use=False,
    )


def _error_of(exc_info: object) -> BaseException | None:
    """Return the exception of an `exc_info` value: an exception, a `sys.exc_info` triple, or True."""
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
    # Lines are read on terminals too, so control sequences are escaped.
    return line if line.isprintable() else json.dumps(shown, separators=(",", ":"))


def _console_line(shown: dict[str, PlainValue], coloured: bool) -> str:
    level, stamp = str(shown.pop("level")), str(shown.pop("timestamp"))
    logger, event = shown.pop("logger", None), escape_unprintable(str(shown.pop("event", "")))
    error = shown.pop("exception", None)
    label = f"{level:<8}"
    if coloured:
        label = f"\x1b[{_COLOURS.get(level, '0')}m{label}\x1b[0m"
    keys = " ".join(f"{key}={_console_value(value)}" for key, value in shown.items())
    line = _truncate_line(f"{stamp[11:23]} {label} {event}  {keys}".rstrip())
    if logger is not None:
        line += f"  [{escape_unprintable(str(logger))}]"
    if isinstance(error, dict):
        line += "\n" + escape_unprintable(str(error["trace"]), keep="\n").rstrip()
    return line


def _truncate_line(line: str) -> str:
    """Truncate to the limit in bytes, without splitting a character."""
    return line if len(line) * 4 <= MAX_LINE else line.encode()[:MAX_LINE].decode(errors="ignore")


def _console_value(value: PlainValue) -> str:
    if isinstance(value, str) and value.isprintable() and value and " " not in value:
        return value
    return escape_unprintable(json.dumps(value, ensure_ascii=False))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


# Until a command calls `configure_logging`, only warnings and errors are logged; stdout stays clean.
_install(_LogPipeline(_LogSink(None), "auto", SystemClock()), logging.WARNING)
