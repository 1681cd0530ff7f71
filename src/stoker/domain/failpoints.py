"""Failpoints: named places in the code at which a test can inject a crash or an error.

The code calls `reach_failpoint` before and after each step that changes something on disk.
In normal operation no listener is set, and a call costs one read of a global. In tests
`stoker_testkit.faults.failpoints` listens in a process of its own, and kills that process there,
simulates a full disk, or blocks it until the test continues it.
"""

from __future__ import annotations

from collections.abc import Callable

_GIT = (
    "mirror.make",
    "fetch",
    "mirror.swap",
)
# Import of an artifact as a commit.
_IMPORTING = ("import",)
# Building commits and pushing them to a branch.
_WRITING = ("pack.write", "push", "tip.write")
# The steps of a reverser worker: take changes and build commits, push them, mark the changes as written.
_REVERSING = ("batch.take", "batch.deliver", "batch.settle")
# Between the last gate and the first written byte, and between the last byte and the report.
_SYNC_STEPS = ("carry",)
_DISK_STEPS = (
    # Staged files, outside of the live folders.
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

# An object of a snapshot in a folder: written to a temporary file, renamed into place, deleted.
_SNAPSHOT = ("snapshot.write", "snapshot.sync", "snapshot.rename", "snapshot.flush", "snapshot.unlink")

# Snapshot before a change; record the intent to roll back; restore; record that the rollback is done.
_ROLLBACK_STEPS = ("snapshot.take", "rollback.intend", "rollback.restore", "rollback.settle")

# Gateway state files beside the ledger, and the steps that these files record.
_GATEWAY_STEPS = ("startup.mark", "mark.write", "mark.rename", "mark.clear", "lock", "scan")


def _before_and_after(steps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{step}.{when}" for step in steps for when in ("before", "after"))


DATA_FAILPOINTS = _before_and_after(_DISK_STEPS)
"""On the data volume."""
CACHE = _before_and_after(_GIT)
"""In the cache of mirrors."""
IMPORTING = _before_and_after(_IMPORTING)
"""In a process that follows a registry or a bucket; they replace those of a fetch."""
WRITING = _before_and_after(_WRITING)
"""In a process that pushes to a branch."""
REVERSING = _before_and_after(_REVERSING)
"""In the reverser, in addition to `WRITING`."""
GATEWAY = _before_and_after(_GATEWAY_STEPS)
"""In an agent that restarts, scans or locks a gateway."""
SNAPSHOT = _before_and_after(_SNAPSHOT)
"""In a process that stores snapshots in a folder."""
ROLLBACK_FAILPOINTS = _before_and_after(_ROLLBACK_STEPS)
"""In an agent that rolls back."""
ALL_FAILPOINTS = (*CACHE, *_before_and_after(_SYNC_STEPS), *DATA_FAILPOINTS)
"""Every failpoint that a sync of files reaches, for a test that iterates over all of them."""

_listener: Callable[[str], None] | None = None


def reach_failpoint(name: str) -> None:
    """Call the listener, if any; it may block, raise or end the process."""
    if _listener is not None:
        _listener(name)


def listen(listener: Callable[[str], None] | None) -> None:
    """Call `listener` with each name from now on; only a test does that."""
    global _listener  # noqa: PLW0603 - a failpoint must cost no more than one read of a global
    _listener = listener
