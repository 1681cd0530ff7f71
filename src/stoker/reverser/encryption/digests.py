"""Keyed digests of encrypted files, by which unchanged Secrets are recognized.

`{baseFolder}/.configbutler/digests` has one line per encrypted file: its path below the base folder and an
HMAC-SHA256. Without the key a digest discloses nothing: passwords cannot be tested against it. Other people
can write the repository that holds the file, so every line of another form is ignored; the Secret is then
encrypted again, which is always safe.

The keys come from a Secret of the reverser: `digest.key` is the current key, all other entries are old keys
that are still recognized. To rotate, keep the old key under another name; once all objects have been listed
and a commit has followed, it can be removed.
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
"""The folder below a base folder for the reverser's own files."""
NEWEST = "digest.key"
"""The entry of the Secret with the current key."""
MIN_KEY_BYTES = 32
MAX_BYTES = 32 << 20

_HEAD = b"# What encrypted files hold, as HMAC-SHA256: by it an unchanged one is recognised.\n"
_LINE = re.compile(rb"([a-z0-9%._+/-]{1,4096}): ([0-9a-f]{64})")
_LABEL = b"configbutler.ai/digests/v1\n"


class DigestKeys:
    """The current key and its predecessors."""

    def __init__(self, newest: Secret, *older: Secret) -> None:
        self._keys = (newest, *older)
        for key in self._keys:
            if len(key.reveal_bytes()) < MIN_KEY_BYTES:
                raise InvalidValue(f"a key for digests has fewer than {MIN_KEY_BYTES} bytes")

    @classmethod
    def of(cls, data: Mapping[str, bytes]) -> DigestKeys:
        """Read the keys from the data of the Secret; raises if there is no current key."""
        if not data.get(NEWEST):
            raise Stalled(
                f"Secrets cannot be encrypted: the Secret with the keys for digests has no {NEWEST}",
                reason=Reason.SECRET_NOT_FOUND,
            )
        older = (Secret(data[name]) for name in sorted(data) if name != NEWEST)
        return cls(Secret(data[NEWEST]), *older)

    def digest(self, said: bytes, blob: str) -> str:
        """Return the digest that binds content to the encrypted file made from it."""
        return _keyed_digest(self._keys[0], said, blob)

    def age_of(self, digest: str, said: bytes, blob: str) -> int | None:
        """Return 0 if the current key made the digest, more for an older key, None if no key did."""
        if digest:
            for age, key in enumerate(self._keys):
                if hmac.compare_digest(_keyed_digest(key, said, blob), digest):
                    return age
        return None


class ContentDigests:
    """The lines of one digests file."""

    def __init__(self, lines: Mapping[str, str] | None = None) -> None:
        self._lines = dict(lines or {})

    @classmethod
    def read(cls, content: bytes | None) -> ContentDigests:
        if content is None or len(content) > MAX_BYTES:
            return cls()
        found = map(_LINE.fullmatch, content.split(b"\n"))
        return cls({match[1].decode(): match[2].decode() for match in found if match})

    def content(self) -> bytes | None:
        """Return the file content; None if there are no digests."""
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
