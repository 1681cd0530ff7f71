"""The history of a data folder before this process, from its audit log.

Users may have edited the log (`stoker.agent.audit.audit_log`): a line that does not have our format is
skipped, and only the end of the file is read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from stoker.agent.audit.audit_log import FILE, SUCCESS
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import StokerError
from stoker.domain.protocol import GatewayReport, HistoryEntryReport
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import STATE
from stoker.fs.data_folder import DataFolder, open_folder, open_regular

TAIL_BYTES = 256 << 10
MAX_ENTRIES = 100
_MAX_TEXT_LENGTH = 300


def read_history(data_dir: Path) -> tuple[HistoryEntryReport, ...]:
    """Return the entries, newest first; empty if there is no log."""
    try:
        lines = _read_tail(data_dir).splitlines()
    except (OSError, StokerError):
        return ()
    found = [entry for line in reversed(lines) if (entry := _parse_entry(line)) is not None]
    return tuple(found[:MAX_ENTRIES])


def restored_report(gateway: str, entries: tuple[HistoryEntryReport, ...]) -> GatewayReport:
    """Return a report with the last successful sync of an earlier process."""
    last = next((one for one in entries if one.result == SUCCESS), None)
    if last is None:
        return GatewayReport(gateway)
    return GatewayReport(
        gateway, synced_at=last.timestamp, synced_commit=last.commit, synced_ref=last.ref, history=entries
    )


def _read_tail(data_dir: Path) -> bytes:
    with DataFolder.opened(data_dir) as folder:
        state = open_folder(folder.fd, STATE)
        try:
            fd = open_regular(state, FILE, os.O_RDONLY)
            with os.fdopen(fd, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                return file.read(TAIL_BYTES)
        finally:
            os.close(state)


def _parse_entry(line: bytes) -> HistoryEntryReport | None:
    try:
        said = json.loads(line)
        result = _text_field(said, "result")
        if result in ("", Reason.PAUSED):
            return None
        changed = said.get("filesChanged", 0)
        return HistoryEntryReport(
            timestamp=f"{parse_rfc3339(_text_field(said, 'timestamp')):%Y-%m-%dT%H:%M:%SZ}",
            commit=_text_field(said, "commit"),
            ref=_text_field(said, "ref"),
            files_changed=changed if isinstance(changed, int) and not isinstance(changed, bool) else 0,
            duration=_text_field(said, "duration"),
            result=result,
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _text_field(said: dict[str, object], name: str) -> str:
    value = said.get(name, "")
    return value[:_MAX_TEXT_LENGTH] if isinstance(value, str) else ""
