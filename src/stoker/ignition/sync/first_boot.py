"""The first boot of a gateway: whether it is still to come, and which files it changed.

A gateway that boots for the first time with our files rewrites some of them. The agent records
on the data volume which files differ the moment the boot has ended, and the second sync restores
them. Any other difference was made by a person since and is ordinary drift: the second sync must
never overwrite it. If no process observed the end of the boot, every difference counts as a
person's. The record is made once: differences after a later start are not from the first boot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from stoker.engine.layout.protected_paths import STAGING, STATE
from stoker.engine.plan.ledger import Ledger
from stoker.ignition.sync.readiness import GatewayReadiness
from stoker.ignition.sync.state_files import MAX_FILE_BYTES, StateFiles

STATE_FILE = "first-boot"
POLL_SECONDS = 5.0
"""Seconds between two checks of a gateway that boots for the first time."""
_LOST_AND_FOUND = "lost+found"


class FirstBoot:
    """The recorded state of the first boot of the gateway at one data folder."""

    def __init__(self, marks: StateFiles, readiness: GatewayReadiness) -> None:
        self._marks = marks
        self._readiness = readiness

    @property
    def awaited(self) -> bool:
        """The gateway has files and has never run with them, or the second sync has not been made yet."""
        return self._marks.read(STATE_FILE) is not None

    @property
    def ended_just_now(self) -> bool:
        """Whether the current differences on disk were made by the boot."""
        return self._readiness.start_was_watched

    @property
    def noted(self) -> bool:
        """Whether the changes of the boot were recorded, even if there were none."""
        return bool(self._marks.read(STATE_FILE))

    @property
    def changed(self) -> Mapping[str, str]:
        """The changes of the boot: by path the blob id at that time, empty for a removed file."""
        try:
            said = json.loads(self._marks.read(STATE_FILE) or b"{}")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(said, dict):
            return {}
        return {path: content for path, content in said.items() if isinstance(content, str)}

    def expect(self) -> None:
        """Record that the first files are about to be written and the gateway has not been started."""
        self._marks.write(STATE_FILE)

    def remember(self, changed: Mapping[str, str]) -> None:
        """Store the changes of the boot; if they are too large to store, none is attributed to the boot."""
        content = json.dumps(dict(sorted(changed.items()))).encode()
        self._marks.write(STATE_FILE, content if len(content) <= MAX_FILE_BYTES else b"{}")

    def over(self) -> None:
        """Record that the second sync was made."""
        self._marks.clear(STATE_FILE)


def is_never_started(data_dir: Path, before: Ledger | None) -> bool:
    """Return whether no gateway has run with a data folder: it holds only our own files."""
    ours = {str(STATE), str(STAGING), _LOST_AND_FOUND}
    if before is not None:
        ours.update(path.partition("/")[0] for path in before.files)
    return ours.issuperset(entry.name for entry in data_dir.iterdir())
