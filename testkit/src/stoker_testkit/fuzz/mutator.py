"""Mutations of seeds by a seeded random generator: the same inputs on every machine."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

TOKENS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"\n",
        b"\r\n",
        b"\t",
        b"\0",
        b" ",
        b"/",
        b"../",
        b"-",
    ),
    *(b"null", b"true", b"0", b"-1", b"1e999", b"9" * 400, b"NaN", b"Infinity", b'""', b"{}", b"[]"),
    *(b'{"a":', b"[[[[[[[[", b"{},{},{},{},", b"\\ud800", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"&a ", b"*a", b"<<: *a", b"!!python/object:x", b"---\n", b"|\n  ", b"? ", b"%YAML 9.9\n"),
    *(b"refs/heads/", b"refs/tags/", b"a" * 300, b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\x1f\x8b", b"ustar"),
)


def mutations(seeds: Sequence[bytes], count: int, seed: int = 0, largest: int = 64 << 10) -> Iterator[bytes]:
    """So many inputs near the seeds."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    for _ in range(count):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 2, 3, 8))):
            _mutate(data, chance, seeds, largest)
        yield bytes(data[:largest])


def _mutate(data: bytearray, chance: random.Random, seeds: Sequence[bytes], largest: int) -> None:
    at = chance.randint(0, len(data))
    end = min(len(data), at + chance.choice((1, 1, 2, 4, 16, 64)))
    match chance.randrange(8):
        case 0 if data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        case 1:
            data[at:end] = chance.choice(TOKENS)
        case 2:
            data[at:at] = chance.choice(TOKENS)
        case 3:
            del data[at:end]
        case 4:
            del data[at:]
        case 5:  # many times the same: what grows faster than its text shows here
            piece = bytes(data[at:end]) or chance.choice(TOKENS)
            data[at:end] = piece * min(chance.choice((2, 10, 1000, 20_000)), largest // len(piece))
        case 6:
            other = chance.choice(seeds)
            data[at:] = other[chance.randint(0, len(other)) :]
        case _:
            data[at:end] = chance.randbytes(end - at)
