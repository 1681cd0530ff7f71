"""A Gitea, built from its Go module the first time it is needed and kept from then on.

It differs from the cluster's binaries (`stoker_testkit.assets.go_build`): its module lays
others aside by `replace`, which counts only where it is built as itself, so it is
built in the folder that Go has downloaded it to; its database needs a C compiler; and
it reads templates and options while it runs, which are kept beside the binary. Its web
pages would need a build of their own and are not there; the API is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from stoker.domain.errors import Stalled
from stoker_testkit.assets.cache import cache_root, missing, pin, tool_folder
from stoker_testkit.assets.go_toolchain import go_command
from stoker_testkit.file_lock import locked
from stoker_testkit.processes import Process
from stoker_testkit.progress import TerminalProgress

BINARY = "gitea"
STATIC = ("options", "templates", "public")

_MODULE = "code.gitea.io/gitea"
_TAGS = "sqlite sqlite_unlock_notify"
_DOWNLOAD_SECONDS = 300.0


def ensure() -> Path:
    """The folder with the binary and what it reads; made if there is none, which takes minutes."""
    folder = tool_folder("gitea")
    folder.mkdir(parents=True, exist_ok=True)
    if missing((BINARY,), folder):
        with locked(folder / ".lock"):
            if missing((BINARY,), folder):  # another process may have made it while we waited
                _make(folder)
    return folder


def _make(folder: Path) -> None:
    go = go_command(cache_root())
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch:
        source, version = _download(go, Path(scratch))
        for name in STATIC:
            shutil.rmtree(folder / name, ignore_errors=True)
            shutil.copytree(source / name, folder / name, copy_function=shutil.copyfile)
        _build(go, source, Path(scratch), TerminalProgress(f"building Gitea {version} from Go modules"))
        Path(scratch, BINARY).rename(folder / BINARY)  # last: it says that all of it is there


def _download(go: Path, scratch: Path) -> tuple[Path, str]:
    """The folder of the module's source, once its digest is the pinned one."""
    for file in ("go.mod", "go.sum"):
        (scratch / file).write_bytes(pin("gitea", file))
    _, version, digest = pin("gitea", "go.sum").decode().splitlines()[0].split()
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{_MODULE}@{version}"],
        cwd=scratch,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_DOWNLOAD_SECONDS,
    )
    module = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if done.returncode or module.get("Sum") != digest:
        why = module.get("Error") or done.stderr.strip() or "its digest is not the pinned one"
        raise Stalled(f"Gitea {version} could not be downloaded: {why}")
    return Path(module["Dir"]), version


def _build(go: Path, source: Path, scratch: Path, progress: TerminalProgress) -> None:
    options = ("-mod=readonly", "-trimpath", "-tags", _TAGS, "-ldflags", "-s -w")
    argv: list[str | Path] = [go, "build", "-C", source, *options, "-o", scratch / BINARY, "."]
    with Process.start("go build gitea", argv, log=scratch / "build.log", env=_environment()) as run:
        while not run.wait(progress.interval):
            progress.tick()
        if run.returncode:
            progress.failed()
            raise Stalled(f"Gitea could not be built, which also takes a C compiler: {run.tail()}")
    progress.done()


def _environment() -> dict[str, str]:
    own = {"CGO_ENABLED": "1", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **own}
