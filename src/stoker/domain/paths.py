"""Paths inside a repository or a gateway's data folder.

A `RelPath` is canonical: relative, `/`-separated, without `.`, `..`, empty or
reserved parts. The strict constructor is for names from git objects, where anything
unusual may be an attack. `RelPath.clean` is for paths that people write in a manifest
(`./projects/` and `projects` are the same folder).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from stoker.domain.errors import InvalidValue

MAX_BYTES = 4096
MAX_PART_BYTES = 255
MAX_DEPTH = 128

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
# Code points that HFS+ drops when it compares names: `.g\u200cit` is `.git` there.
_IGNORABLE = "[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]"
# Bytes that can only be wrong at the end of a part; `:` and `~` need the full check.
_PLAIN = bytes(byte for byte in range(0x20, 0x7F) if byte not in b"\\:~")
_DOT_AS_SPACE = bytes(range(256)).lower().replace(b".", b" ")
_GIT_SHORT_NAME = re.compile(r"git~[0-9]+")


class RelPath(str):
    """A canonical relative path; the empty path is the root itself."""

    __slots__ = ()

    def __new__(cls, text: str) -> RelPath:
        why = _path_problem(text)
        if why:
            raise InvalidValue(f"path {_quote_path(text)} {why}")
        return super().__new__(cls, text)

    @classmethod
    def known(cls, text: str) -> RelPath:
        """Wrap a text that is already known to be canonical; nothing is checked again."""
        return str.__new__(cls, text)

    @classmethod
    def all_of(cls, texts: Sequence[str]) -> bool:
        """Return whether all texts are canonical paths, at a fraction of the cost of building each."""
        return _are_plainly_canonical(texts) or all(
            _path_problem(text) is None for text in _needs_full_check(texts)
        )

    @classmethod
    def clean(cls, text: str) -> RelPath:
        """Convert a path that a person wrote into canonical form; `.` and `./` are the root."""
        if text.startswith("/"):
            raise InvalidValue(f"path {_quote_path(text)} is absolute; write it relative to its root")
        return cls("/".join(part for part in text.split("/") if part not in ("", ".")))

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.split("/")) if self else ()

    @property
    def name(self) -> str:
        return self.rpartition("/")[2]

    @property
    def parent(self) -> RelPath:
        return str.__new__(RelPath, self.rpartition("/")[0])

    def ancestors(self) -> Iterator[RelPath]:
        """Yield the folders above, nearest first, without the root."""
        end = self.rfind("/")
        while end > 0:
            yield str.__new__(RelPath, self[:end])
            end = self.rfind("/", 0, end)

    def joined(self, tail: str) -> RelPath:
        """Return this path with canonical `tail` below it."""
        if not tail:
            return self
        return RelPath(f"{self}/{tail}" if self else tail)

    def is_below(self, folder: RelPath) -> bool:
        """Return whether this path is `folder` itself or inside it, by whole parts."""
        return not folder or self == folder or self.startswith(folder + "/")


def collision_key(path: str) -> str:
    """Return a key that is equal for names that a case-folding or normalizing filesystem would confuse."""
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()


def collision_keys(paths: Iterable[str]) -> list[str]:
    """Return the keys of many paths at once: folding never crosses a line break, and no path holds one."""
    joined = "\n".join(paths)
    return collision_key(joined).split("\n") if joined else []


def _needs_full_check(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts that need the full check one by one."""
    odd = [text for text in texts if not text.isascii() or len(text) > MAX_PART_BYTES]
    plain = [text for text in texts if text.isascii() and len(text) <= MAX_PART_BYTES] if odd else ()
    return odd if odd and _are_plainly_canonical(plain) else texts


def _are_plainly_canonical(texts: Sequence[str]) -> bool:
    """Return True only if all texts are canonical.

    The check joins the whole batch into one text: slashes surround each part, and a backslash, which no
    path may hold, separates two paths.
    """
    if not texts:
        return True
    joined = ("/" + "/\\/".join(texts) + "/").encode(errors="surrogatepass")
    return (
        max(map(len, texts)) <= MAX_PART_BYTES  # so no name is too long and no path too deep
        and len(joined.translate(None, _PLAIN)) == len(texts) - 1
        and b"//" not in (joined := joined.translate(_DOT_AS_SPACE))
        and b" /" not in joined
        and b"/ git/" not in joined
    )


def _path_problem(text: str) -> str | None:
    if not text:
        return None
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if size > MAX_BYTES:
        return f"is longer than {MAX_BYTES} bytes"
    if text.startswith("/"):
        return "is absolute"
    if "\\" in text:
        return "holds a backslash"
    if _CONTROL.search(text):
        return "holds a control character"
    parts = text.split("/")
    if len(parts) > MAX_DEPTH:
        return f"is deeper than {MAX_DEPTH} folders"
    return next((why for why in map(_part_problem, parts) if why), None)


def _part_problem(part: str) -> str | None:
    if part in ("", ".", ".."):
        return f"holds the part {part!r}"
    if _DRIVE.match(part):
        return f"has the name {_quote_path(part)}, which begins like a drive"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"has a name longer than {MAX_PART_BYTES} bytes"
    if part[-1] in ". ":
        return f"has the name {_quote_path(part)}, which ends in a dot or a space"
    plain = (part if part.isascii() else re.sub(_IGNORABLE, "", part)).lower()
    if plain == ".git" or _GIT_SHORT_NAME.fullmatch(plain):
        return f"has the name {_quote_path(part)}, which git keeps for itself"
    return None


def _quote_path(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
