"""Reads a commit from a mirror: its files by path and id, and the differences between two commits.

Paths come from git objects and are untrusted until they are proven canonical. Symlinks, submodules and
unknown modes are recorded as refused and never read. A listing is parsed while it arrives, many lines at
a time, and is bounded, because a few kilobytes of trees can name any number of files. Nothing here writes
to disk.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from pathlib import Path

from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import (
    BlobId,
    CommitTree,
    FileVersion,
    RefusedEntry,
    RefusedEntryKind,
    TreeChange,
    printable_name,
)
from stoker.domain.paths import RelPath
from stoker.domain.refs import CommitId
from stoker.git.errors import GitFailed, SourceTooLarge
from stoker.git.process.child import kill_group
from stoker.git.process.pipe import PipedOutput, run_in_worker
from stoker.git.process.runner import GitRunner

MAX_FILES = 1_000_000
MAX_TREE_BYTES = 256 << 20
MAX_CHANGES_BYTES = 64 << 20

_BLOCK = 1 << 17
# The kernel allows 2 MiB of arguments for a process, and a path may have 4 KiB.
_PATHS_AT_ONCE = 400
_REGULAR, _EXECUTABLE = "100644", "100755"
_PLAIN, _PROGRAM = f"{_REGULAR} blob ", f"{_EXECUTABLE} blob "
_NO_ENTRY_MODE = "000000"
_REPOSITORY_ROOT = RelPath("")
_LIST = ("--no-replace-objects", "--literal-pathspecs", "ls-tree", "-z", "--full-tree")
_DIFF = (
    "--no-replace-objects",
    "diff-tree",
    "-r",
    "-z",
    "--raw",
    "--no-renames",
    "--no-abbrev",
    "--no-commit-id",
)

# Bypasses the constructor for speed: a listing creates hundreds of thousands of these.
_version = partial(tuple.__new__, FileVersion)


async def read_tree(
    runner: GitRunner, repository: Path, commit: CommitId, folder: RelPath = _REPOSITORY_ROOT
) -> CommitTree:
    """Return all entries of a commit: files that can be delivered, and refused entries."""
    command = [*_LIST, "-r", "--end-of-options", commit, *([f"{folder}/"] if folder else [])]
    with runner.stream(command, repository=repository) as process:
        return await run_in_worker(lambda: _parse_tree(process, commit), lambda: kill_group(process.pid))


async def read_changes(
    runner: GitRunner, repository: Path, before: CommitId, after: CommitId
) -> tuple[TreeChange, ...] | None:
    """Return the differences between two commits.

    None if they are not all regular files with canonical paths, or the diff cannot be read. The caller
    then uses `read_tree`, which reports each refused entry.
    """
    try:
        said = await runner.run(_DIFF, [before, after], repository=repository, max_output=MAX_CHANGES_BYTES)
        fields = said.decode().split("\0")
    except (GitFailed, UnicodeDecodeError):
        return None
    heads, paths = fields[:-1:2], fields[1::2]
    changes = tuple(map(_parse_change, heads, paths))
    odd = None in changes or len(set(paths)) != len(paths) or not _all_canonical(paths)
    return None if odd else changes  # type: ignore[return-value]  # no None is among them


async def look_up_files(
    runner: GitRunner, repository: Path, commit: CommitId, paths: Collection[str]
) -> dict[str, FileVersion]:
    """Return those of the paths that are regular files in a commit."""
    found: dict[str, FileVersion] = {}
    waiting = iter(sorted(set(paths)))
    while some := list(islice(waiting, _PATHS_AT_ONCE)):
        listing = _TreeListing()
        listing.add(
            await runner.run(_LIST, [commit, *some], repository=repository, max_output=MAX_TREE_BYTES)
        )
        # Given a folder and a path inside it, git lists everything in that folder.
        files = listing.result().files
        found |= {path: files[path] for path in some if path in files}
    return found


def commit_time(commit: bytes) -> int:
    """Return the committer's time of a commit as git stores it; 0 if it is missing or malformed."""
    for line in commit.partition(b"\n\n")[0].split(b"\n"):
        if line.startswith(b"committer "):
            stamp = line.split(b" ")[-2]
            return int(stamp) if stamp.isdigit() and len(stamp) <= 12 else 0
    return 0


def _parse_tree(process: subprocess.Popen[bytes], commit: CommitId) -> CommitTree:
    listing = _TreeListing()
    for block in _line_blocks(PipedOutput(process), commit):
        listing.add(block)
        if listing.lines > MAX_FILES:
            raise SourceTooLarge(f"commit {commit} names more than {MAX_FILES} files")
    if process.wait() != 0:
        raise GitFailed(f"the tree of commit {commit} cannot be read; the mirror is damaged")
    return listing.result()


def _line_blocks(output: PipedOutput, commit: CommitId) -> Iterator[bytes]:
    """Yield blocks of whole lines; git prints in small pieces, which would be slow to parse one by one."""
    parts: list[bytes] = []
    size = due = 0
    while chunk := output.read():
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_TREE_BYTES:
            raise SourceTooLarge(f"the file names of commit {commit} need more than {MAX_TREE_BYTES} bytes")
        if size >= due and (end := chunk.rfind(b"\0") + 1):
            parts[-1] = chunk[:end]
            yield b"".join(parts)
            parts = [chunk[end:]]
            due = size + _BLOCK
    yield b"".join(parts)


class _TreeListing:
    """Collects the lines of `git ls-tree -z`, each `<mode> <type> <id>\\t<path>`."""

    def __init__(self) -> None:
        self.lines = 0
        self._files: dict[str, FileVersion] = {}
        self._refused: list[RefusedEntry] = []
        self._twice: set[str] = set()

    def add(self, block: bytes) -> None:
        self.lines += block.count(b"\0")
        lines = block.decode("utf-8", "surrogateescape").split("\0")[:-1]
        found = _parse_plain_lines(lines)
        if found is not None and self._files.keys().isdisjoint(found):
            self._files |= found
        else:
            for line in lines:
                self._add_one(line)

    def result(self) -> CommitTree:
        for path in self._twice:
            del self._files[path]
        ambiguous = [
            RefusedEntry(path, RelPath(path), RefusedEntryKind.AMBIGUOUS) for path in sorted(self._twice)
        ]
        return CommitTree(self._files, (*self._refused, *ambiguous))

    def _add_one(self, line: str) -> None:
        head, _, text = line.partition("\t")
        mode, _, blob = head.split(" ")
        try:
            path = RelPath(text)
        except InvalidValue as error:
            self._refused.append(
                RefusedEntry(
                    printable_name(text),
                    _nearest_canonical_folder(text),
                    RefusedEntryKind.BAD_NAME,
                    printable_name(error.message),
                )
            )
            return
        if mode == "120000":
            self._refused.append(RefusedEntry(path, path, RefusedEntryKind.SYMLINK))
        elif not mode.startswith("100"):  # git treats every unknown mode as a submodule
            self._refused.append(RefusedEntry(path, path, RefusedEntryKind.SUBMODULE))
        elif path in self._files:
            self._twice.add(path)
        else:
            # Only the owner's executable bit is used: setuid and similar bits never reach the disk.
            self._files[text] = FileVersion(BlobId(blob), executable=bool(int(mode, 8) & 0o100))


def _parse_plain_lines(lines: list[str]) -> dict[str, FileVersion] | None:
    """Parse all lines at once; None unless all are regular files with canonical, unique paths."""
    heads = {line[: len(_PLAIN)] for line in lines}
    if not heads <= {_PLAIN, _PROGRAM}:
        return None
    tab = lines[0].index("\t") if lines else 0  # all ids of a repository have the same length
    paths = [line[tab + 1 :] for line in lines]
    if not _all_canonical(paths):
        return None
    flags: Iterable[bool] = repeat(False)
    if _PROGRAM in heads:
        flags = [line.startswith(_PROGRAM) for line in lines]
    # git printed these ids, so they need no validation; plain strings take half the time and memory.
    blobs = [line[len(_PLAIN) : tab] for line in lines]
    found = dict(zip(paths, map(_version, zip(blobs, flags, strict=False)), strict=True))
    return found if len(found) == len(lines) else None


def _parse_change(head: str, path: str) -> TreeChange | None:
    """Parse one line of `git diff-tree --raw -z`: `:<mode> <mode> <id> <id> <letter>`."""
    modes = head[1:14].split(" ")
    blobs = head[15:].split(" ")
    if not {*modes} <= {_REGULAR, _EXECUTABLE, _NO_ENTRY_MODE}:
        return None
    before, after = (
        None if mode == _NO_ENTRY_MODE else FileVersion(BlobId(blob), mode == _EXECUTABLE)
        for mode, blob in zip(modes, blobs, strict=False)
    )
    return TreeChange(path, before, after)


def _all_canonical(paths: Sequence[str]) -> bool:
    return "" not in paths and RelPath.all_of(paths)


def _nearest_canonical_folder(text: str) -> RelPath:
    """Return the deepest canonical folder above a path that is not canonical."""
    good = RelPath("")
    for part in text.split("/")[:-1]:
        try:
            good = RelPath(f"{good}/{part}" if good else part or "..")
        except InvalidValue:
            break
    return good
