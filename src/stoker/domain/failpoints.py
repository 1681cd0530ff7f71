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
_SYNC_STEPS = ("carry",)
_DISK_STEPS = (
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
_ROLLBACK_STEPS = ("snapshot.take", "rollback.intend", "rollback.restore", "rollback.settle")

# What is noted of a gateway beside the ledger, and what the notes are about.
_GATEWAY_STEPS = ("startup.mark", "mark.write", "mark.rename", "mark.clear", "lock", "scan")


def _before_and_after(steps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{step}.{when}" for step in steps for when in ("before", "after"))


DATA_FAILPOINTS = _before_and_after(_DISK_STEPS)
"""Those on the data volume."""
CACHE = _before_and_after(_GIT)
"""Those in the cache of mirrors."""
IMPORTING = _before_and_after(_IMPORTING)
"""Those of whoever follows a registry or a bucket, in place of a fetch."""
WRITING = _before_and_after(_WRITING)
"""Those of whoever writes to a branch."""
REVERSING = _before_and_after(_REVERSING)
"""Those of the reverser, besides the ones of writing."""
GATEWAY = _before_and_after(_GATEWAY_STEPS)
"""Those of whoever looks after a gateway."""
SNAPSHOT = _before_and_after(_SNAPSHOT)
"""Those of whoever keeps snapshots in a folder."""
ROLLBACK_FAILPOINTS = _before_and_after(_ROLLBACK_STEPS)
"""Those of whoever takes a change back."""
ALL_FAILPOINTS = (*CACHE, *_before_and_after(_SYNC_STEPS), *DATA_FAILPOINTS)
"""Every name that a sync of files comes to, for a test that goes through all of them."""

_listener: Callable[[str], None] | None = None


def reach_failpoint(name: str) -> None:
    """The process is at this place; whoever listens may not let it go on."""
    if _listener is not None:
        _listener(name)


def listen(listener: Callable[[str], None] | None) -> None:
    """Call `listener` with each name from now on; only a test does that."""
    global _listener  # noqa: PLW0603 - one global look is all that a failpoint may cost
    _listener = listener
