"""Sets of globs, matched against one path or against many at once.

`stoker.engine.match.pattern` defines what a pattern means; this module makes matching fast. Nearly all
patterns match nothing in nearly all repositories, and that can be detected without trying each pattern on
each path. Each pattern has a needle: a text that every match contains within one part of the path. If no
folder name and no file name of the batch contains it, the pattern is skipped; otherwise its regex runs on
the paths that contain it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from stoker.domain.errors import InvalidValue
from stoker.engine.match.pattern import GlobAlternative, parse_pattern

MAX_TOTAL = 4096


def folders_above(paths: Iterable[str]) -> set[str]:
    """Return every folder above one of the paths, without the root."""
    above: set[str] = set()
    level = {path.rpartition("/")[0] for path in paths}
    while level:
        above |= level
        level = {path.rpartition("/")[0] for path in level} - above
    above.discard("")
    return above


class PathBatch:
    """Canonical paths that several glob sets match, split into names once."""

    __slots__ = ("_folded", "folders", "paths", "text")

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = paths
        self.folders = folders_above(paths)
        names = {path.rpartition("/")[2] for path in paths}
        names |= {path.rpartition("/")[2] for path in self.folders}
        self.text = "/" + "/\n/".join(names) + "/"
        """Every name of a file or folder once, each between slashes."""
        self._folded = ""

    @property
    def folded(self) -> str:
        if not self._folded:
            self._folded = self.text.lower()
        return self._folded


class GlobSet:
    """A set of patterns; a path matches when one of them does."""

    __slots__ = ("_alternatives", "_flags", "_regexes", "patterns")

    def __init__(self, patterns: Iterable[str] = (), *, ignore_case: bool = False) -> None:
        self.patterns = tuple(patterns)
        # Equal alternatives are stored once: `{a,a,a}` costs what `a` costs.
        spelt = list(dict.fromkeys(one for pattern in self.patterns for one in parse_pattern(pattern)))
        if len(spelt) > MAX_TOTAL:
            raise InvalidValue(f"the patterns spell {len(spelt)} alternatives; {MAX_TOTAL} are allowed")
        self._flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        # A regex folds some non-ASCII letters that `lower` does not, so such a needle cannot rule out a
        # match.
        self._alternatives = [
            ("" if ignore_case and not one.needle.isascii() else self._folded(one.needle), one)
            for one in spelt
        ]
        self._regexes: dict[str, re.Pattern[str]] = {}

    def matches(self, path: str) -> bool:
        if not self._alternatives:
            return False
        text = self._folded(f"/{path}/")
        sure = self._is_sure(text)
        for needle, one in self._alternatives:
            if (needle in text or not sure) and self._regex(one).fullmatch(path):
                return True
        return False

    def matching(self, paths: PathBatch) -> set[str]:
        """Return those of many canonical paths that match."""
        if not self._alternatives:
            return set()
        text = paths.folded if self._flags & re.IGNORECASE else paths.text
        if not self._is_sure(text):
            return {path for path in paths.paths if self.matches(path)}
        found: set[str] = set()
        left = paths.paths
        for needle, one in self._alternatives:
            if needle in text:
                found.update(self._those(one, needle, left))
                left = [path for path in left if path not in found]
        return found

    def _those(self, one: GlobAlternative, needle: str, paths: Collection[str]) -> Iterator[str]:
        ignore_case = bool(self._flags & re.IGNORECASE)
        if one.suffix and not ignore_case:
            return (path for path in paths if path.endswith(one.suffix))
        fits = self._regex(one).fullmatch
        inner = needle.strip("/")
        if ignore_case:
            return (path for path in paths if inner in path.lower() and fits(path))
        return (path for path in paths if inner in path and fits(path))

    def _regex(self, one: GlobAlternative) -> re.Pattern[str]:
        """Return the compiled regex, compiled on first use: most are never needed."""
        found = self._regexes.get(one.regex)
        if found is None:
            found = self._regexes[one.regex] = re.compile(one.regex, self._flags)
        return found

    def _folded(self, text: str) -> str:
        return text.lower() if self._flags & re.IGNORECASE else text

    def _is_sure(self, text: str) -> bool:
        """Whether the absence of a needle from this text proves that nothing matches."""
        return not self._flags & re.IGNORECASE or text.isascii()

    def __bool__(self) -> bool:
        return bool(self._alternatives)

    def __repr__(self) -> str:
        return f"Globs({self.patterns!r})"
