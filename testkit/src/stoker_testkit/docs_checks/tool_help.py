"""The verbs, flags and targets of kubectl, helm, git and make, from their own help.

Their help is asked once for each verb. `Tool.trouble` names what a command has and the
program has not; what the words mean is looked at elsewhere.
"""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stoker_testkit.docs_checks.markdown_page import ROOT

SECONDS = 30.0
# kubectl: "    -f, --filename=[]:"   helm: "  -f, --values strings      specify …"
_KUBECTL_FLAG = re.compile(r"^\s+(?:-(\w), )?--([\w-]+)=(.*):$", re.MULTILINE)
_HELM_FLAG = re.compile(r"^\s+(?:-(\w), )?--([\w-]+)(?: ([\w/]+))?(?:\s{2,}.*)?$", re.MULTILINE)
_COMMANDS = re.compile(r"^ {2}([a-z][\w-]*)\s{2,}\S", re.MULTILINE)


class Help(NamedTuple):
    flags: Mapping[str, bool]
    """Each spelling, and whether it takes a value."""
    verbs: frozenset[str]


@dataclass
class Call:
    """A command, taken apart."""

    verbs: tuple[str, ...]
    operands: list[str] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    """By the spelling on the page; a flag without a value has an empty one."""

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names]


class InvalidCommand(Exception):
    """The program would not take the command."""


class Tool:
    """kubectl or helm, whose help has the shape of their common library."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._helps: dict[tuple[str, ...], Help] = {}

    def read(self, words: Sequence[str]) -> Call:
        """The words after the program's name; Wrong where it has no such verb or flag."""
        call = Call(())
        rest = iter(words)
        for word in rest:
            if word == "--":
                call.operands += list(rest)
            elif word.startswith("-") and len(word) > 1:
                self._option(call, word, rest)
            elif not call.operands and word in self._help(call.verbs).verbs:
                call.verbs = (*call.verbs, word)
            elif not call.verbs:
                raise InvalidCommand(f"there is no verb {word!r}")
            else:
                call.operands.append(word)
        # Flags may stand before their verb; only now is it known.
        for name, _ in call.options:
            if name not in self._flags(call.verbs):
                raise InvalidCommand(f"{' '.join(call.verbs)} has no flag {name}")
        return call

    def _option(self, call: Call, word: str, rest: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        if not name.startswith("--") and len(name) > 2:  # -Rf FILE, -nplant
            name, value, equals = word[:2], word[2:], "="
            if self._flags(call.verbs).get(name) is False:
                call.options.append((name, ""))
                self._option(call, f"-{word[2:]}", rest)
                return
        if not equals and self._flags(call.verbs).get(name, False):
            value = next(rest, "")
        call.options.append((name, value))

    def _flags(self, verbs: tuple[str, ...]) -> Mapping[str, bool]:
        return {**self._help(()).flags, **self._help(verbs).flags, "--help": False, "-h": False}

    def _help(self, verbs: tuple[str, ...]) -> Help:
        if verbs not in self._helps:
            help_text = _printed(self._program, *verbs, "--help")
            if not verbs and "kubectl" in self._program.name:
                help_text += _printed(self._program, "options")
            self._helps[verbs] = Help(dict(_flags(help_text)), frozenset(_COMMANDS.findall(help_text)))
        return self._helps[verbs]


def _flags(help_text: str) -> Iterable[tuple[str, bool]]:
    for short, name, default in _KUBECTL_FLAG.findall(help_text):
        takes = default not in ("true", "false")
        yield from ((spelling, takes) for spelling in (f"--{name}", f"-{short}") if spelling != "-")
    for short, name, kind in _HELM_FLAG.findall(help_text):
        yield from ((spelling, bool(kind)) for spelling in (f"--{name}", f"-{short}") if spelling != "-")


def git_trouble(words: Sequence[str]) -> str | None:
    """The error in the arguments after `git`."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-c", "-C") else rest[1:]
    if not rest or rest[0] not in _git_verbs():
        return f"git has no verb {rest[0] if rest else ''!r}"
    known = _git_flags(rest[0])
    for word in rest[1:]:
        if word == "--":
            return None
        name = word.partition("=")[0]
        if known and name.startswith("--") and name.replace("--no-", "--") not in known and name not in known:
            return f"git {rest[0]} has no flag {name}"
    return None


@functools.cache
def _git_verbs() -> frozenset[str]:
    return frozenset(_printed("git", "--list-cmds=main,others").split())


@functools.cache
def _git_flags(verb: str) -> frozenset[str]:
    """Those that it tells completions; some verbs tell none, and then nothing is known."""
    help_text = _printed("git", verb, "--git-completion-helper-all")
    flags = {word.rstrip("=") for word in help_text.split() if word.startswith("--")}
    # Formats of log and of its relatives are read by another parser, which tells nothing.
    return frozenset(flags) if len(flags) > 5 and verb not in ("log", "show", "diff") else frozenset()


def make_trouble(words: Sequence[str], root: Path = ROOT) -> str | None:
    """Targets and variables that the Makefile does not know; the words after `make`."""
    makefile = (root / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    own = re.findall(r"\$[({](?:or \$\()?(?:if \$\()?([A-Z_]+)|\$\$([A-Z_]+)", makefile)
    variables = {name for names in own for name in names if name} | _in_benchmarks(root)
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and name not in variables:
            return f"the Makefile knows no variable {name}"
        if not equals and not word.startswith("-") and word not in targets:
            return f"the Makefile has no target {word}"
    return None


def _in_benchmarks(root: Path) -> set[str]:
    """Variables that a program which make starts reads from its environment."""
    texts = (path.read_text() for path in (root / "bench").glob("*.py"))
    return {name for text in texts for name in re.findall(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"", text)}


def bash_trouble(text: str) -> str | None:
    """The syntax error that bash finds in a script, without running it."""
    done = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    return done.stderr.strip() or None


def _printed(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS)
    return done.stdout
