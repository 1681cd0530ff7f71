"""A reader that never looks away: a thread that reads all resources again and again.

It is the witness of "nothing half-written is ever visible", at more moments than any
number of scans would see.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from stoker_testkit.gateway.resource_reader import read_resource, resource_folders
from stoker_testkit.gateway.torn_reads.observations import ObservationLog

PAUSE = 0.002
"""Seconds between two rounds: what is watched needs some of the processor, too."""


class PollingReader(ObservationLog):
    """Looks until it is stopped; `sightings` may be read meanwhile."""

    def __init__(self, data_dir: Path, roots: Sequence[str] = ("projects", "config")) -> None:
        super().__init__()
        self.rounds = 0
        self._data_dir = data_dir
        self._roots = roots
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="gateway-observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it; raises what made it blind, because a witness that saw nothing proves nothing."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def look(self) -> None:
        """One round over all resources."""
        for root in self._roots:
            for folder in resource_folders(self._data_dir / root):
                seen = read_resource(folder)
                if seen is not None:
                    self.put_down(str(folder.relative_to(self._data_dir)), seen)
        self.rounds += 1

    def _watch(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                self.look()
        except OSError as error:
            self._failure = error
