"""The mode and the owner of files that a sync writes.

A repository decides only whether a file is executable; everything else comes from here, so no commit can
create a file that is setuid, world-writable or owned by another user. A file that the gateway cannot write
makes it fault: if the process runs as root, files get the owner of the data folder, unless an owner is
configured.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from stoker.domain.errors import Misconfigured
from stoker.fs.data_folder import open_folder

FOLDER_MODE = 0o755


class FileRules(NamedTuple):
    """The rules for everything that one sync writes."""

    owner: tuple[int, int] | None = None
    """uid and gid; None keeps the user of this process."""
    umask: int = 0

    def within(self, folder: int) -> FileRules:
        """Return the rules for a data folder, given as a descriptor.

        If the process runs as root and no owner is configured, files get the owner of the folder.
        """
        if self.owner is not None or os.geteuid() != 0:
            return self
        found = os.fstat(folder)
        return self._replace(owner=(found.st_uid, found.st_gid))

    def mode(self, asked: int) -> int:
        return asked & ~self.umask

    @property
    def folder_mode(self) -> int:
        """Folder mode; the owner keeps all rights whatever the umask, so that the sync can continue in it."""
        return FOLDER_MODE & ~self.umask | 0o700

    def enforce(self, fd: int, mode: int) -> os.stat_result:
        """Restore the mode and owner that the process umask or the volume changed on a new file or folder."""
        found = os.fstat(fd)
        if stat.S_IMODE(found.st_mode) == mode and self.owner in (None, (found.st_uid, found.st_gid)):
            return found
        if self.owner is not None:
            self._give(fd, self.owner)
        os.fchmod(fd, mode)
        return os.fstat(fd)

    def make_folder(self, above: int, name: str) -> int:
        """Create a folder and open it, or open the existing one if another process created it first."""
        try:
            os.mkdir(name, self.folder_mode, dir_fd=above)
        except FileExistsError:
            return open_folder(above, name)
        fd = open_folder(above, name)
        try:
            self.enforce(fd, self.folder_mode)
        except BaseException:
            os.close(fd)
            raise
        return fd

    @staticmethod
    def _give(fd: int, owner: tuple[int, int]) -> None:
        try:
            os.fchown(fd, *owner)
        except PermissionError as error:
            raise Misconfigured(
                f"files cannot be given to {owner[0]}:{owner[1]}, for this process runs as {os.geteuid()}"
            ) from error
