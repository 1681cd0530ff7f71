"""Container image references: a repository, a tag and a digest, each of them optional in a resource.

The installation knows one image, its own. A resource may name another repository,
another tag or a digest; the parts it omits come from the installation's image. No
registry name is hard-coded here.
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
        """Parse an image reference; raise `InvalidValue` if no registry could serve it."""
        if len(text) > MAX_LENGTH or not _REFERENCE.fullmatch(text):
            raise InvalidValue(f"{text[:80]!r} is not the address of an image")
        rest, _, digest = text.partition("@")
        name, colon, tag = rest.rpartition(":")
        if not colon or "/" in tag:  # the text after the last colon is the port of a registry and a path
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
    """Return the image of an agent: the resource's values, completed from the installation's own image.

    A repository alone is treated as a mirror of the own repository. A tag alone means another
    version, so the own digest does not apply to it.
    """
    repository = wanted.repository or own.repository
    if wanted.digest:
        return ImageRef.parse(f"{repository}@{wanted.digest}")
    if wanted.tag:
        return ImageRef.parse(f"{repository}:{wanted.tag}")
    return ImageRef.parse(str(ImageRef(repository, own.tag, own.digest)))
