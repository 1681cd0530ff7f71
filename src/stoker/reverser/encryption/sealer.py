"""Encrypt Secrets for the recipients of a destination, and keep files of unchanged Secrets.

Encrypting twice never gives the same bytes, and the reverser has recipients but no identity: it cannot
decrypt its own files. So each encrypted file has a digest in `{baseFolder}/.configbutler/digests`: a keyed
digest of the plaintext, the recipients *and* the blob id of the encrypted file. Only a holder of the key can
create such a digest, so a replaced encrypted file is not taken for the reverser's own, with or without a
replaced digest.

A worker has one sealer for each destination whose policy is `Encrypt`:

    sealer = SopsSealer(recipients, keys, base, known)       keys: `digest_keys.ensure_keys`
    sealer.load(contents.get(sealer.path))                   after each fetch, before objects are rendered
    object_content(…, sealer=sealer)                         bytes to write, or `UnchangedSecret`: the file
                                                             stays
    edits = (*edits, *sealer.joined(edits))                  for each commit, in the order of the commits

`known(path)` returns the current blob id of a path, in git or on its way there; `UnchangedSecret` always
carries exactly that id. A file that was encrypted and then not written (no room, a restart) is encrypted
again the next time. Nothing needs to be rolled back, even after a failed push: the digests are part of
the commit that holds the file.

It fails closed: without a recipient or a key there is no sealer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.git_objects import blob_of
from stoker.domain.reasons import Reason
from stoker.git.commit.types import FileEdit
from stoker.reverser.encryption.age import AgeRecipient
from stoker.reverser.encryption.digests import FOLDER, ContentDigests, DigestKeys
from stoker.reverser.encryption.sops import seal_document
from stoker.reverser.manifest.path import CORE
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.secret_policy import UnchangedSecret

NAME = f"{FOLDER}/digests"
_SECRETS = f"{CORE}/v1/secrets/"
"""The folder of encrypted files below a base folder; no other file is ever encrypted."""

KnownBlob = Callable[[str], str | None]


class SopsSealer:
    """Encrypts the Secrets of one destination; `digits` is the length of the repository's ids."""

    def __init__(
        self,
        recipients: Collection[str],
        keys: DigestKeys,
        base: str,
        known: KnownBlob,
        *,
        digits: int = 40,
        clock: Clock | None = None,
    ) -> None:
        self._recipients = parse_recipients(recipients)
        self._keys = keys
        self._base = f"{base}/" if base else ""
        self._known = known
        self._digits = digits
        self._clock = clock if clock is not None else SystemClock()
        self._digests = ContentDigests()
        self._made: dict[str, tuple[str, str]] = {}
        """Path to blob id and digest of files encrypted here; they stay valid whatever git holds."""
        self._renewed = False

    @property
    def path(self) -> str:
        """The path of the digests file in the repository."""
        return f"{self._base}{NAME}"

    def load(self, content: bytes | None) -> None:
        """Start with the digests file in git; None if there is none."""
        self._digests = ContentDigests.read(content)
        self._renewed = False

    def sealed(self, path: str, plain: dict[str, Any]) -> bytes | UnchangedSecret:
        """Return the file for a sanitized Secret; `UnchangedSecret` if the file in git holds the same."""
        inner = self._inner(path)
        said = self._said(inner, plain)
        there = self._known(path)
        if there is not None and self._holds(inner, said, there):
            return UnchangedSecret(there)
        content = seal_document(plain, self._recipients, self._clock.now())
        blob = blob_of(content, digits=self._digits)
        self._made[inner] = blob, self._keys.digest(said, blob)
        return content

    def joined(self, edits: Iterable[FileEdit]) -> tuple[FileEdit, ...]:
        """Return the edit of the digests file for the commit of these edits, if any of them is a Secret."""
        touched = self._renewed
        for edit in edits:
            inner = edit.path.removeprefix(self._base)
            if not inner.startswith(_SECRETS) or not edit.path.startswith(self._base):
                continue
            touched = True
            blob, digest = self._made.get(inner, ("", ""))
            if edit.content is not None and blob_of(edit.content, digits=self._digits) == blob:
                self._digests.put(inner, digest)
            else:
                self._digests.drop(inner)
        return (FileEdit(self.path, self._digests.content()),) if touched else ()

    def _holds(self, inner: str, said: bytes, blob: str) -> bool:
        """Return whether the file with this blob id was encrypted from exactly this plaintext."""
        for digest in (self._made.get(inner, ("", ""))[1], self._digests.of(inner)):
            age = self._keys.age_of(digest, said, blob)
            if age is None:
                continue
            if age > 0:  # made with an older key, which will be removed
                self._digests.put(inner, self._keys.digest(said, blob))
                self._renewed = True
            return True
        return False

    def _inner(self, path: str) -> str:
        inner = path.removeprefix(self._base)
        if not path.startswith(self._base) or not inner.startswith(_SECRETS):
            raise InvalidValue(f"{path} is not the path of a Secret below {self._base or 'the root'}")
        return inner

    def _said(self, inner: str, plain: dict[str, Any]) -> bytes:
        """Return the digest input: path, recipients and plaintext."""
        parts = [inner, *(str(each) for each in self._recipients)]
        return "\n".join(parts).encode() + b"\n\n" + render_object(plain)


def parse_recipients(texts: Collection[str]) -> tuple[AgeRecipient, ...]:
    """Parse recipients, without duplicates and sorted; raises if there are none or one is invalid."""
    if not texts:
        raise Stalled("Secrets cannot be encrypted: there is no recipient", reason=Reason.INVALID_SPEC)
    return tuple(map(AgeRecipient.of, sorted(set(texts))))
