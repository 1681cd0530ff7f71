"""The first boot of a gateway: whether it is still to come, and what it changed on disk.

A gateway that boots for the first time with files of ours rewrites some of them. What differs
on disk the moment the boot has ended is noted on the data volume, and the second sync puts it
back. Whatever differs beyond the note was changed by a person since, and is ordinary drift: the
second sync must never overwrite it. Where no process saw the boot end, everything is a person's. The
note is made once: what differs after a later start of the gateway is not what its first boot made.
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
"""Seconds between two looks at a gateway that boots for the first time."""
_LOST_AND_FOUND = "lost+found"


class FirstBoot:
    """What is known of the first boot of the gateway at one data folder."""

    def __init__(self, marks: StateFiles, readiness: GatewayReadiness) -> None:
        self._marks = marks
        self._readiness = readiness

    @property
    def awaited(self) -> bool:
        """The gateway has files and has never run with them, or what its boot made was not met yet."""
        return self._marks.read(STATE_FILE) is not None

    @property
    def ended_just_now(self) -> bool:
        """Whether what differs on disk at this moment is what the boot made."""
        return self._readiness.start_was_watched

    @property
    def noted(self) -> bool:
        """Whether it was written down what the boot changed, be it nothing."""
        return bool(self._marks.read(STATE_FILE))

    @property
    def changed(self) -> Mapping[str, str]:
        """What the boot changed: by path the blob id of then, empty for a file that it removed."""
        try:
            said = json.loads(self._marks.read(STATE_FILE) or b"{}")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(said, dict):
            return {}
        return {path: content for path, content in said.items() if isinstance(content, str)}

    def expect(self) -> None:
        """The first files are about to be written, and the gateway has not been started."""
        self._marks.write(STATE_FILE)

    def remember(self, changed: Mapping[str, str]) -> None:
        """Keep what the boot changed; of more than can be kept, nothing is taken for the boot's."""
        content = json.dumps(dict(sorted(changed.items()))).encode()
        self._marks.write(STATE_FILE, content if len(content) <= MAX_FILE_BYTES else b"{}")

    def over(self) -> None:
        """The second sync was made."""
        self._marks.clear(STATE_FILE)


def is_never_started(data_dir: Path, before: Ledger | None) -> bool:
    """Whether no gateway has run with a data folder: it holds nothing but what we put there."""
    ours = {str(STATE), str(STAGING), _LOST_AND_FOUND}
    if before is not None:
        ours.update(path.partition("/")[0] for path in before.files)
    return ours.issuperset(entry.name for entry in data_dir.iterdir())
