"""The commands of a piece of shell, as far as documentation needs shell.

Quotes, continuations, comments, pipes, lists, substitutions, redirections, here-documents and
loops are understood; nothing is expanded, so a word keeps its `$`. What bash itself thinks
of a piece is another question (`bash -n`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"}
)
_SEPARATORS = ("&&", "||", ";;", ";", "|", "&", "\n", "(", ")")
_REDIRECTIONS = ("<<<", "&>", ">>", "2>&1", ">&2", "2>", ">", "<")


@dataclass
class Command:
    """A simple command; `line` counts from 1 within its text."""

    line: int
    words: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    """Files that its output goes to."""
    document: str | None = None
    """The here-document on its standard input."""


def commands(text: str) -> list[Command]:
    """All of them, those of substitutions included, in their order."""
    found = list(_Shell(text).commands())
    return [one for one in found if one.words or one.writes]


def plain(word: str) -> bool:
    """Whether a word says what it says: no variable, nothing left out, no name for the reader's own."""
    return not re.search(r"[$…*{}<>]", word) and not re.fullmatch(r"[^a-z]*[A-Z]{2}[^a-z]*", word)


class _Shell:
    def __init__(self, text: str, line: int = 1) -> None:
        self._text, self._documents = _without_documents(text)
        self._at = 0
        self._line = line
        self._inner: list[Command] = []

    def commands(self) -> Iterator[Command]:
        command, wanted = Command(self._line), ""
        while self._at < len(self._text):
            if operator := self._operator(_SEPARATORS):
                yield from self._end(command)
                self._line += operator == "\n"
                command, wanted = Command(self._line), ""
            elif operator := self._operator(_REDIRECTIONS):
                wanted = "" if operator in ("2>&1", ">&2") else operator
            elif self._skip_space():
                continue
            else:
                word = self._word()
                if word.startswith("\0"):
                    command.document = self._documents[int(word[1:])]
                elif wanted:
                    command.writes += [word] if wanted in (">", ">>", "&>") else []
                    wanted = ""
                else:
                    command.words.append(word)
        yield from self._end(command)

    def _end(self, command: Command) -> Iterator[Command]:
        yield from self._inner
        self._inner = []
        words = command.words
        while words and (words[0] in _RESERVED or _ASSIGNMENT.fullmatch(words[0])):
            words.pop(0)
        if words[:1] in (["for"], ["case"]):
            words.clear()
        yield command

    def _operator(self, known: tuple[str, ...]) -> str:
        for one in known:
            if self._text.startswith(one, self._at):
                if one == "&" and self._text.startswith("&>", self._at):
                    continue
                self._at += len(one)
                return one
        return ""

    def _skip_space(self) -> bool:
        rest = self._text[self._at :]
        match = re.match(r"[ \t]+|\\\n|#[^\n]*", rest)
        if match is None:
            return False
        self._line += match[0].count("\n")
        self._at += match.end()
        return True

    def _word(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\n;|&()<>":
                break
            if char == "'":
                parts.append(self._until_quote())
            elif char == '"':
                parts.append(self._double_quoted())
            elif self._text.startswith("$(", self._at):
                parts.append(self._substitution())
            elif char == "\\":
                parts.append(self._text[self._at + 1 : self._at + 2].replace("\n", ""))
                self._line += self._text[self._at + 1 : self._at + 2] == "\n"
                self._at += 2
            else:
                parts.append(char)
                self._at += 1
        return "".join(parts)

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at + 1)
        end = len(self._text) if end < 0 else end
        inside = self._text[self._at + 1 : end]
        self._line += inside.count("\n")
        self._at = end + 1
        return inside

    def _double_quoted(self) -> str:
        self._at += 1
        parts: list[str] = []
        while self._at < len(self._text) and (char := self._text[self._at]) != '"':
            if self._text.startswith("$(", self._at):
                parts.append(self._substitution())
                continue
            if char == "\\":
                self._at += 1
                char = self._text[self._at : self._at + 1]
            self._line += char == "\n"
            parts.append(char)
            self._at += 1
        self._at += 1
        return "".join(parts)

    def _substitution(self) -> str:
        """Reads `$(…)`; its commands come before the one that they are part of."""
        depth, end = 1, self._at + 2
        while end < len(self._text) and depth:
            depth += {"(": 1, ")": -1}.get(self._text[end], 0)
            end += 1
        whole = self._text[self._at : end]
        self._inner += _Shell(whole[2:-1], self._line).commands()
        self._line += whole.count("\n")
        self._at = end
        return whole


def _without_documents(text: str) -> tuple[str, list[str]]:
    """The text with each here-document replaced by a word that names it, and the documents."""
    documents: list[str] = []
    kept: list[str] = []
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        match = _HERE.search(line)
        if match is None or line.lstrip().startswith("#"):
            kept.append(line)
            continue
        body: list[str] = []
        for inside in lines:
            if inside.strip() == match[2]:
                break
            body.append(inside)
        documents.append("".join(body))
        # The lines that went are kept as blank ones, so that those after them keep their numbers.
        word = f"\0{len(documents) - 1}"
        kept.append(line[: match.start()] + word + line[match.end() :] + "\n" * (len(body) + 1))
    return "".join(kept), documents
