"""Paths inside a repository or a gateway's data folder.

A `RelPath` is canonical: relative, `/`-separated, without `.`, `..`, empty or
reserved parts. The strict constructor is for names that come from git objects,
where anything odd is an attack; `RelPath.clean` is for what people write in a
manifest (`./projects/` and `projects` are the same folder).
"""

from __future__ import annotations

import re
import unicodedata

from stoker.domain.errors import InvalidValue

MAX_BYTES = 4096
MAX_PART_BYTES = 255
MAX_DEPTH = 128

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
# Code points that HFS+ drops when it compares names: `.g\u200cit` is `.git` there.
_IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT_SHORT_NAME = re.compile(r"git~[0-9]+")


class RelPath(str):
    """A canonical relative path; the empty one is the root itself."""

    __slots__ = ()

    def __new__(cls, text: str) -> RelPath:
        why = _why_not(text)
        if why:
            raise InvalidValue(f"path {_shown(text)} {why}")
        return super().__new__(cls, text)

    @classmethod
    def clean(cls, text: str) -> RelPath:
        """What a person wrote, brought into canonical form; `.` and `./` are the root."""
        if text.startswith("/"):
            raise InvalidValue(f"path {_shown(text)} is absolute; write it relative to its root")
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

    def joined(self, tail: str) -> RelPath:
        """This path with canonical `tail` below it."""
        if not tail:
            return self
        return RelPath(f"{self}/{tail}" if self else tail)

    def is_below(self, folder: RelPath) -> bool:
        """Whether this path is `folder` itself or inside it, by whole parts."""
        return not folder or self == folder or self.startswith(folder + "/")

    def collision_key(self) -> str:
        """Equal for names that a case-folding or normalizing filesystem would confuse."""
        return unicodedata.normalize("NFC", self).casefold()


def _why_not(text: str) -> str | None:
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
    return next((why for why in map(_why_not_part, parts) if why), None)


def _why_not_part(part: str) -> str | None:
    if part in ("", ".", ".."):
        return f"holds the part {part!r}"
    if _DRIVE.match(part):
        return f"has the name {_shown(part)}, which begins like a drive"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"has a name longer than {MAX_PART_BYTES} bytes"
    if part[-1] in ". ":
        return f"has the name {_shown(part)}, which ends in a dot or a space"
    plain = _IGNORABLE.sub("", part).lower()
    if plain == ".git" or _GIT_SHORT_NAME.fullmatch(plain):
        return f"has the name {_shown(part)}, which git keeps for itself"
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
