"""The ledger on disk, and the lock that lets one pass at a time into a data folder.

Both lie in `.sync-state/` on the data volume itself, because it is the only place
that lives as long as the files they speak of. The manifest is replaced as a whole
and is durable before the call returns. One that cannot be read counts as absent:
then nothing is deleted, and the next pass writes a new one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from stoker.domain.errors import InvalidValue, Retry, Stalled, Wait
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Ledger
from stoker.engine.objects import BlobId, FileVersion, Note
from stoker.engine.protecting import STATE
from stoker.fs.confined import PRIVATE_MODE, DataFolder, create, why

MANIFEST = STATE.joined("manifest")
FORMAT = 1
RETRY_AFTER = 5.0

_NEW = "manifest.new"
_LOCK = "lock"


@contextmanager
def locked(folder: DataFolder) -> Iterator[None]:
    """Be the only pass on this data folder; the kernel lets go of the lock when the process dies."""
    try:
        with folder.entered(STATE, make=PRIVATE_MODE) as state:
            os.fchmod(state, PRIVATE_MODE)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(_LOCK, flags, 0o600, dir_fd=state)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Wait(
                f"another sync is at work on {folder.place}",
                after=RETRY_AFTER,
                reason=Reason.SYNC_IN_PROGRESS,
            ) from None
        yield
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Found:
    """The ledger, None on first contact, and what has to be said about how it was found."""

    ledger: Ledger | None
    trouble: tuple[Note, ...] = ()


def load(folder: DataFolder) -> Found:
    """What the last pass left."""
    try:
        with folder.reading(MANIFEST) as fd, os.fdopen(os.dup(fd), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return Found(None)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        return Found(_decoded(json.loads(content)))
    except (ValueError, KeyError, TypeError, AttributeError, InvalidValue, RecursionError):
        why_not = "cannot be read; counted as first contact, on which nothing is deleted"
        return Found(None, (Note(MANIFEST, why_not),))


def save(folder: DataFolder, ledger: Ledger) -> None:
    """Replace the manifest, durably."""
    content = json.dumps(_encoded(ledger), ensure_ascii=False, separators=(",", ":")).encode()
    try:
        with folder.entered(STATE, make=PRIVATE_MODE) as state:
            with suppress(FileNotFoundError):
                os.unlink(_NEW, dir_fd=state)
            with os.fdopen(create(state, _NEW), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(_NEW, MANIFEST.name, src_dir_fd=state, dst_dir_fd=state)
            os.fsync(state)
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder: DataFolder, error: OSError) -> Retry:
    return Retry(f"{folder.place / STATE} {why(error)}", reason=Reason.DATA_VOLUME_FAILED)


def _encoded(ledger: Ledger) -> dict[str, object]:
    return {
        "format": FORMAT,
        "files": _encoded_files(ledger.files),
        "intended": _encoded_files(ledger.intended),
        "mappings": sorted(ledger.mappings),
        "folders": sorted(ledger.folders),
    }


def _encoded_files(files: Mapping[RelPath, FileVersion]) -> dict[str, list[str]]:
    return {path: [version.blob, f"{version.mode:o}"] for path, version in sorted(files.items())}


def _decoded(data: dict[str, object]) -> Ledger:
    if data["format"] != FORMAT:
        raise Stalled(
            f"the manifest in {STATE} has format {data['format']!r}, which this version cannot read"
        )
    return Ledger(
        files=_decoded_files(data["files"]),
        intended=_decoded_files(data["intended"]),
        mappings=frozenset(map(str, _items(data["mappings"]))),
        folders=frozenset(RelPath(str(item)) for item in _items(data["folders"])),
    )


def _decoded_files(data: object) -> dict[RelPath, FileVersion]:
    """Paths are checked again: whoever can write here must not make us delete elsewhere."""
    if not isinstance(data, dict):
        raise TypeError("files are not a map")
    return {RelPath(path): FileVersion(BlobId(blob), mode == "755") for path, (blob, mode) in data.items()}


def _items(data: object) -> list[object]:
    if not isinstance(data, list):
        raise TypeError("not a list")
    return data
