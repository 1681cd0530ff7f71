"""A repository in the hands of an attacker, and the data folder that it is aimed at.

The one generator of evil repositories. Objects are written byte by byte through git's
plumbing, so they hold what no git command would put there: any name, any mode, any
order, the same name twice. Around the victim's data folder there is a sentinel; a sync
that changes anything outside its destination raises `UnmanagedFileChanged`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.agent.sync.folder import FULL_SYNC, FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.errors import StokerError
from stoker.domain.intent.files import FileMapping, FilesIntent, MissingSourcePolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.source.git import GitSource
from stoker_testkit.repositories.bare_repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

REGULAR, EXECUTABLE, FOLDER, LINK, MODULE = "100644", "100755", "40000", "120000", "160000"
LFS_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1\n"
DESTINATION = "projects/P"
INTENT = FilesIntent((FileMapping("s", DESTINATION, when_missing=MissingSourcePolicy.FAIL),))

Stamp = tuple[int, int, int, int, str]


class UnmanagedFileChanged(StokerError):
    """Something was changed that no mapping gave away."""


class MaliciousRepository:
    """Writes objects as they are asked for, unchecked."""

    def __init__(self, path: Path) -> None:
        self.repository = Repository.create(path)

    def write(self, kind: str, content: bytes) -> CommitId:
        """An object of any content; its id, whatever it claims to be, could be a commit's."""
        arguments = ("hash-object", "-t", kind, "-w", "--literally", "--stdin")
        return CommitId(self.repository.git(*arguments, stdin=content).decode().strip())

    def read(self, id_: str) -> bytes:
        kind = self.repository.git("cat-file", "-t", id_).decode().strip()
        return self.repository.git("cat-file", kind, id_)

    def blob(self, content: bytes) -> str:
        return self.write("blob", content)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree object of these (mode, name, id), in this order."""
        raw = (mode.encode() + b" " + name + b"\0" + bytes.fromhex(id_) for mode, name, id_ in entries)
        return self.write("tree", b"".join(raw))

    def commit(self, root: str, *, branch: str = "main", parents: Iterable[str] = ()) -> CommitId:
        """A commit of any tree, to which the branch then points."""
        who = "E <e@example.test> 1 +0000"
        lines = [f"tree {root}", *(f"parent {one}" for one in parents), f"author {who}", f"committer {who}"]
        commit = self.write("commit", "\n".join([*lines, "", "Evil", ""]).encode())
        self.repository.set_branch(branch, commit)
        return commit

    def source(self, *entries: tuple[str, bytes, str]) -> CommitId:
        """A commit whose folder `s` holds these entries and one good file."""
        good = (REGULAR, b"good", self.blob(b"good"))
        return self.commit(self.tree((FOLDER, b"s", self.tree(*entries, good))))

    def bomb(self, width: int, depth: int) -> str:
        """A tree that names width ** depth files in a few hundred bytes."""
        tree = self.tree(*((REGULAR, b"f%d" % n, self.blob(b"x")) for n in range(width)))
        for _ in range(depth - 1):
            tree = self.tree(*((FOLDER, b"d%d" % n, tree) for n in range(width)))
        return tree


class Attack(MaliciousRepository):
    """With a victim: a data folder in which there are files of others, and a sentinel beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "evil.git")
        self.outside = folder / "outside"
        self.data = self.outside / "data"
        self.cache = folder / "cache"
        (self.data / "projects/other").mkdir(parents=True)
        (self.outside / "sentinel").write_text("untouched")
        (self.data / ".uuid").write_text("gateway")
        (self.data / "projects/other/x").write_text("theirs")

    @property
    def url(self) -> RepoUrl:
        return RepoUrl(self.repository.path.as_uri())

    def job(self, intent: FilesIntent = INTENT, *, ref: str = "main", **source: object) -> SyncJob:
        """`source` are further fields of the source, such as its policies."""
        where = SourceIntent(self.url, GitRef(ref))._replace(**source)  # type: ignore[arg-type]
        return SyncJob(where, intent, TemplateValues(), self.data, self.cache)

    def bounded(self, limits: FetchLimits) -> FolderSync:
        """A folder sync with other limits than a process has."""
        job = self.job()
        remote = Remote(GitRunner(job.cache_dir), job.source.url, fixed_access(RepoAccess()))
        return FolderSync(job, GitSource(remote, job.cache_dir, limits=limits))

    async def sync(
        self,
        intent: FilesIntent = INTENT,
        *,
        folder_sync: FolderSync | None = None,
        options: SyncOptions = FULL_SYNC,
    ) -> SyncReport:
        """One whole pass; raises `UnmanagedFileChanged` if it went too far, whatever else came of it."""
        with self.guarded():
            return await (folder_sync or open_keeper(self.job(intent))).sync(options)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Meanwhile nothing but the destination and our own state may change."""
        before = fingerprint(self.outside, self._is_ours)
        try:
            yield
        finally:
            after = fingerprint(self.outside, self._is_ours)
            if after != before:
                changed = sorted({*before.items()} ^ {*after.items()})
                raise UnmanagedFileChanged(f"outside the destination was changed: {changed[0][0]}")

    def delivered(self) -> dict[str, bytes]:
        place = self.data / DESTINATION
        return {
            str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()
        }

    def _is_ours(self, path: Path) -> bool:
        return path in (self.data / DESTINATION, self.data / ".sync-state", self.data / ".sync-staging")


def fingerprint(place: Path, leave_out: Callable[[Path], bool] = lambda _: False) -> dict[str, Stamp]:
    """Everything below a folder by mode, owner, time and content; of folders only mode and owner."""
    found: dict[str, Stamp] = {}
    for folder, names, files in os.walk(place):
        names[:] = [name for name in names if not leave_out(Path(folder, name))]
        for path in (Path(folder, name) for name in (*names, *files)):
            info = path.lstat()
            if path.is_symlink():
                content = str(path.readlink())
            else:
                content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            when = info.st_mtime_ns if content else 0
            found[str(path)] = (info.st_mode, info.st_uid, info.st_gid, when, content)
    return found
