"""Secrets sealed for the recipients of a destination, and left alone where nothing changed.

Encrypting twice never gives the same bytes, and the reverser has recipients and no
identity: it cannot look into what it has written. So each sealed file has a digest in
`{baseFolder}/.configbutler/digests`, a keyed one over the plaintext, the recipients *and*
the blob id of the sealed file. Only who holds the key can make one, so a sealed file that
somebody exchanged is not taken for ours, with or without a digest of their own.

How a worker uses it, one sealer for each destination whose policy is `Encrypt`:

    sealer = SopsSealer(recipients, keys, base, known)       keys: `digest_keys.ensure_keys`
    sealer.load(contents.get(sealer.path))                   after each refresh, before objects are rendered
    content_of(…, sealer=sealer)                             bytes to write, or `UnchangedSecret`: the file
                                                             stays
    edits = (*edits, *sealer.joined(edits))                  for each commit, in the order of the commits

`known(path)` says which blob id the path has now, in git or on its way there: `UnchangedSecret`
always carries exactly that one. What was sealed and then not taken on (no room, a
restart) is sealed anew the next time; nothing has to be undone here, also not after a
push that failed. The digests are part of the commit that has the file.

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
"""Where sealed files lie below a base folder; nothing else is ever sealed."""

KnownBlob = Callable[[str], str | None]


class SopsSealer:
    """Seals the Secrets of one destination; `digits` is the length of the repository's ids."""

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
        """Of what was sealed here: path to blob id and digest, which stay true whatever git says."""
        self._renewed = False

    @property
    def path(self) -> str:
        """Where the digests lie in the repository."""
        return f"{self._base}{NAME}"

    def load(self, content: bytes | None) -> None:
        """Begin from the digests as they stand in git; None if there are none."""
        self._digests = ContentDigests.read(content)
        self._renewed = False

    def sealed(self, path: str, plain: dict[str, Any]) -> bytes | UnchangedSecret:
        """The file for a sanitized Secret, or `UnchangedSecret` where the one that is there holds just
        that."""
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
        """What belongs into the commit of these edits besides: the digests, where Secrets are among them."""
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
        """Whether the file under this blob id is what we made of this very plaintext."""
        for digest in (self._made.get(inner, ("", ""))[1], self._digests.of(inner)):
            age = self._keys.age_of(digest, said, blob)
            if age is None:
                continue
            if age > 0:  # made under a key that is to go one day
                self._digests.put(inner, self._keys.digest(said, blob))
                self._renewed = True
            return True
        return False

    def _inner(self, path: str) -> str:
        inner = path.removeprefix(self._base)
        if not path.startswith(self._base) or not inner.startswith(_SECRETS):
            raise InvalidValue(f"{path} is not where a Secret of {self._base or 'the root'} lies")
        return inner

    def _said(self, inner: str, plain: dict[str, Any]) -> bytes:
        """What the file has to say, to whom, and where it stands."""
        parts = [inner, *(str(each) for each in self._recipients)]
        return "\n".join(parts).encode() + b"\n\n" + render_object(plain)


def parse_recipients(texts: Collection[str]) -> tuple[AgeRecipient, ...]:
    """All of them, each once and in an order of their own; raises where there is none or one is no good."""
    if not texts:
        raise Stalled("Secrets cannot be encrypted: there is no recipient", reason=Reason.INVALID_SPEC)
    return tuple(map(AgeRecipient.of, sorted(set(texts))))
