"""Values that must be seen nowhere, and the search for them.

    canaries = Canaries()
    token = canaries.make("git-token")              planted in a Secret
    canaries.add("app-key", pem)                    one that a server made
    with CommandLineSearch(canaries) as lines: ...  command lines, while the test runs
    canaries.in_folder(place)                       files, and every object of a repository

A value is found as it is, encoded for an address, in base64 at any alignment (so inside of
`Authorization: Basic` and inside of a Secret's data) and in hexadecimal. Of a key in PEM
every long line is a value of its own. A finding names the credential and the place, never the
value: a test's output must not be the leak.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, quote_plus

from stoker_testkit.repositories.bare_repository import git_environment
from stoker_testkit.secret_leaks.process_command_lines import CommandLines, program_of

SHORTEST = 8
LONG_LINE = 40
PAUSE = 0.01
_SPARE = {0: 0, 1: 2, 2: 3}
"""Characters of base64 that depend on the bytes before a value, by its alignment."""


class Canaries:
    """All that were planted in one test."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._pattern: re.Pattern[bytes] | None = None

    def make(self, name: str) -> str:
        """A new value; it is fit for a password, a token and a part of an address."""
        return self.add(name, f"canary-{name}-{secrets.token_hex(12)}")

    def add(self, name: str, value: str) -> str:
        """One that has its own form; returned as it came."""
        lines = [line.strip() for line in value.splitlines()]
        keyed = any(line.startswith("-----BEGIN ") for line in lines)
        for one in (line for line in lines if len(line) >= LONG_LINE) if keyed else [value]:
            if len(one) < SHORTEST:
                raise ValueError(f"{name} is so short that it would be found by chance")
            for form in _forms(one):
                self._names[form] = name
        self._pattern = None
        return value

    @property
    def names(self) -> set[str]:
        return set(self._names.values())

    @property
    def forms(self) -> list[bytes]:
        """All that is looked for."""
        return sorted(self._names)

    def name_of(self, form: bytes) -> str:
        """The credential of this form."""
        return self._names[form]

    def in_bytes(self, content: bytes) -> set[str]:
        """The names of those that stand in it."""
        if self._pattern is None:
            longest_first = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        return {self._names[found] for found in self._pattern.findall(content)}

    def in_text(self, where: str, text: str | bytes) -> list[str]:
        """Each that was found, as `name in where`."""
        content = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        return [f"{name} in {where}" for name in sorted(self.in_bytes(content))]

    def in_objects(self, where: str, objects: object) -> list[str]:
        """The same for objects of the API, of which Secrets keep everything but their data."""
        return self.in_text(where, json.dumps(_without_data(objects), ensure_ascii=False))

    def in_folder(self, folder: Path) -> list[str]:
        """The same for all files below a folder, what is packed in repositories and archives included."""
        found: list[str] = []
        for path in sorted(folder.rglob("*")):
            found += self.in_text("a file name", str(path.relative_to(folder)))
            if path.is_symlink() or not path.is_file():
                continue
            content = path.read_bytes()
            found += self.in_text(str(path), content)
            if content[:2] == b"\x1f\x8b":
                found += self.in_text(f"{path}, unpacked", gzip.decompress(content))
            if path.name == "HEAD" and (path.parent / "objects").is_dir():
                found += self.in_text(f"an object of {path.parent}", _objects_of(path.parent))
        return found


class CommandLineSearch:
    """Reads the command line of every process of the machine, over and over, while it is entered."""

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._lines = CommandLines(pause=PAUSE, always=True)

    def __enter__(self) -> Self:
        self._lines.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.stop()

    @property
    def seen(self) -> int:
        """The number of different command lines."""
        return len(self._lines.seen)

    def found(self) -> list[str]:
        return [
            finding
            for line in sorted(self._lines.seen)
            for finding in self._canaries.in_text(f"the command line of {program_of(line)}", line)
        ]


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode()
    yield from (raw, raw.hex().encode())
    yield from (each.encode() for each in (quote(value), quote(value, safe=""), quote_plus(value)))
    yield json.dumps(value)[1:-1].encode()
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + raw)
        rest = (before + len(raw)) % 3
        end = len(whole) - (4 if rest else 0)  # the bytes after it change the last group
        inner = whole[_SPARE[before] : end]
        yield from (inner, inner.replace(b"+", b"-").replace(b"/", b"_"))


def _without_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        secret = value.get("kind") == "Secret"
        return {
            key: _without_data(inner)
            for key, inner in value.items()
            if not (secret and key in ("data", "stringData"))
        }
    return [_without_data(one) for one in value] if isinstance(value, list) else value


def _objects_of(repository: Path) -> bytes:
    """Every object of a repository, whether a ref leads there or not."""
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    done = subprocess.run(
        ["git", f"--git-dir={repository}", "cat-file", "--batch-all-objects", "--batch", "--unordered"],
        capture_output=True,
        check=False,
        env=git_environment() | trusted,
    )
    return done.stdout
