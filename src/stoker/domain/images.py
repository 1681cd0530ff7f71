"""The address of a container image: a repository, a tag, a digest, each of which somebody may have said.

The installation knows one image, its own. A resource may name another repository,
another tag or a digest; what it leaves open is taken from the installation's. Nothing
here knows the name of a registry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import ImagePolicy

MAX_LENGTH = 512

_REFERENCE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:(?::[0-9]{1,5})?(?:/[A-Za-z0-9][A-Za-z0-9._-]*)+)?"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One image; the digest wins over the tag."""

    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageRef:
        """An address as a person writes it; raises `InvalidValue` for what no registry could serve."""
        if len(text) > MAX_LENGTH or not _REFERENCE.fullmatch(text):
            raise InvalidValue(f"{text[:80]!r} is not the address of an image")
        rest, _, digest = text.partition("@")
        name, colon, tag = rest.rpartition(":")
        if not colon or "/" in tag:  # what follows the last colon is the port of a registry
            name, tag = rest, ""
        return cls(name, tag, digest)

    def __str__(self) -> str:
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag}" if self.tag else self.repository

    @property
    def pinned(self) -> bool:
        return bool(self.digest)


def agent_image(wanted: ImagePolicy, own: ImageRef) -> ImageRef:
    """The image of an agent: what its resource says, completed by the installation's own.

    A repository alone is taken for a mirror of the own one. A tag alone means another
    version, so the own digest says nothing about it.
    """
    repository = wanted.repository or own.repository
    if wanted.digest:
        return ImageRef.parse(f"{repository}@{wanted.digest}")
    if wanted.tag:
        return ImageRef.parse(f"{repository}:{wanted.tag}")
    return ImageRef.parse(str(ImageRef(repository, own.tag, own.digest)))
