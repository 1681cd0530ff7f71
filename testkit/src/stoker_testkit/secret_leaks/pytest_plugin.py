"""No credential is seen in all that a run of tests leaves: the part of it that pytest plays.

Loaded by `-p`, before any test or fixture is imported, because credentials are made at
import as well. From then on what commands print and which command lines there are is kept;
when the last worker has gone, everything is searched (`stoker_testkit.secret_leaks.leak_scan`). What is
found fails the run, by name and place; for files that tests may have written themselves it only warns.
It is no part of the product's own programs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import click.testing
import pytest

from stoker_testkit.secret_leaks.captured_output import keep
from stoker_testkit.secret_leaks.leak_scan import LeakScan
from stoker_testkit.secret_leaks.process_command_lines import CommandLines, program_of
from stoker_testkit.secret_leaks.tracked_credentials import RUN

WORTH_TELLING = 1.0
OLD_SECONDS = 86400.0
OF_PEOPLE = ("curl", "helm", "kubectl")
"""Programs that none of ours starts: a test has written their command lines."""
LEFT_ALONE = ("pytest-of-*", "stoker-tests-*", "stoker-run-*")
"""Folders of the system's temporary one that are looked at by themselves, or are another run's."""

_TEMPORARY = Path(tempfile.gettempdir())
_BEFORE = frozenset(_TEMPORARY.iterdir())
_IS_FIRST = RUN not in os.environ  # the workers of xdist inherit it
if _IS_FIRST:
    for _one in _TEMPORARY.glob("stoker-run-*"):  # of runs that were killed
        with suppress(OSError):
            if time.time() - _one.stat().st_mtime > OLD_SECONDS:
                shutil.rmtree(_one, ignore_errors=True)
    os.environ[RUN] = tempfile.mkdtemp(prefix="stoker-run-")
_RUN = Path(os.environ[RUN])
_LINES = CommandLines()
_LINK = re.compile(r"(dashboard: http://127\.0\.0\.1:\d+/#token=)[\w-]+")


def pytest_configure() -> None:
    subprocess.Popen.communicate = _heard(subprocess.Popen.communicate)  # type: ignore[method-assign]
    click.testing.CliRunner.invoke = _noted(click.testing.CliRunner.invoke)  # type: ignore[method-assign]
    if _IS_FIRST:
        _LINES.start()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    output = [text for _, text in report.sections]
    if _IS_FIRST and output and report.when == "teardown":  # by then it has the sections of all phases
        keep("said", f"the output of {report.nodeid}", *output)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Any:
    result = yield  # the workers end, and control planes show what they have when they are left
    if _IS_FIRST and not session.config.option.collectonly:
        _LINES.stop()
        for line in _LINES.seen:
            if program_of(line).rpartition("/")[2] not in OF_PEOPLE:
                keep("lines", f"the command line of {program_of(line)}", line.replace(b"\0", b" "))
        _judge(session)
    return result


def pytest_unconfigure() -> None:
    if _IS_FIRST and not (_RUN / "found").exists():
        shutil.rmtree(_RUN, ignore_errors=True)


def _judge(session: pytest.Session) -> None:
    before = os.times()
    look = LeakScan(_RUN)
    found = look.found(_folders(session.config))
    spent = sum(os.times()[:4]) - sum(before[:4])
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if found or spent > WORTH_TELLING:
        terminal.ensure_newline()
        terminal.write_line(f"looked for {look.summary}: {len(found)} seen, {spent:.1f} s of CPU")
    if found:
        (_RUN / "found").write_text("\n".join(found))
        for line in found:
            certain = line not in look.doubtful
            terminal.write_line(f"{'SEEN' if certain else 'LEFT'} {line}", red=certain, yellow=not certain)
    if set(found) - look.doubtful:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _folders(config: pytest.Config) -> list[Path]:
    """The folders with leftovers of tests."""
    factory = getattr(config, "_tmp_path_factory", None)
    base = getattr(factory, "_basetemp", None) or getattr(factory, "_given_basetemp", None)
    new = set(_TEMPORARY.iterdir()) - _BEFORE
    fresh = [one for one in new if not any(one.match(pattern) for pattern in LEFT_ALONE)]
    return [*([base] if base is not None else []), *fresh]


def _heard(communicate: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what programs of ours say to the tests that start them."""

    @wraps(communicate)
    def heard(process: Any, *arguments: Any, **named: Any) -> Any:
        output = communicate(process, *arguments, **named)
        if _is_ours(process.args):
            keep("said", f"the output of {_words(process.args)}", *(_decoded(one) for one in output if one))
        return output

    return heard


def _noted(invoke: Callable[..., Any]) -> Callable[..., Any]:
    """The same for commands that are called without a process of their own."""

    @wraps(invoke)
    def noted(runner: Any, *arguments: Any, **named: Any) -> Any:
        result = invoke(runner, *arguments, **named)
        keep("said", f"the output of {_words(arguments[1:] and arguments[1])}", result.output)
        return result

    return noted


def _is_ours(arguments: object) -> bool:
    words = [arguments] if isinstance(arguments, str | bytes | os.PathLike) else list(_sequence(arguments))
    return any(os.fsdecode(word).rpartition("/")[2] in ("stoker", "stoker.cli") for word in words[:4])


def _decoded(output: str | bytes) -> str:
    """The output without the links of the demo: a user opens them, and they end with the demo."""
    text = output if isinstance(output, str) else output.decode(errors="replace")
    return _LINK.sub(r"\1", text)


def _words(arguments: object) -> str:
    """The verb and the names of its options, without their values."""
    words = [os.fsdecode(one) for one in _sequence(arguments)]
    return " ".join(word.partition("=")[0] for word in words if not word.startswith("/"))[:200]


def _sequence(arguments: object) -> Sequence[Any]:
    return arguments if isinstance(arguments, list | tuple) else ()
