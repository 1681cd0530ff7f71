"""Parsers for option values with a syntax of their own; an error names the option."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.files import (
    DeletionPolicy,
    FileMapping,
    MappingKind,
    MissingSourcePolicy,
    OrphanPolicy,
)
from stoker.domain.quantities import parse_duration
from stoker.domain.shards import Shard

MAX_ID = 2**32 - 2


def parse_mapping(flag: str, text: str, kind: MappingKind) -> FileMapping:
    source, colon, destination = text.partition(":")
    if not colon or not source or not destination:
        raise InvalidValue(f"{flag} {text!r} is not of the form SRC:DST; write '.' for a root")
    if ":" in destination:
        raise InvalidValue(f"{flag} {text!r} has more than one ':'; write SRC:DST, with no ':' in DST")
    # A source that the user names on the command line must exist.
    return FileMapping(source, destination, kind, MissingSourcePolicy.FAIL)


def parse_pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE; a name given twice is an error, because one value would be lost silently."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not name.isprintable():
            raise InvalidValue(f"{flag} {text!r} is not of the form NAME=VALUE")
        if name in found:
            raise InvalidValue(f"{flag} {name} is given twice")
        found[name] = value
    return found


def parse_variables(texts: Sequence[str]) -> dict[str, str]:
    found = parse_pairs("--var", texts)
    for name in found:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InvalidValue(f"--var {name!r} is not a valid template name: use letters, digits and _")
    return found


def parse_owner(text: str) -> tuple[int, int]:
    user, colon, group = text.partition(":")
    if not colon or not all(
        part.isascii() and part.isdigit() and int(part) <= MAX_ID for part in (user, group)
    ):
        raise InvalidValue(f"--owner {text!r} is not of the form UID:GID, two numbers")
    return int(user), int(group)


def parse_umask(text: str) -> int:
    if not re.fullmatch(r"[0-7]{1,4}", text) or int(text, 8) > 0o777:
        raise InvalidValue(f"--umask {text!r} is not an octal number up to 777")
    bits = int(text, 8)
    if bits & 0o600:
        raise InvalidValue(f"--umask {text!r} would take the owner's own access to the files")
    return bits


def parse_deletion_policy(text: str | None, orphans: str | None, before: DeletionPolicy) -> DeletionPolicy:
    files, percent = before.budget_files, before.budget_percent
    if text is not None:
        match = re.fullmatch(r"([0-9]{1,9}),([0-9]{1,3})", text)
        if match is None or int(match[2]) > 100:
            raise InvalidValue(f"--deletion-budget {text!r} is not of the form FILES,PERCENT, such as 50,50")
        files, percent = int(match[1]), int(match[2])
    return DeletionPolicy(OrphanPolicy(orphans) if orphans else before.orphans, files, percent)


def parse_digest(text: str) -> str:
    if text and not re.fullmatch(r"[0-9a-f]{64}", text):
        raise InvalidValue(f"--approve-plan {text[:80]!r} is not a plan's digest of 64 hexadecimal digits")
    return text


def parse_proxy(text: str) -> str:
    if "@" in text:
        raise InvalidValue(
            "--proxy holds a user name or password, which every user of this machine could read"
        )
    if not re.fullmatch(r"(https?|socks5h?)://[A-Za-z0-9.\-_\[\]:]+/?", text):
        raise InvalidValue(f"--proxy {text[:120]!r} is not of the form http://host:port")
    return text.rstrip("/")


def parse_names(text: str) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except InvalidValue as error:
        raise Misconfigured(f"--shard: {error.message}") from None


def parse_seconds(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except InvalidValue as error:
        raise Misconfigured(f"{flag}: {error.message}") from None
