"""Imports artifacts of a registry or a bucket into a mirror, each as one commit.

    refs/stoker/artifacts/ID    the commit that holds the files of the artifact ID

`stoker.git.source.artifact` uses it in place of a fetch. The commit depends only on the files, the
artifact's own time and its origin, so that the same artifact is the same commit wherever it is
imported. Files go from the origin through `git fast-import` into a pack and never into a folder, so a
malicious file name cannot cause a path traversal. An interrupted import leaves no ref, and the next
attempt starts again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from stoker.domain.errors import InvalidValue
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import BlobId
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.artifact_source import Artifact, ArtifactFile, ArtifactOrigin
from stoker.git.errors import GitFailed
from stoker.git.mirror.layout import ARTIFACTS, remove_temporary_packs
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.private_files import folder_for_one_call
from stoker.git.process.child import kill_group
from stoker.git.process.pipe import run_in_worker
from stoker.git.process.runner import GitRunner

MAX_KEPT = 64
"""Number of artifacts that a mirror keeps; an older artifact is pulled again if it is needed again."""
END_SECONDS = 120.0
_COMMITTER_IDENT = "Stoker <stoker@localhost>"
# bigFileThreshold: larger files are streamed and not held in memory. unpackLimit=0: always write a pack.
_FAST_IMPORT = (
    "-c",
    "core.bigFileThreshold=4m",
    "-c",
    "fastimport.unpackLimit=0",
    "-c",
    "pack.threads=1",
    "fast-import",
    "--quiet",
    "--done",
    "--date-format=raw",
)


def artifact_commit(repository: Path, artifact: str) -> CommitId | None:
    """Return the commit that was made from an artifact; None if it is not in this mirror."""
    try:
        return CommitId((repository / ARTIFACTS / artifact).read_text("ascii").strip())
    except (OSError, InvalidValue, UnicodeDecodeError):
        return None


class ImportedObjects(MirrorObjects):
    """The objects of a mirror of artifacts, whose callers pass artifact ids in place of commit ids."""

    def __init__(self, runner: GitRunner, repository: Path) -> None:
        super().__init__(runner, repository)
        self._place = repository

    async def has(self, commit: CommitId) -> bool:
        made = artifact_commit(self._place, commit)
        return made is not None and await super().has(made)


class ArtifactImporter:
    """Imports artifacts of one origin into one repository on disk."""

    def __init__(
        self, origin: ArtifactOrigin, runner: GitRunner, repository: Path, objects: MirrorObjects
    ) -> None:
        self._origin = origin
        self._runner = runner
        self._repository = repository
        self._objects = objects

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Import the artifact of this id as a commit."""
        self._forget_old()
        reach_failpoint("import.before")
        with folder_for_one_call(self._runner.home) as folder:
            artifact = await self._origin.pull(commit, ref, folder)
            try:
                await self._import(artifact, commit)
            finally:
                remove_temporary_packs(self._repository)
        reach_failpoint("import.after")
        if not await self._objects.has(commit):
            raise GitFailed(f"{artifact.title} was imported and is not in the mirror")

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Raise if a blob is missing: an artifact is imported whole, so there is nothing to fetch."""
        missing = await self._objects.missing(blobs)
        if missing:
            raise GitFailed(f"blob {missing[0]} and {len(missing) - 1} more are not in the mirror")

    async def _import(self, artifact: Artifact, id_: CommitId) -> None:
        (self._repository / ARTIFACTS).mkdir(exist_ok=True)
        with self._runner.stream(_FAST_IMPORT, repository=self._repository, limited=True) as process:

            def abort() -> None:
                artifact.stop()  # it may be in the middle of a long download
                kill_group(process.pid)

            await run_in_worker(lambda: _run_import(process, artifact, id_), abort)

    def _forget_old(self) -> None:
        known = self._repository / ARTIFACTS
        if known.is_dir():
            by_age = sorted(known.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in by_age[MAX_KEPT - 1 :]:
                old.unlink()


def _run_import(process: subprocess.Popen[bytes], artifact: Artifact, id_: CommitId) -> None:
    if process.stdin is None:
        raise ValueError("the process was started without pipes")
    try:
        for piece in _fast_import_stream(artifact, id_):
            write_all(process.stdin, piece)
        process.stdin.close()
        code = process.wait(END_SECONDS)
    except (BrokenPipeError, subprocess.TimeoutExpired):
        raise GitFailed(f"{artifact.title} could not be written into the mirror; is the disk full?") from None
    if code:
        raise GitFailed(f"{artifact.title} could not be made a commit: git fast-import failed")


def write_all(pipe: IO[bytes], piece: bytes) -> None:
    """Write the whole piece: an unbuffered pipe may accept only a part in one write."""
    rest = memoryview(piece)
    while rest:
        rest = rest[pipe.write(rest) :]


def _fast_import_stream(artifact: Artifact, id_: CommitId) -> Iterator[bytes]:
    """Yield the input of `git fast-import`: one commit without a parent, then its files."""
    message = f"{artifact.title}\n".encode()
    yield f"commit {ARTIFACTS}/{id_}\ncommitter {_COMMITTER_IDENT} {artifact.made_at} +0000\n".encode()
    yield b"data %d\n%b" % (len(message), message)
    for file in artifact.files():
        yield _entry(file)
        yield from file.chunks
        yield b"\n"
    yield b"done\n"


def _entry(file: ArtifactFile) -> bytes:
    path = file.path.replace("\\", "\\\\").replace('"', '\\"')  # a path contains no line break
    mode = "100755" if file.executable else "100644"
    return f'M {mode} inline "{path}"\ndata {file.size}\n'.encode()
