"""What a file of ours may be on disk: its mode and its owner.

A repository says of a file only whether it may be executed; everything else comes
from here, so no commit can make a file that is setuid, writable for the world or
somebody else's. A file that the gateway cannot write makes it fault: started as
root we give files to the owner of the data folder, unless told whom.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from stoker.domain.errors import Misconfigured
from stoker.fs.data_folder import open_folder

FOLDER_MODE = 0o755


class FileRules(NamedTuple):
    """For everything that one pass writes."""

    owner: tuple[int, int] | None = None
    """uid and gid; None leaves it to whoever we are."""
    umask: int = 0

    def within(self, folder: int) -> FileRules:
        """The same for a data folder, given as a descriptor, with the owner that nobody named."""
        if self.owner is not None or os.geteuid() != 0:
            return self
        found = os.fstat(folder)
        return self._replace(owner=(found.st_uid, found.st_gid))

    def mode(self, asked: int) -> int:
        return asked & ~self.umask

    @property
    def folder_mode(self) -> int:
        """We must be able to go on in a folder that we made, whatever the umask takes from others."""
        return FOLDER_MODE & ~self.umask | 0o700

    def enforce(self, fd: int, mode: int) -> os.stat_result:
        """Give what was just made under that mode what the process's umask or the volume took away."""
        found = os.fstat(fd)
        if stat.S_IMODE(found.st_mode) == mode and self.owner in (None, (found.st_uid, found.st_gid)):
            return found
        if self.owner is not None:
            self._give(fd, self.owner)
        os.fchmod(fd, mode)
        return os.fstat(fd)

    def make_folder(self, above: int, name: str) -> int:
        """A descriptor of a new folder, or of the one that is there if somebody was quicker."""
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
