"""Keyed digests of what sealed files hold: by them an unchanged one is recognised.

`{baseFolder}/.configbutler/digests` has a line for each sealed file, its path below the
base folder and an HMAC-SHA256. Without the key they say nothing: nobody can try out
passwords on them. The file comes from a repository that others can write, so whatever
is not a line of ours is left out; the Secret is then sealed anew, which is always safe.

Keys come from a Secret of the reverser's own: `digest.key` is the one for what is sealed
now, all others are old and still recognised. To rotate, keep the old one under another
name; once everything has been looked at and a commit followed, it may go.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

FOLDER = ".configbutler"
"""Below a base folder: what is ours and no object's."""
NEWEST = "digest.key"
"""Which entry of the Secret is the key of now."""
MIN_KEY_BYTES = 32
MAX_BYTES = 32 << 20

_HEAD = b"# What encrypted files hold, as HMAC-SHA256: by it an unchanged one is recognised.\n"
_LINE = re.compile(rb"([a-z0-9%._+/-]{1,4096}): ([0-9a-f]{64})")
_LABEL = b"configbutler.ai/digests/v1\n"


class DigestKeys:
    """The key of now and those before it."""

    def __init__(self, newest: Secret, *older: Secret) -> None:
        self._keys = (newest, *older)
        for key in self._keys:
            if len(key.reveal_bytes()) < MIN_KEY_BYTES:
                raise InvalidValue(f"a key for digests has fewer than {MIN_KEY_BYTES} bytes")

    @classmethod
    def of(cls, data: Mapping[str, bytes]) -> DigestKeys:
        """From what the Secret holds; raises where there is no key of now."""
        if not data.get(NEWEST):
            raise Stalled(
                f"Secrets cannot be encrypted: the Secret with the keys for digests has no {NEWEST}",
                reason=Reason.SECRET_NOT_FOUND,
            )
        older = (Secret(data[name]) for name in sorted(data) if name != NEWEST)
        return cls(Secret(data[NEWEST]), *older)

    def digest(self, said: bytes, blob: str) -> str:
        """What binds a content to the file that was made of it."""
        return _keyed_digest(self._keys[0], said, blob)

    def age_of(self, digest: str, said: bytes, blob: str) -> int | None:
        """0 if it was made with the key of now, more for an older one, None if it is not of ours."""
        if digest:
            for age, key in enumerate(self._keys):
                if hmac.compare_digest(_keyed_digest(key, said, blob), digest):
                    return age
        return None


class ContentDigests:
    """The lines of one file."""

    def __init__(self, lines: Mapping[str, str] | None = None) -> None:
        self._lines = dict(lines or {})

    @classmethod
    def read(cls, content: bytes | None) -> ContentDigests:
        if content is None or len(content) > MAX_BYTES:
            return cls()
        found = map(_LINE.fullmatch, content.split(b"\n"))
        return cls({match[1].decode(): match[2].decode() for match in found if match})

    def content(self) -> bytes | None:
        """The file; None if it has nothing to say."""
        if not self._lines:
            return None
        return _HEAD + "".join(f"{path}: {self._lines[path]}\n" for path in sorted(self._lines)).encode()

    def of(self, path: str) -> str:
        return self._lines.get(path, "")

    def put(self, path: str, digest: str) -> None:
        self._lines[path] = digest

    def drop(self, path: str) -> None:
        self._lines.pop(path, None)


def _keyed_digest(key: Secret, said: bytes, blob: str) -> str:
    return hmac.new(key.reveal_bytes(), _LABEL + blob.encode() + b"\n" + said, hashlib.sha256).hexdigest()
