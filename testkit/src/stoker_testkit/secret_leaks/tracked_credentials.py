"""Credentials that are known again wherever they turn up: what tests hand out as token, key or password.

    planted("git-token")              one that holds the mark of this run
    known("registry-login", value)    one that a server made up, or that is a key

All processes of a run plant the same value under the same name, and no two runs do. What
was planted is written down in the run's folder, and when the run is over all that it has
left is searched for it (`stoker_testkit.secret_leaks.leak_scan`). Without a run nothing is written down.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

RUN = "STOKER_TEST_RUN"
"""The variable that names the folder of the run; the programs that tests start inherit it."""
PLANTED = "planted.jsonl"
SHORTEST = 16
LONG_LINE = 40
FEW = 4
ENOUGH = 48
"""Of a value that is longer, such as a signed token, the end is its own."""
_RECORDED: set[tuple[str, str]] = set()


def run_of_tests() -> Path | None:
    """The folder in which a run keeps what it will look through; None outside of one."""
    folder = os.environ.get(RUN)
    return Path(folder) if folder else None


def mark() -> str:
    """Sixteen hexadecimal digits, so that it fits into whatever form a credential must have."""
    return "ca" + hashlib.sha256(os.environ.get(RUN, "").encode()).hexdigest()[:14]


def planted(name: str) -> str:
    """A value fit for a password, a token and a part of an address."""
    return known(name, f"{name}-{mark()}")


def known(name: str, value: str) -> str:
    """Have a credential looked for that has its own form; returned as it came."""
    folder = run_of_tests()
    if folder is not None and (name, value) not in _RECORDED:
        _RECORDED.add((name, value))
        with (folder / PLANTED).open("ab") as file:  # one write: other processes do the same
            file.write(b"".join(json.dumps([name, one]).encode() + b"\n" for one in _telling(value)))
    return value


def planted_in(folder: Path) -> list[tuple[str, str]]:
    """Name and value of all that was planted in a run."""
    try:
        lines = (folder / PLANTED).read_text().splitlines()
    except FileNotFoundError:
        return []
    return sorted({(name, value) for name, value in map(json.loads, lines)})


def _telling(value: str) -> list[str]:
    """The distinctive part of a value: of a key in PEM the second half, as the first may be its kind."""
    lines = value.split()
    if "-----BEGIN" in lines:
        inner = [line for line in lines if len(line) >= LONG_LINE]
        return inner[len(inner) // 2 :][:FEW]
    if len(lines) != 1 or len(value) < SHORTEST:
        raise ValueError("it would be found by chance, or not at all")
    return [value.strip()[-ENOUGH:]]
