"""Plays a section of a page: its commands as one bash script, on a stage that has what they talk to.

The script is what a reader would have typed, with the names of the documentation replaced by
those of the environment. Between two fences it prints a sign, so that the output of each one is known.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Protocol

from stoker_testkit.docs_checks.markdown_page import Fence, Page
from stoker_testkit.docs_checks.yaml_fences import file_name

SIGN = "\x1e"
RUNS_ON, EXIT, NOT_PLAYED, SHOWS, FIRST = "runs on", "exit", "not played", "shows", "first"
MARKS = (RUNS_ON, EXIT, NOT_PLAYED, SHOWS, FIRST)


class DocsEnvironment(Protocol):
    """The environment in which a section runs."""

    folder: Path
    """The working folder of the commands."""
    names: dict[str, str]
    """The values for the names of the documentation."""
    environment: dict[str, str]

    def describe(self) -> str:
        """Details for the message of a failed section."""


@dataclass(frozen=True, slots=True)
class DocsSection:
    """The fences of one section."""

    page: str
    section: str
    stage: str
    fences: tuple[Fence, ...]

    @property
    def name(self) -> str:
        return f"{self.page}#{self.section}"


class DocsSectionFailed(AssertionError):
    """A command of a page did not do what the page says."""


def plays(pages: Sequence[Page]) -> list[DocsSection]:
    """Every section that names a stage, in the order of the pages."""
    found = []
    for page in pages:
        staged = [fence for fence in page.fences if fence.stage and fence.language in ("sh", "yaml")]
        for (section, stage), fences in groupby(staged, lambda one: (one.section, one.stage)):
            found.append(DocsSection(page.name, section, stage, tuple(fences)))
    return found


def play_and_check(play: DocsSection, stage: DocsEnvironment, seconds: float) -> None:
    """Run it; raises DocsSectionFailed with the fence at which it ended and its output."""
    script = "\n".join(_script(play, stage.names))
    log = stage.folder.parent / f"{play.name.replace('/', '-')}.log"
    with _running(script, stage, log, seconds) as (code, output):
        parts = output.split(SIGN)
        last = play.fences[int(parts[-1].partition(" ")[0])] if len(parts) > 1 else play.fences[0]
        if code:
            raise DocsSectionFailed(f"{last.place} ended with {code}:\n{output[-4000:]}\n{stage.describe()}")
        for part in parts[1:]:
            fence = play.fences[int(part.partition(" ")[0])]
            wanted = fence.mark(SHOWS)
            if wanted is not None and _named(wanted, stage.names) not in part.partition("\n")[2]:
                raise DocsSectionFailed(
                    f"{fence.place} does not show {wanted!r}, but:\n{part}\n{stage.describe()}"
                )


def _script(play: DocsSection, names: Mapping[str, str]) -> Iterator[str]:
    yield "set -euo pipefail"
    for number, fence in enumerate(play.fences):
        text = _named(fence.text, names)
        yield f"printf '{SIGN}{number} after %s s\\n' $SECONDS"
        if (what := fence.mark(FIRST)) is not None:
            yield what.replace(" ", "-")
        if fence.language == "yaml":
            if (name := file_name(fence.text)) is not None:
                yield f"cat > {_named(name, names)} <<'END-OF-FENCE'\n{text}END-OF-FENCE"
        elif fence.mark(NOT_PLAYED) is not None:
            continue
        elif fence.mark(RUNS_ON) is not None:
            yield f"(\n{text}) &"
        elif (code := fence.mark(EXIT)) is not None:
            # A variable that is set in here is lost: a fence that fails is no place for one.
            yield f"set +e\n(\nset -e\n{text})\nended=$?\nset -e\n[ $ended = {int(code)} ]"
        else:
            yield text


def _named(text: str, names: Mapping[str, str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"{re.escape(name)}(?![\w-])", lambda _, name=name: names[name], text)  # type: ignore[misc]
    return text


@contextlib.contextmanager
def _running(script: str, stage: DocsEnvironment, log: Path, seconds: float) -> Iterator[tuple[int, str]]:
    """Its exit code and its output; whatever it has started is ended with it."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=stage.folder,
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    yield code, log.read_text(errors="replace")
