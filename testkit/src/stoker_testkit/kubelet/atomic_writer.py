"""The files that a kubelet keeps in a running container: written all at once, replaced by moving a link.

Every volume that is made of objects (Secrets, the downward API, tokens) looks like this:
the files are in a folder named after the time, `..data` points to it, and each name in the
volume is a link through `..data`. A reader sees the old files or the new ones.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path


def podinfo(values: Mapping[str, str]) -> str:
    """Keys and values as the kubelet writes them."""
    return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(values.items()))


def swap(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Replace the content of a mounted volume; a name may have folders in it."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"..{uuid.uuid4().hex}"
    fresh.mkdir()
    for name, content in files.items():
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    link = folder / "..data"
    old = link.readlink() if link.is_symlink() else None
    moving = folder / "..data_tmp"
    moving.symlink_to(fresh.name)
    moving.rename(link)
    tops = {name.partition("/")[0] for name in files}
    for name in tops:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for one in folder.iterdir():
        if not one.name.startswith("..") and one.name not in tops:
            one.unlink()
    if old is not None:
        shutil.rmtree(folder / old)


def _quoted(text: str) -> str:
    """As Go quotes a string."""
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c) or (c if c.isprintable() else f"\\u{ord(c):04x}") for c in text) + '"'
