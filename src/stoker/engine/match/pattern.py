"""Parses one glob into alternatives that are regexes.

The meaning is that of Go's doublestar: `*` and `?` match within a name, including a leading dot; `**` as a
whole part matches any number of folders, including none, so `a/**` matches `a`; anywhere else `**` is a `*`,
so `**.yaml` does not match `a/b.yaml`. `{a,b/**}` are alternatives, `[a-z]`, `[!a]`, `[^a]` classes, `\\`
escapes. A trailing `/` means the folder and everything below it.

Users write the patterns and repositories supply the paths, so matching must not take exponential time:
alternatives are expanded (bounded), runs of wildcards become one wildcard, and the first match after each
wildcard is final (an atomic group). That is sufficient: the text between two wildcards has a fixed length,
so an earlier match leaves every later match possible, and no part is tried in the same place twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stoker.domain.errors import InvalidValue

MAX_PATTERN_LENGTH = 1024
MAX_ALTERNATIVES = 128

_STAR = "*"
_SEPARATOR = "/"
_FOLDERS = "(?>[^/]+/)"
_END_OF_NAME = "(?![^/])"


class GlobAlternative(NamedTuple):
    """A pattern without braces."""

    regex: str
    """Matches whole paths."""
    needle: str
    """The longest text within one part that every match contains, with a slash where the part ends."""
    suffix: str = ""
    """The required end of a name, if the pattern requires nothing else: `.bak` for `**/*.bak`."""


class _CharMatch(NamedTuple):
    """Exactly one character of a name, as a regex.

    `char` is the only character that matches, if there is one.
    """

    regex: str
    char: str = ""


_GlobToken = _CharMatch | str
_DOUBLE: list[_GlobToken] = [_STAR, _STAR]


def parse_pattern(pattern: str) -> list[GlobAlternative]:
    """Return the alternatives of a pattern; raise if it is invalid or could never match."""
    return [
        GlobAlternative(_regex(names), max(_needles(names), key=len, default=""), _suffix(names))
        for names in map(_split_pattern, _GlobParser(pattern).alternatives())
    ]


def folder_regexes(pattern: str) -> list[str]:
    """Return regexes of the folders in or below which a path can match: the folders to watch."""
    return [_folder_regex(names) for names in map(_split_pattern, _GlobParser(pattern).alternatives())]


def root_folders(pattern: str) -> list[str]:
    """Return for each alternative the deepest folder with all its matches; empty is the whole tree."""
    found = []
    for names in map(_split_pattern, _GlobParser(pattern).alternatives()):
        fixed: list[str] = []
        for name in names[:-1]:
            chars = [token.char if isinstance(token, _CharMatch) else "" for token in name]
            if not all(chars):
                break
            fixed.append("".join(chars))
        found.append(_SEPARATOR.join(fixed))
    return found


class _GlobParser:
    """Parses one pattern into its alternatives, each a list of tokens without braces."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        if not pattern:
            raise InvalidValue("a pattern is empty")
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise InvalidValue(f"pattern {pattern[:60]!r}… is longer than {MAX_PATTERN_LENGTH} characters")

    def alternatives(self) -> list[list[_GlobToken]]:
        found = self._sequence(within_braces=False)
        return [self._checked(tokens) for tokens in found]

    def _sequence(self, *, within_braces: bool) -> list[list[_GlobToken]]:
        """Parse up to the end, or up to the `,` or `}` that ends this alternative."""
        spelt: list[list[_GlobToken]] = [[]]
        while self._at < len(self._text):
            char = self._text[self._at]
            if within_braces and char in ",}":
                break
            if char == "{":
                choices = self._braces()
                if len(spelt) * len(choices) > MAX_ALTERNATIVES:
                    raise self._wrong(f"spells more than {MAX_ALTERNATIVES} alternatives")
                spelt = [head + tail for head in spelt for tail in choices]
            else:
                token = self._token(char)
                for tokens in spelt:
                    tokens.append(token)
        return spelt

    def _braces(self) -> list[list[_GlobToken]]:
        self._at += 1
        choices: list[list[_GlobToken]] = []
        while True:
            choices += self._sequence(within_braces=True)
            if len(choices) > MAX_ALTERNATIVES:
                raise self._wrong(f"spells more than {MAX_ALTERNATIVES} alternatives")
            if self._at == len(self._text):
                raise self._wrong("has a '{' without its '}'")
            self._at += 1
            if self._text[self._at - 1] == "}":
                return choices

    def _token(self, char: str) -> _GlobToken:
        if char == "[":
            return self._class()
        self._at += 1
        if char == "\\":
            char = self._next("ends in a lone backslash")
            return char if char == _SEPARATOR else _literal(char)
        if char == "?":
            return _CharMatch("[^/]")
        return char if char in (_STAR, _SEPARATOR) else _literal(char)

    def _class(self) -> _CharMatch:
        self._at += 1
        negated = self._text[self._at : self._at + 1] in ("!", "^")
        self._at += negated
        ranges = []
        while (low := self._member()) is not None:
            high = low
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._member() or ""
                if high < low:
                    raise self._wrong(f"has a class with the range {low}-{high}, which is empty")
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        if not ranges:
            raise self._wrong("has an empty class '[]'")
        # A class never matches the separator, even if its range includes it, as in `[+-9]`.
        return _CharMatch(f"(?!/)[{'^' if negated else ''}{''.join(ranges)}]")

    def _member(self) -> str | None:
        char = self._next("has a '[' without its ']'")
        if char == "]":
            return None
        return self._next("has a '[' without its ']'") if char == "\\" else char

    def _next(self, otherwise: str) -> str:
        if self._at >= len(self._text):
            raise self._wrong(otherwise)
        self._at += 1
        return self._text[self._at - 1]

    def _checked(self, tokens: list[_GlobToken]) -> list[_GlobToken]:
        """Refuse a pattern that could never match a canonical path: the user meant something else."""
        parts = _split(tokens[:-1] if tokens[-1:] == [_SEPARATOR] else tokens, _SEPARATOR)
        dot = _literal(".")
        if any(part in ([], [dot], [dot, dot]) for part in parts):
            raise self._wrong("is absolute or has a part that is empty, '.' or '..', so it can never match")
        return tokens

    def _wrong(self, why: str) -> InvalidValue:
        return InvalidValue(f"pattern {self._text[:200]!r} {why}")


def _split(tokens: Sequence[_GlobToken], separator: str) -> list[list[_GlobToken]]:
    parts: list[list[_GlobToken]] = [[]]
    for token in tokens:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _literal(char: str) -> _CharMatch:
    return _CharMatch(re.escape(char), char)


def _split_pattern(tokens: list[_GlobToken]) -> list[list[_GlobToken]]:
    names = _split(tokens, _SEPARATOR)
    if not names[-1]:
        names[-1] = _DOUBLE
    return names


def _needles(names: list[list[_GlobToken]]) -> Iterator[str]:
    for name in names:
        if name != _DOUBLE:
            run = _SEPARATOR
            for token in name:
                char = token.char if isinstance(token, _CharMatch) else ""
                if not char:
                    yield run
                run = run + char if char else ""
            yield run + _SEPARATOR


def _suffix(names: list[list[_GlobToken]]) -> str:
    if len(names) != 2 or names[0] != _DOUBLE or names[1][0] != _STAR:
        return ""
    ending = [token.char if isinstance(token, _CharMatch) else "" for token in names[1][1:]]
    return "".join(ending) if all(ending) else ""


def _folder_regex(names: list[list[_GlobToken]]) -> str:
    fixed = names.index(_DOUBLE) if _DOUBLE in names else len(names)
    inner = f"(?:{_SEPARATOR}.*)?" if fixed < len(names) else ""
    if not fixed:
        return ".*"
    last = fixed if inner else fixed - 1  # without `**` the last name is that of the file
    for name in reversed(names[:last]):
        inner = f"(?:{_SEPARATOR}{_name_regex(name)}{inner})?"
    return inner.removeprefix(f"(?:{_SEPARATOR}").removesuffix(")?") if inner else "(?!)"


def _regex(names: list[list[_GlobToken]]) -> str:
    """Return the regex of a whole pattern: blocks of names, with any number of folders between two blocks."""
    blocks: list[list[str]] = [[]]
    for name, before in zip(names, [None, *names], strict=False):
        if name == _DOUBLE:
            blocks += [] if before == _DOUBLE else [[]]
        else:
            blocks[-1].append(_name_regex(name))
    joined = [_SEPARATOR.join(block) for block in blocks]
    if len(joined) == 1:
        return joined[0]
    return _around_double_stars(joined)


def _around_double_stars(blocks: list[str]) -> str:
    first, *middle, last = blocks
    if not last:
        if not middle:
            return f"{first}(?:/.*)?" if first else ".*"
        *middle, ending = middle
        tail = f"(?>{_FOLDERS}*?{ending}{_END_OF_NAME})(?:/.*)?"
    else:
        tail = f"{_FOLDERS}*{last}"
    head = f"{first}/" if first else ""
    return head + "".join(f"(?>{_FOLDERS}*?{block}/)" for block in middle) + tail


def _name_regex(tokens: list[_GlobToken]) -> str:
    first, *rest = ("".join(t.regex for t in p if isinstance(t, _CharMatch)) for p in _split(tokens, _STAR))
    if not rest:
        return first
    *middle, last = rest
    anywhere = "".join(f"(?>[^/]*?{piece})" for piece in middle if piece)
    return f"{first}{anywhere}" + (f"(?>[^/]*{last}{_END_OF_NAME})" if last else "[^/]*+")
