"""Places in the code at which a test can make the world end.

A failpoint is a name that is spoken before and after each step that changes
something on disk. Nobody listens in normal operation, and then it costs one look
at a global. `stoker_testkit.faults.failpoints` listens in a process of its own and kills
it there, lets the disk be full, or holds it until it is told to go on.
"""

from __future__ import annotations

from collections.abc import Callable

_GIT = (
    "mirror.make",
    "fetch",
    "mirror.swap",
)
# An artifact becomes a commit.
_IMPORTING = ("import",)
# Building commits and bringing them to a branch.
_WRITING = ("pack.write", "push", "tip.write")
# The turns of a worker of the reverser: changes become commits, these are brought away, and count as written.
_REVERSING = ("batch.take", "batch.deliver", "batch.settle")
# Between the last guard and the first byte, and between the last byte and the report.
_PASS = ("carry",)
_DISK = (
    # Files on their way, where nobody looks.
    "staging.clear",
    "staging.mkdir",
    "stage.mkdir",
    "stage.write",
    "stage.sync",
    # Live files.
    "mkdir",
    "rename",
    "folder.rename",
    "chmod",
    "unlink",
    "rmdir",
    "flush",
    # The ledger.
    "state.mkdir",
    "journal.append",
    "journal.sync",
    "journal.unlink",
    "base.write",
    "base.sync",
    "base.rename",
    "base.flush",
)

# An object of a snapshot in a folder: written beside its place, moved there, let go.
_SNAPSHOT = ("snapshot.write", "snapshot.sync", "snapshot.rename", "snapshot.flush", "snapshot.unlink")

# The copy before a change, the word that a change will be taken back, the way back, the word that it is done.
_GOING_BACK = ("snapshot.take", "rollback.intend", "rollback.restore", "rollback.settle")

# What is noted of a gateway beside the ledger, and what the notes are about.
_AROUND = ("startup.mark", "mark.write", "mark.rename", "mark.clear", "lock", "scan")


def _around(steps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{step}.{when}" for step in steps for when in ("before", "after"))


DATA = _around(_DISK)
"""Those on the data volume."""
CACHE = _around(_GIT)
"""Those in the cache of mirrors."""
IMPORTING = _around(_IMPORTING)
"""Those of whoever follows a registry or a bucket, in place of a fetch."""
WRITING = _around(_WRITING)
"""Those of whoever writes to a branch."""
REVERSING = _around(_REVERSING)
"""Those of the reverser, besides the ones of writing."""
GATEWAY = _around(_AROUND)
"""Those of whoever looks after a gateway."""
SNAPSHOT = _around(_SNAPSHOT)
"""Those of whoever keeps snapshots in a folder."""
GOING_BACK = _around(_GOING_BACK)
"""Those of whoever takes a change back."""
ALL = (*CACHE, *_around(_PASS), *DATA)
"""Every name that a sync of files comes to, for a test that goes through all of them."""

_listener: Callable[[str], None] | None = None


def reached(name: str) -> None:
    """The process is at this place; whoever listens may not let it go on."""
    if _listener is not None:
        _listener(name)


def listen(listener: Callable[[str], None] | None) -> None:
    """Call `listener` with each name from now on; only a test does that."""
    global _listener  # noqa: PLW0603 - one global look is all that a failpoint may cost
    _listener = listener
