"""Runs mutants inside one pytest: collect once, then fork a process for each mutant.

pytest imports and collects the tests, which takes seconds. The first forked process runs them all unchanged
and records which lines of the modules each test runs. Each mutant then gets a process of its own, which
replaces the code of the changed function and runs, fastest first, the tests that run its lines, up to the
first failure. No file is written but in the run's temporary folder. Programs that a test starts are not
changed: a mutant that only they would notice survives here.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from mutants.operators import Mutant

MEMORY = 4 << 30
LEAST_SECONDS = 15.0
TIMES_AS_LONG = 8.0
UNCHANGED_SECONDS = 1200.0
EXAMPLES = 25
SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps the settings of a decorated test; `settings` itself decorates a test only once."""


class Outcome(StrEnum):
    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    NOT_RUN = "run by no test"


@dataclass
class Coverage:
    """Per test that passes on the unchanged code: its seconds, and the lines of each module that it runs."""

    seconds: dict[int, float] = field(default_factory=dict)
    lines: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)

    def tests_for(self, file: str, mutant: Mutant) -> list[int]:
        places = {(file, line) for line in mutant.lines}
        return sorted(
            (test for test in self.lines if self.lines[test] & places), key=self.seconds.__getitem__
        )


class MutantRun:
    """The plugin: takes the place of pytest's loop over the tests."""

    def __init__(
        self,
        files: dict[str, Path],
        mutants: Sequence[Mutant],
        folder: Path,
        report: Callable[[Mutant, Outcome], None],
        note: Callable[[str], None],
    ) -> None:
        self._files, self._mutants, self._folder = files, mutants, folder
        self._report, self._note = report, note
        self.ended = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Failed("tests cannot be collected")
        _few_examples(session.items)
        gc.collect()
        gc.freeze()
        coverage = self._unchanged(session)
        for mutant in self._mutants:
            tests = coverage.tests_for(str(self._files[mutant.module]), mutant)
            self._report(
                mutant, self._outcome(session, mutant, tests, coverage) if tests else Outcome.NOT_RUN
            )
        self.ended = True
        return True

    def _unchanged(self, session: pytest.Session) -> Coverage:
        result = self._folder / "coverage"
        traced = frozenset(str(path) for path in self._files.values())
        self._in_child(lambda: _record(session, traced, result), UNCHANGED_SECONDS)
        if not result.exists():
            raise session.Failed("the unchanged code's tests did not end")
        coverage: Coverage = pickle.loads(result.read_bytes())  # noqa: S301 - written above
        for test in coverage.failed:
            self._note(f"left out, fails on unchanged code: {session.items[test].nodeid}")
        return coverage

    def _outcome(
        self, session: pytest.Session, mutant: Mutant, tests: list[int], coverage: Coverage
    ) -> Outcome:
        limit = LEAST_SECONDS + TIMES_AS_LONG * sum(coverage.seconds[test] for test in tests)
        status = self._in_child(lambda: _try(session, mutant, tests), limit)
        if status is None:
            return Outcome.TIMED_OUT
        return Outcome.SURVIVED if status == 0 else Outcome.KILLED

    def _in_child(self, work: Callable[[], bool], limit: float) -> int | None:
        """The exit status of the work in a forked process; None when it took too long."""
        scratch = self._folder / "scratch"
        scratch.mkdir()
        child = os.fork()
        if child == 0:
            _become_child(scratch)
            status = 1
            try:
                status = 0 if work() else 1
            finally:
                os._exit(status)
        descriptor = os.pidfd_open(child)
        ended, _, _ = select.select([descriptor], [], [], limit)
        os.close(descriptor)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a failed test started ends with it
        _, status = os.waitpid(child, 0)
        shutil.rmtree(scratch, ignore_errors=True)
        return status if ended else None


def _become_child(scratch: Path) -> None:
    """A process group of its own, a temporary folder of its own, no output, a limit of memory."""
    os.setsid()
    os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = str(scratch)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _record(session: pytest.Session, files: frozenset[str], result: Path) -> bool:
    coverage = Coverage()
    lines: set[tuple[str, int]] = set()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, _event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename in files else None

    outcomes = _Outcomes()
    session.config.pluginmanager.register(outcomes)
    threading.settrace(call)
    for at in range(len(session.items)):
        lines.clear()
        sys.settrace(call)
        began = time.perf_counter()
        passed = outcomes.of(session, at, session.items[at + 1] if at + 1 < len(session.items) else None)
        sys.settrace(None)
        if passed:
            coverage.seconds[at], coverage.lines[at] = time.perf_counter() - began, set(lines)
        else:
            coverage.failed.append(at)
    result.write_bytes(pickle.dumps(coverage))
    return True


def _try(session: pytest.Session, mutant: Mutant, tests: list[int]) -> bool:
    replace_code(mutant.code)
    outcomes = _Outcomes()
    session.config.pluginmanager.register(outcomes)
    following = [session.items[test] for test in tests[1:]]
    return all(
        outcomes.of(session, test, after) for test, after in zip(tests, [*following, None], strict=True)
    )


def _few_examples(items: Sequence[pytest.Item]) -> None:
    """A mutant that a law kills is killed by its first examples, and the smallest one is not asked for."""
    from hypothesis import Phase, settings  # noqa: PLC0415 - pytest must import it first

    for item in items:
        law = getattr(item, "obj", None)
        own: settings | None = getattr(law, SETTINGS, None)
        if own is not None:
            phases = (Phase.explicit, Phase.generate)
            few = settings(own, max_examples=min(EXAMPLES, own.max_examples), phases=phases, database=None)
            setattr(law, SETTINGS, few)


class _Outcomes:
    """Whether a test passed in all its phases."""

    def __init__(self) -> None:
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def of(self, session: pytest.Session, test: int, following: pytest.Item | None) -> bool:
        self._failed = False
        item = session.items[test]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self._failed


def replace_code(module: CodeType) -> None:
    """Give every imported function of the module its new code, also those that decorators wrap."""
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
    gc.unfreeze()
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == module.co_filename:
            code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code


def _codes(code: CodeType) -> list[CodeType]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [code, *(found for const in inner for found in _codes(const))]
