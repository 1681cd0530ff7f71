"""The first actions of a test gateway when it starts: its own files, and the installed modules.

The first start on a folder makes the files that belong to the gateway alone; nothing
that exists already is touched. Modules are loaded at a start and never later.
"""

from __future__ import annotations

import io
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from stoker_testkit.gateway.atomic_write import CACHE, put_file, read_file

MODULES = "user-lib/modules"
_OWN = {
    f"{CACHE}/manifest.json": b"{}",
    "config/resources/core/config-mode.json": b'{\n  "title": "core",\n  "description": ""\n}',
    "config/resources/local/config-mode.json": b'{\n  "title": "local",\n  "description": ""\n}',
    "config/resources/local/ignition/identity/config.json": b"{}",
    "config/ignition/keys/gateway.key": b"made here",
    "config/ignition/tags/valueStore.idb": b"SQLite format 3\x00",
    "db/config.idb": b"SQLite format 3\x00",
}


@dataclass(frozen=True, slots=True)
class Modules:
    """Those that came with files: the healthy ones, and why the others are not."""

    healthy: tuple[str, ...] = ()
    quarantined: Mapping[str, str] = field(default_factory=dict)


def commission(data_dir: Path) -> bool:
    """Make the gateway's own files; whether this was the first start here."""
    if (data_dir / ".uuid").exists():
        return False
    for path, content in _OWN.items():
        if not (data_dir / path).exists():
            put_file(data_dir, data_dir / path, content)
    put_file(data_dir, data_dir / ".uuid", str(uuid.uuid4()).encode())
    return True


def installed_modules(data_dir: Path) -> Modules:
    """By the id in `module.xml`, or the file's name where there is none; one that is empty is put aside."""
    healthy, quarantined = [], {}
    for path in sorted((data_dir / MODULES).glob("*")):
        if path.suffix not in {".modl", ".jar"}:
            continue
        content = read_file(path)
        if content:
            healthy.append(_id_in(content) or path.stem)
        else:
            quarantined[path.stem] = "the file is empty"
    return Modules(tuple(healthy), quarantined)


def _id_in(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            found = ElementTree.fromstring(archive.read("module.xml")).findtext(".//id")  # noqa: S314 - a test's own
    except (zipfile.BadZipFile, KeyError, ElementTree.ParseError):
        return ""
    return (found or "").strip()
