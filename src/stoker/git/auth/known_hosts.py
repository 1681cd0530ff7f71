"""Parses a known_hosts file as ssh does, and selects the lines for a server.

ssh itself decides whether to trust a server. It gets the matching lines under the server's name without
the port (`lines_for`), because ssh compares a host certificate with the name that it looks up, and no
certificate names a port. The error message for an untrusted server also lists the keys. Names may be
plain, patterns, negated or hashed; with a port other than 22 the name is `[host]:port`. This module does
no I/O.
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
_REVOKED = b"@revoked"
_MARKERS = (b"@cert-authority", _REVOKED)
_OFFERED = re.compile(r"^debug1: Server host (?:key|certificate): (\S+) (SHA256:[A-Za-z0-9+/]+)", re.M)


class HostKey(NamedTuple):
    """One key by its type and fingerprint; `marker` is `@revoked`, `@cert-authority` or empty."""

    kind: str
    fingerprint: str
    marker: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.marker, self.kind, self.fingerprint) if part)


def host_and_port(url: RepoUrl) -> tuple[str, int]:
    """Return the server of an ssh address."""
    short = _SHORT.match(url)
    if short is not None:
        return short[1].strip("[]").lower(), 22
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or 22


def known_hosts_name(url: RepoUrl) -> str:
    """Return the server of an ssh address as known_hosts names it."""
    host, port = host_and_port(url)
    return host if port == 22 else f"[{host}]:{port}"


def lines_for(known_hosts: bytes, host: str, port: int) -> bytes:
    """Return the lines for one server, under its name without the port.

    As in ssh, lines for `host` apply to another port if no line names `[host]:port`. Keys that are revoked
    under either name stay revoked.
    """
    if port == 22:
        return known_hosts
    exact, bare = (list(_lines(known_hosts, name)) for name in (f"[{host}]:{port}", host))
    trusted = [line for line in exact if line.marker != _REVOKED]
    trusted = trusted or [line for line in bare if line.marker != _REVOKED]
    revoked = [line for line in (*exact, *bare) if line.marker == _REVOKED]
    return b"".join(
        b" ".join(filter(None, (line.marker, host.encode(), line.kind, line.key))) + b"\n"
        for line in dict.fromkeys((*trusted, *revoked))
    )


def known_keys(known_hosts: bytes, host: str) -> Iterator[HostKey]:
    """Yield the keys that are known for a host."""
    for line in _lines(known_hosts, host):
        try:
            blob = base64.b64decode(line.key, validate=True)
        except binascii.Error:
            continue
        yield HostKey(line.kind.decode("latin-1"), fingerprint(blob), line.marker.decode())


def offered_key(said: str) -> HostKey | None:
    """Return the key that the server presented, from ssh's debug output."""
    found = _OFFERED.search(said)
    return HostKey(found[1], found[2]) if found else None


def fingerprint(blob: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


class _Line(NamedTuple):
    marker: bytes
    kind: bytes
    key: bytes


def _lines(known_hosts: bytes, host: str) -> Iterator[_Line]:
    for line in known_hosts.splitlines():
        words = line.split()
        marker = words.pop(0) if words and words[0] in _MARKERS else b""
        if (
            len(words) >= 3
            and not words[0].startswith(b"#")
            and _matches_host(words[0].decode("latin-1"), host)
        ):
            yield _Line(marker, words[1], words[2])


def _matches_host(field: str, host: str) -> bool:
    if field.startswith("|1|"):
        return _is_hash_of(field, host)
    named = False
    for pattern in field.lower().split(","):
        if _matches_pattern(pattern.removeprefix("!"), host):
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


def _matches_pattern(pattern: str, host: str) -> bool:
    """Match `*` and `?` as ssh does, in polynomial time: no pattern can cause exponential backtracking."""
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
