"""Remembers the newest metadata ConfigMap that an agent followed, so that an earlier one is refused.

The sequence number is stored on the data volume, beside the ledger, so it outlives the pod. On a new volume
the agent accepts the first ConfigMap it sees.
"""

from __future__ import annotations

from pathlib import Path

from stoker.domain.protocol.signature import MAX_DIGITS, check_order
from stoker.engine.layout.protected_paths import STATE
from stoker.ignition.sync.state_files import StateFiles

NAME = "metadata-sequence"


class MetadataOrder:
    """The highest sequence number of a signed metadata ConfigMap."""

    def __init__(self, data_dir: Path) -> None:
        self._files = StateFiles(data_dir / STATE)
        self._highest: int | None = None

    def accept(self, sequence: int, *, of: str) -> None:
        """Raise if the sequence number is lower than an accepted one; otherwise store it."""
        if self._highest is None:
            stored = self._files.read(NAME) or b""
            self._highest = int(stored) if stored.isdigit() and len(stored) <= MAX_DIGITS else 0
        check_order(sequence, self._highest, of=of)
        if sequence > self._highest:
            self._files.write(NAME, str(sequence).encode())
            self._highest = sequence
