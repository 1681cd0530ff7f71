"""Creates an empty bare repository, and the options with which everything is fetched into it.

The files are written here and not by `git init`, which would copy the machine's template with its
hooks. The object format (SHA-1 or SHA-256) cannot be changed later.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stoker.git.errors import GitFailed
from stoker.git.private_files import write_private

QUIET_FETCH = (
    "fetch",
    "--quiet",
    "--force",
    "--no-tags",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
)
HEAD = b"ref: refs/heads/none\n"
# A planted setting could make git run a command, so every later use compares the file with this content.
CONFIG = {
    40: b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    64: b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n",
}


def make_bare(path: Path, id_length: int, folders: Iterable[str] = ()) -> Path:
    """Create a folder that git accepts as an empty repository with ids of this length."""
    try:
        path.mkdir(mode=0o700)
        for name in ("objects/pack", "refs/heads", *folders):
            (path / name).mkdir(parents=True)
        (path / "HEAD").write_bytes(HEAD)
        write_private(path / "config", CONFIG[id_length], 0o600)
    except OSError as error:
        raise GitFailed(f"folder {path} cannot be made: {error.strerror}") from error
    return path
