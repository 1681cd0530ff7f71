"""Holds the commands of a page against the programs, the cluster's kinds and the files that they name.

One `CommandCheck` serves all pages of a run. Each finding is a sentence with the page and the
line. What a page writes for its reader, as a fence with a file's name or by a command, counts
as a file from there on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from stoker_testkit.docs_checks import stoker_cli_check
from stoker_testkit.docs_checks.allowlist import ELSEWHERE, UNIX, foreign_key
from stoker_testkit.docs_checks.markdown_page import ROOT, Fence, Page
from stoker_testkit.docs_checks.shell_parser import Command, commands, plain
from stoker_testkit.docs_checks.tool_help import (
    Call,
    InvalidCommand,
    Tool,
    bash_trouble,
    git_trouble,
    make_trouble,
)
from stoker_testkit.docs_checks.yaml_fences import file_name

OURS = re.compile(
    r"(?:charts|deploy|docs|examples|scripts|packaging|tests|config/(?:crd|samples|webhook))(?:/.*)?"
)
"""Paths that are in the repository, and not on a gateway or in a repository of the reader's."""
_PREFIXES = frozenset({"sudo", "env", "nohup", "exec", "command", "watch"})
_SHELLS = ("stoker", "kubectl-stoker")
# Verbs whose first operands are kinds, where no file names the objects.
_OF_KINDS = frozenset(
    {"get", "describe", "delete", "patch", "annotate", "label", "wait", "edit", "scale", "rollout"}
)
_FILES = ("-f", "--filename", "--values", "--patch-file")


class CommandFinding(NamedTuple):
    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class CommandCheck:
    """Judges commands; `kinds` are all spellings of the kinds that the API server serves."""

    def __init__(
        self, cli: click.Group, kubectl: Path, helm: Path, kinds: Callable[[], frozenset[str]]
    ) -> None:
        self._cli = cli
        self._tools = {"kubectl": Tool(kubectl), "helm": Tool(helm)}
        self._kinds = kinds
        self.used: set[str] = set()
        """Entries of ELSEWHERE that a page has needed."""
        self.renderings: list[tuple[str, Call]] = []
        """The calls that helm has to render, with their place on the page."""

    def page(self, page: Page) -> Iterator[CommandFinding]:
        """Everything that is wrong with its commands."""
        written: set[str] = set()
        for fence in page.fences:
            if fence.language == "yaml" and (name := file_name(fence.text)):
                written.add(name)
            elif fence.language == "sh":
                yield from self._fence(fence, written)
        for span in page.spans:
            words = span.text.split()
            if words[:1] == ["stoker"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                problem = stoker_cli_check.trouble(self._cli, words[1:], whole=False)
                if problem:
                    yield CommandFinding(f"{page.name}:{span.line}", f"`{span.text}`: {problem}")

    def _fence(self, fence: Fence, written: set[str]) -> Iterator[CommandFinding]:
        if problem := bash_trouble(fence.text):
            yield CommandFinding(fence.place, problem)
        for command in commands(fence.text):
            place = f"{fence.page}:{fence.line + command.line - 1}"
            words = _without_prefixes(command.words)
            written.update(command.writes)
            for problem in self._command(place, words, written):
                yield CommandFinding(place, f"{' '.join(words)[:90]}: {problem}")

    def _command(self, place: str, words: Sequence[str], written: set[str]) -> Iterator[str]:
        if not words:
            return
        program, rest = words[0].rpartition("/")[2] if words[0].startswith("/") else words[0], words[1:]
        if program.startswith(".venv/bin/"):
            if not (Path(sys.executable).parent / program.rpartition("/")[2]).exists():
                yield f"the development environment has no {program}"
            return
        if program in _SHELLS or words[:2] == ["kubectl", "stoker"]:
            problem = stoker_cli_check.trouble(self._cli, rest[1:] if program == "kubectl" else rest)
            written.update(_after(words, "--output", "-o", "--to"))
        elif program in self._tools:
            problem = self._of_tool(program, place, rest, written)
        elif program == "git":
            problem = git_trouble(rest)
            written.update(rest[-1:] if rest[:1] == ["clone"] else ())
        elif program == "make":
            problem = make_trouble(rest)
        else:
            problem = self._of_others(program, rest, written)
        if problem:
            yield problem
        yield from _missing_files(words)

    def _of_others(self, program: str, rest: Sequence[str], written: set[str]) -> str | None:
        if program in ELSEWHERE:
            self.used.add(program)
        elif program not in UNIX and plain(program):
            return f"{program} is neither a program of any machine nor in ELSEWHERE"
        if program in ("cp", "tee", "touch", "mkdir", "mv", "ln", "install"):
            written.update(word for word in rest if not word.startswith("-"))
        return None

    def _of_tool(self, program: str, place: str, rest: Sequence[str], written: set[str]) -> str | None:
        try:
            call = self._tools[program].read(rest)
        except InvalidCommand as wrong:
            return str(wrong)
        for name in call.values(*_FILES):
            if name != "-" and plain(name) and not _is_there(name, written):
                return f"the page does not have the file {name}, and neither has the repository"
        if program == "helm":
            if call.verbs[0] in ("install", "upgrade", "template") and "charts/stoker" in call.operands:
                self.renderings.append((place, call))
            return None
        return self._wrong_kind(call)

    def _wrong_kind(self, call: Call) -> str | None:
        if call.verbs[0] not in _OF_KINDS or call.values("-f", "--filename", "-k", "--kustomize"):
            return None
        for number, operand in enumerate(call.operands):
            kinds, slash, _ = operand.partition("/")
            if number and not slash:
                break
            for kind in kinds.split(","):
                if plain(kind) and kind.lower() not in self._kinds() and foreign_key(kind) is None:
                    return f"the API server has no kind {kind}"
        return None


def _is_there(name: str, written: set[str]) -> bool:
    if name in written or name.startswith(("http://", "https://", "/", "~")):
        return True
    return (ROOT / name).exists() or any(name.startswith(f"{folder.rstrip('/')}/") for folder in written)


def _missing_files(words: Sequence[str]) -> Iterator[str]:
    for word in words[1:]:
        name = word.partition("=")[2] if word.startswith("--") else word
        if OURS.fullmatch(name) and plain(name) and not (ROOT / name).exists():
            yield f"the repository has no {name}"


def _without_prefixes(words: Sequence[str]) -> list[str]:
    """The command that runs in the end, behind sudo, env or xargs."""
    rest = list(words)
    while rest and rest[0] in _PREFIXES:
        rest.pop(0)
        while rest and (rest[0].startswith("-") or re.fullmatch(r"\w+=.*", rest[0])):
            rest.pop(0)
    if rest[:1] == ["xargs"]:
        inner = 1
        while inner < len(rest) and rest[inner].startswith("-"):
            inner += 2 if rest[inner] in ("-n", "-P", "-L", "-I") else 1
        return rest[inner:]
    return rest


def _after(words: Sequence[str], *flags: str) -> Iterator[str]:
    for at, word in enumerate(words):
        if word in flags and at + 1 < len(words):
            yield words[at + 1].removeprefix("./")


def documents_of(fence: Fence) -> Iterator[tuple[str, str]]:
    """Here-documents that go to kubectl: manifests like those of a fence, by where they stand."""
    for command in commands(fence.text):
        if command.document is not None and "kubectl" in command.words:
            yield f"{fence.page}:{fence.line + command.line}", command.document


def patches_of(fence: Fence, kubectl: Tool) -> Iterator[tuple[str, Call]]:
    """Merge patches of a fence, by where they stand."""
    for command in commands(fence.text):
        call = _patch(command, kubectl)
        if call is not None and "merge" in call.values("--type"):
            yield f"{fence.page}:{fence.line + command.line - 1}", call


def _patch(command: Command, kubectl: Tool) -> Call | None:
    words = _without_prefixes(command.words)
    if words[:1] != ["kubectl"] or "patch" not in words:
        return None
    try:
        return kubectl.read(words[1:])
    except InvalidCommand:
        return None
