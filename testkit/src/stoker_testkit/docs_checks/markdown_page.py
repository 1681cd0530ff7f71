"""A page of the documentation as a value: headings with their anchors, links, code in sentences, and fences.

Everything that `tests/docs` and `scripts/site` know about a page comes from here. It reads
Markdown as GitHub does (CommonMark with tables) and judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[4]
PLACES = ("*.md", "docs/**/*.md", "charts/*/README.md")

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_STAGE = re.compile(r"stage: ([a-z-]+)")
_NAMED = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")


class Heading(NamedTuple):
    level: int
    text: str
    anchor: str
    line: int


class Link(NamedTuple):
    target: str
    line: int


class Span(NamedTuple):
    """Code within a sentence."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Fence:
    """A block of code; `line` is that of its first line of content."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[str, ...] = ()
    """The comments right in front of it."""
    stage: str = ""
    section: str = ""
    """The anchor of the heading below which the stage was named; its fences are played together."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0].strip()

    def mark(self, name: str) -> str | None:
        """The value of a comment `name: …` in front of it; empty for one without a colon."""
        for mark in self.marks:
            head, _, rest = mark.partition(":")
            if head.strip() == name:
                return rest.strip()
        return None


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Its path in the repository."""
    headings: tuple[Heading, ...]
    anchors: frozenset[str]
    links: tuple[Link, ...]
    spans: tuple[Span, ...]
    fences: tuple[Fence, ...]
    marks: tuple[Span, ...]
    """Every comment."""

    @property
    def title(self) -> str:
        return self.headings[0].text if self.headings else self.name


def all_pages(root: Path = ROOT) -> list[Page]:
    paths = sorted({path for place in PLACES for path in root.glob(place)})
    return [read_page(path.read_text(), path.relative_to(root).as_posix()) for path in paths]


def read_page(text: str, name: str) -> Page:
    reading = _PageReader(name)
    for token in _parser().parse(text):
        reading.take(token)
    anchors = {heading.anchor for heading in reading.headings} | set(_NAMED.findall(text))
    return Page(
        name,
        tuple(reading.headings),
        frozenset(anchors),
        tuple(reading.links),
        tuple(reading.spans),
        tuple(reading.fences),
        tuple(reading.comments),
    )


def anchor_of(text: str, taken: Sequence[str]) -> str:
    """The name that GitHub gives a heading; one that is taken gets a number."""
    plain = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
    numbers = (f"{plain}-{number}" if number else plain for number in range(len(taken) + 1))
    return next(one for one in numbers if one not in taken)


class _PageReader:
    """Goes through the tokens of one page."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.headings: list[Heading] = []
        self.links: list[Link] = []
        self.spans: list[Span] = []
        self.fences: list[Fence] = []
        self.comments: list[Span] = []
        self._marks: list[str] = []
        self._level = 0
        self._stages: list[tuple[int, str, str]] = []
        """Level, stage and anchor of each heading that we are below and that has named one."""

    def take(self, token: Token) -> None:
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            self._comments(token.content, line)
        elif token.type == "fence":
            self._fence(token, line)
        elif token.type == "heading_open":
            self._level = int(token.tag[1:])
            self._marks.clear()
        elif token.type == "inline":
            self._inline(token, line)
            if self._level:
                self._heading(token, line)
                self._level = 0
            self._marks.clear()

    def _comments(self, text: str, line: int) -> None:
        for match in _COMMENT.finditer(text):
            self.comments.append(Span(match[1], line))
            self._marks.append(match[1])
            if stage := _STAGE.fullmatch(match[1]):
                above = self.headings[-1] if self.headings else Heading(1, "", "", 0)
                self._stages.append((above.level, stage[1], above.anchor))

    def _fence(self, token: Token, line: int) -> None:
        _, stage, section = self._stages[-1] if self._stages else (0, "", "")
        language = token.info.strip()
        marks = tuple(self._marks)
        self.fences.append(Fence(self.name, line + 1, language, token.content, marks, stage, section))
        self._marks.clear()

    def _heading(self, token: Token, line: int) -> None:
        text = "".join(child.content for child in token.children or ())
        anchor = anchor_of(text, [one.anchor for one in self.headings])
        self.headings.append(Heading(self._level, text, anchor, line))
        while self._stages and self._stages[-1][0] >= self._level:
            self._stages.pop()

    def _inline(self, token: Token, line: int) -> None:
        for child in _children(token):
            target = child.attrGet("href" if child.type == "link_open" else "src")
            if isinstance(target, str) and child.type in ("link_open", "image"):
                self.links.append(Link(target, line))
            elif child.type == "code_inline":
                self.spans.append(Span(child.content, line))


def _children(token: Token) -> Iterator[Token]:
    for child in token.children or ():
        yield child
        yield from _children(child)


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")
