"""Other programs, run to their end; how one failed is told in one sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class ImageError(Exception):
    """What stops an image from being made, in one sentence."""


def run(argv: list[str], cwd: Path | None = None) -> bytes:
    """What the program printed."""
    # Order of sets and language must not show in what is made.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    environment.pop("VIRTUAL_ENV", None)
    try:
        ended = subprocess.run(argv, capture_output=True, check=False, cwd=cwd, env=environment)
    except FileNotFoundError:
        raise ImageError(f"{argv[0]} is needed; images are made on Debian and its relatives") from None
    if ended.returncode != 0:
        said = " ".join(ended.stderr.decode(errors="replace").split())[-800:]
        raise ImageError(f"{Path(argv[0]).name} failed: {said or 'it said nothing'}")
    return ended.stdout


def ask(argv: list[str], cwd: Path | None = None) -> str:
    """The same as text."""
    return run(argv, cwd).decode()
