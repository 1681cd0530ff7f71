"""Splits commits and tags, as git stores them, into the signed payload and the signature.

Parsing is strict: whatever git and a signing program could read differently is refused, so that the signed
content is exactly the delivered content. The bytes of an object must hash to its id, which detects a mirror
that serves other bytes under that id. Text in a commit message never counts as a signature.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.git.process.runner import GitRunner

MAX_OBJECT_BYTES = 1 << 20
MAX_SHOWN = 120

_SIGNATURE_HEADERS = {40: b"gpgsig", 64: b"gpgsig-sha256"}
_COMMIT = re.compile(rb"tree (?:parent )*author committer (?P<rest>.*)")
_TAG = [b"object", b"type", b"tag", b"tagger"]
_UNIQUE_HEADERS = (b"tree", b"parent", b"author", b"committer")
_TIME = re.compile(rb"[^\n]*> (?P<seconds>[0-9]{1,11}) [+-][0-9]{4}")
# Lines that git recognizes as the beginning of a signature.
_BEGIN = re.compile(rb"^-----BEGIN (?:PGP SIGNATURE|PGP MESSAGE|SIGNED MESSAGE|SSH SIGNATURE)-----", re.M)
_HEADER_END = re.compile(rb"\n(?! )")
_TARGET = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")


class SignatureMissing(Stalled):
    """A required signature is missing."""

    default_reason = Reason.SIGNATURE_MISSING


class SignatureInvalid(Stalled):
    """There is a signature, and it is not accepted."""

    default_reason = Reason.SIGNATURE_INVALID


class SignedContent(NamedTuple):
    """A signed payload, its signature, and the time that it claims (seconds since 1970)."""

    what: str
    payload: bytes
    signature: bytes
    when: int


class TagHeader(NamedTuple):
    """The target, the target's kind and the name in a tag object."""

    target: str
    kind: str
    name: str


class _ObjectHeaders(NamedTuple):
    names: list[bytes]
    values: list[bytes]  # raw values without the header name
    body: bytes

    def value(self, name: bytes) -> bytes:
        return self.values[self.names.index(name)]


async def read_object(runner: GitRunner, repository: Path, kind: str, id_: str) -> bytes:
    """Read a commit or tag and verify that its bytes hash to `id_`."""
    size = await runner.run(["cat-file", "-s"], [id_], repository=repository)
    if int(size) > MAX_OBJECT_BYTES:
        raise SignatureInvalid(
            f"{kind} {id_} has {int(size)} bytes; a signature is checked up to {MAX_OBJECT_BYTES}"
        )
    raw = await runner.run(["cat-file", kind], [id_], repository=repository, max_output=MAX_OBJECT_BYTES)
    if object_id(kind, raw, len(id_)) != id_:
        raise SignatureInvalid(f"the mirror holds something else than {kind} {id_} under its id")
    return raw


def object_id(kind: str, raw: bytes, length: int) -> str:
    """Compute the id that git gives to an object."""
    digest = hashlib.sha256() if length == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(f"{kind} {len(raw)}\0".encode() + raw)
    return digest.hexdigest()


def signed_commit(raw: bytes, id_: str) -> SignedContent:
    """Return a commit without its signature header, and the signature."""
    what = f"commit {id_}"
    headers = _parse_headers(raw, what)
    order = _COMMIT.fullmatch(b"".join(name + b" " for name in headers.names))
    if order is None or any(name in _UNIQUE_HEADERS for name in order["rest"].split(b" ")):
        raise SignatureInvalid(f"{what} does not have its headers in git's order")
    signatures = [name for name in headers.names if name in _SIGNATURE_HEADERS.values()]
    if not signatures:
        raise SignatureMissing(f"{what} is not signed")
    if len(signatures) > 1:
        raise SignatureInvalid(f"{what} carries more than one signature")
    if signatures[0] != _SIGNATURE_HEADERS[len(id_)]:
        raise SignatureInvalid(f"{what} carries only a signature for the other kind of object id")
    parts = [
        name + b" " + value + b"\n"
        for name, value in zip(headers.names, headers.values, strict=True)
        if name != signatures[0]
    ]
    signature = headers.value(signatures[0]).replace(b"\n ", b"\n")
    when = _parse_time(headers.value(b"committer"), what)
    return SignedContent(what, b"".join(parts) + b"\n" + headers.body, signature, when)


def signed_tag(raw: bytes, id_: str) -> SignedContent:
    """Return a tag up to its signature, and the signature, which is the end of the object."""
    tag = parse_tag(raw, id_)
    what = f"tag {tag.name[:MAX_SHOWN]!r}"
    headers = _parse_headers(raw, what)
    begin = _BEGIN.search(headers.body)
    if begin is None:
        raise SignatureMissing(f"{what} is not signed")
    when = _parse_time(headers.value(b"tagger"), what)
    split = len(raw) - len(headers.body) + begin.start()
    return SignedContent(what, raw[:split], raw[split:], when)


def parse_tag(raw: bytes, id_: str) -> TagHeader:
    """Return the target and the own name of a tag object."""
    headers = _parse_headers(raw, f"tag object {id_}")
    if headers.names != _TAG:
        raise SignatureInvalid(f"tag object {id_} does not have just the headers of a tag, in git's order")
    target, kind, name, _ = headers.values
    if not _TARGET.fullmatch(target) or len(target) != len(id_):
        raise SignatureInvalid(f"tag object {id_} does not say what it leads to")
    try:
        return TagHeader(target.decode(), kind.decode(), name.decode())
    except UnicodeDecodeError:
        raise SignatureInvalid(f"tag object {id_} has a name that is not UTF-8") from None


def _parse_headers(raw: bytes, what: str) -> _ObjectHeaders:
    """Split the headers, each with its continuation lines, which begin with a space."""
    if b"\0" in raw:
        raise SignatureInvalid(f"{what} holds a zero byte, after which programs differ in what they read")
    head, blank, body = raw.partition(b"\n\n")
    if not blank:
        raise SignatureInvalid(f"{what} ends within its headers")
    names: list[bytes] = []
    values: list[bytes] = []
    for header in _HEADER_END.split(head):
        name, space, value = header.partition(b" ")
        if not name or not space:
            raise SignatureInvalid(f"{what} has a header without a name or a value")
        names.append(name)
        values.append(value)
    return _ObjectHeaders(names, values, body)


def _parse_time(value: bytes, what: str) -> int:
    match = _TIME.fullmatch(value)
    if match is None:
        raise SignatureInvalid(f"{what} does not say when it was made")
    return int(match["seconds"])
