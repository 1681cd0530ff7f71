"""The archive that `setup-envtest` downloads: kube-apiserver, etcd and kubectl, ready to run.

Tried before a build that would take minutes, and given up at once: without a
network, behind a wall that swallows packets, or on any answer that is not the
archive with its checksum, `fetch` says no within seconds and the build follows.
"""

from __future__ import annotations

import hashlib
import http.client
import platform
import shutil
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import IO

from stoker_testkit.assets.cache import missing
from stoker_testkit.file_lock import locked
from stoker_testkit.progress import TerminalProgress

VERSION = "v1.36.0"
RELEASES = "https://github.com/kubernetes-sigs/controller-tools/releases/download"
CONTAINS = frozenset({"etcd", "kube-apiserver", "kubectl"})

PROBE_SECONDS = 4.0
READ_SECONDS = 10.0
WHOLE_SECONDS = 300.0
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def fetch(
    names: Collection[str], folder: Path, releases: str = RELEASES, *, patience: float = PROBE_SECONDS
) -> bool:
    """Put the named binaries into `folder` if the archive holds all that is missing and can be had."""
    architecture = _ARCHITECTURES.get(platform.machine().lower())
    if architecture is None or not CONTAINS.issuperset(missing(names, folder)):
        return False
    archive = f"envtest-{VERSION}-{sys.platform}-{architecture}.tar.gz"
    address = f"{releases}/envtest-{VERSION}/{archive}"
    expected = _checksum(f"{address}.sha512", patience)
    if expected is None:
        return False
    progress = TerminalProgress(f"downloading kube-apiserver, etcd and kubectl {VERSION}")
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch:
        try:
            _download(address, Path(scratch, archive), expected, progress)
            with locked(folder / ".lock"):
                _unpack(Path(scratch, archive), Path(scratch), folder)
        except (OSError, http.client.HTTPException, tarfile.TarError, _InvalidArchive):
            progress.failed()
            return False
    progress.done()
    return not missing(names, folder)


class _InvalidArchive(Exception):
    """The archive came, but is not what was promised."""


def _checksum(address: str, patience: float) -> str | None:
    """The published checksum, or nothing if it is not there within seconds.

    Asked for in a thread that may be abandoned: a name server that does not answer
    holds up `getaddrinfo` far longer than any timeout of a socket.
    """
    answers: list[str] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(address, timeout=patience) as answer:  # noqa: S310 - fixed https address
                answers.append(answer.read(4096).decode("ascii").split()[0])
        except (OSError, http.client.HTTPException, ValueError, IndexError):
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience)
    return answers[0] if answers else None


def _download(address: str, target: Path, expected: str, progress: TerminalProgress) -> None:
    digest = hashlib.sha512()
    deadline = time.monotonic() + WHOLE_SECONDS
    shown_at = time.monotonic()
    with (
        urllib.request.urlopen(address, timeout=READ_SECONDS) as answer,  # noqa: S310 - fixed https address
        target.open("wb") as file,
    ):
        while chunk := answer.read(1 << 20):
            file.write(chunk)
            digest.update(chunk)
            if time.monotonic() > deadline:
                raise _InvalidArchive("too slow")
            if time.monotonic() - shown_at > progress.interval:
                shown_at = time.monotonic()
                progress.tick()
    if digest.hexdigest() != expected:
        raise _InvalidArchive("checksum")


def _unpack(archive: Path, scratch: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if name in CONTAINS else None
            if content is not None:
                _place(content, scratch / name, folder / name)


def _place(content: IO[bytes], scratch: Path, target: Path) -> None:
    with scratch.open("wb") as file:
        shutil.copyfileobj(content, file)
    scratch.chmod(0o755)
    scratch.rename(target)
