"""What lies in a data folder, at and below the places that a pass cares about.

Content is compared, not dates: each file that is desired or that we wrote is read
and named by its blob id, so drift cannot hide. Any other file is only listed. No
symlink is followed; one above a managed place is reported as what stands in the
way. Folders that are the gateway's own are not even listed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Set as AbstractSet

from stoker.domain.errors import InvalidValue, Retry
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Live, LiveEntry, LiveKind
from stoker.engine.mapping import Managed
from stoker.engine.objects import BlobHash, BlobId
from stoker.engine.protecting import SHIELD
from stoker.fs.confined import DataFolder, open_regular, why

_CHUNK = 1 << 20


def scan(folder: DataFolder, managed: Managed, compared: AbstractSet[RelPath], *, digits: int) -> Live:
    """The live state; `compared` are the paths whose content matters, `digits` the length of their ids."""
    scanner = _Scanner(folder, compared, digits)
    for place in sorted(managed.folders | managed.files):  # where a file shall be there may be a folder
        scanner.walk(place)
    for path in sorted(compared):
        scanner.look(path)
    return Live(scanner.entries, frozenset(scanner.opaque))


class _Scanner:
    def __init__(self, folder: DataFolder, compared: AbstractSet[RelPath], digits: int) -> None:
        self._folder = folder
        self._compared = compared
        self._digits = digits
        self._walked: set[RelPath] = set()
        self._absent: set[RelPath] = set()
        self.entries: dict[RelPath, LiveEntry] = {}
        self.opaque: set[RelPath] = set()

    def walk(self, place: RelPath) -> None:
        """Everything in a managed folder."""
        if any(place.is_below(done) for done in self._walked):
            return
        self.look(place)
        if self._is_folder(place):
            self._walked.add(place)
            try:
                with self._folder.entered(place) as fd:
                    self._list(fd, place)
            except OSError as error:
                raise self._unknown(place, error) from error

    def look(self, path: RelPath) -> None:
        """One path and, before it, each folder above it: there may be something in the way."""
        above = path.parent
        if above and above not in self._absent:
            self.look(above)
        if above and not self._is_folder(above):
            self._absent.add(path)
        elif path not in self.entries and path not in self._absent:
            try:
                with self._folder.entered(above) as fd:
                    self.entries[path] = self._entry(fd, path)
            except FileNotFoundError:
                self._absent.add(path)
            except OSError as error:
                raise self._unknown(path, error) from error

    def _list(self, fd: int, place: RelPath) -> None:
        for name in sorted(os.listdir(fd)):
            try:
                path = place.joined(RelPath(name))
            except InvalidValue:
                self.opaque.add(place)
                continue
            try:
                entry = self._entry(fd, path)
            except FileNotFoundError:  # it went away while we were looking
                continue
            except OSError:  # a folder that can be listed and not entered
                self.opaque.add(place)
                continue
            self.entries[path] = entry
            if entry.kind is LiveKind.FOLDER:
                self._descend(fd, path)

    def _descend(self, above: int, path: RelPath) -> None:
        if SHIELD.matches(path):
            self.opaque.add(path)
            return
        try:
            fd = os.open(path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except OSError:  # unreadable, or swapped while we were looking: nothing in it is known
            self.opaque.add(path)
            return
        try:
            self._list(fd, path)
        finally:
            os.close(fd)

    def _entry(self, folder: int, path: RelPath) -> LiveEntry:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return LiveEntry(LiveKind.FOLDER)
        if stat.S_ISLNK(found.st_mode):
            return LiveEntry(LiveKind.SYMLINK)
        if not stat.S_ISREG(found.st_mode):
            return LiveEntry(LiveKind.SPECIAL)
        blob = self._blob(folder, path.name) if path in self._compared else None
        return LiveEntry(LiveKind.FILE, blob, executable=bool(found.st_mode & stat.S_IXUSR))

    def _blob(self, folder: int, name: str) -> BlobId | None:
        """The id of the content; None for one that cannot be read, which then differs from any other."""
        try:
            fd = open_regular(folder, name)
        except OSError:
            return None
        try:
            digest = BlobHash(os.fstat(fd).st_size, digits=self._digits)
            while chunk := os.read(fd, _CHUNK):
                digest.update(chunk)
            return digest.blob()
        except OSError:
            return None
        finally:
            os.close(fd)

    def _unknown(self, path: RelPath, error: OSError) -> Retry:
        """Without knowing what lies there nothing may be planned."""
        return Retry(f"{self._folder.place / path} {why(error)}", reason=Reason.DATA_VOLUME_FAILED)

    def _is_folder(self, path: RelPath) -> bool:
        entry = self.entries.get(path)
        return entry is not None and entry.kind is LiveKind.FOLDER
