"""A known_hosts file, read as ssh reads it: which keys are known for a host.

ssh itself decides whether to trust a server. This is for the sentence that a
person needs when it does not: which keys were expected and which one came. Names
may be plain, patterns, negated or hashed; a port other than 22 makes `[host]:port`.
Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from stoker.domain.refs import RepoUrl

MAX_BYTES = 1 << 20
_SHORT = re.compile(r"(?![a-z]+://)(?:[^@:/]*@)?(\[[^\]]*\]|[^:]*):")  # git@host:path
_MARKERS = (b"@cert-authority", b"@revoked")
_OFFERED = re.compile(r"^debug1: Server host (?:key|certificate): (\S+) (SHA256:[A-Za-z0-9+/]+)", re.M)


class HostKey(NamedTuple):
    """One key by its type and fingerprint; `marker` is `@revoked`, `@cert-authority` or empty."""

    kind: str
    fingerprint: str
    marker: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.marker, self.kind, self.fingerprint) if part)


def host_and_port(url: RepoUrl) -> tuple[str, int]:
    """The server of an ssh address."""
    short = _SHORT.match(url)
    if short is not None:
        return short[1].strip("[]").lower(), 22
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or 22


def name_of(url: RepoUrl) -> str:
    """The same as known_hosts names it."""
    host, port = host_and_port(url)
    return host if port == 22 else f"[{host}]:{port}"


def known_keys(known_hosts: bytes, host: str) -> Iterator[HostKey]:
    """The keys that stand there for a host."""
    for line in known_hosts.splitlines():
        words = line.split()
        marker = words.pop(0) if words and words[0] in _MARKERS else b""
        if len(words) < 3 or words[0].startswith(b"#") or not _names(words[0].decode("latin-1"), host):
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except binascii.Error:
            continue
        yield HostKey(words[1].decode("latin-1"), fingerprint(blob), marker.decode())


def offered_key(said: str) -> HostKey | None:
    """The key that the server came with, as ssh told it."""
    found = _OFFERED.search(said)
    return HostKey(found[1], found[2]) if found else None


def fingerprint(blob: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _names(field: str, host: str) -> bool:
    if field.startswith("|1|"):
        return _is_hash_of(field, host)
    named = False
    for pattern in field.lower().split(","):
        if _fits(pattern.removeprefix("!"), host):
            if pattern.startswith("!"):
                return False
            named = True
    return named


def _is_hash_of(field: str, host: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in field[3:].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, host.encode(), hashlib.sha1).digest(), digest)


def _fits(pattern: str, host: str) -> bool:
    """`*` and `?` as ssh means them; in a time that no pattern can make grow out of hand."""
    at = place = 0
    star = after = -1
    while place < len(host):
        if at < len(pattern) and pattern[at] == "*":
            star, after, at = at, place, at + 1
        elif at < len(pattern) and pattern[at] in ("?", host[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            at, after = star + 1, after + 1
            place = after
        else:
            return False
    return not pattern[at:].strip("*")
