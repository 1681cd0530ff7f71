"""What happened to a data folder before this process, from its audit log.

The log (`stoker.agent.audit.audit_log`) is a file that people may have touched: a line
that is not as we write it is left out, and only the end of the file is read.
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
from stoker.fs.data_folder import DataFolder, enter, open_regular

TAIL_BYTES = 256 << 10
MOST = 100
_LONGEST = 300


def history(data_dir: Path) -> tuple[HistoryEntryReport, ...]:
    """Newest first; nothing where nothing was ever written down."""
    try:
        lines = _tail(data_dir).splitlines()
    except (OSError, StokerError):
        return ()
    found = [entry for line in reversed(lines) if (entry := _entry(line)) is not None]
    return tuple(found[:MOST])


def remembered(gateway: str, entries: tuple[HistoryEntryReport, ...]) -> GatewayReport:
    """What stays true of a process before this one."""
    last = next((one for one in entries if one.result == SUCCESS), None)
    if last is None:
        return GatewayReport(gateway)
    return GatewayReport(
        gateway, synced_at=last.timestamp, synced_commit=last.commit, synced_ref=last.ref, history=entries
    )


def _tail(data_dir: Path) -> bytes:
    with DataFolder.opened(data_dir) as folder:
        state = enter(folder.fd, STATE)
        try:
            fd = open_regular(state, FILE, os.O_RDONLY)
            with os.fdopen(fd, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                return file.read(TAIL_BYTES)
        finally:
            os.close(state)


def _entry(line: bytes) -> HistoryEntryReport | None:
    try:
        said = json.loads(line)
        result = _text(said, "result")
        if result in ("", Reason.PAUSED):
            return None
        changed = said.get("filesChanged", 0)
        return HistoryEntryReport(
            timestamp=f"{parse_rfc3339(_text(said, 'timestamp')):%Y-%m-%dT%H:%M:%SZ}",
            commit=_text(said, "commit"),
            ref=_text(said, "ref"),
            files_changed=changed if isinstance(changed, int) and not isinstance(changed, bool) else 0,
            duration=_text(said, "duration"),
            result=result,
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _text(said: dict[str, object], name: str) -> str:
    value = said.get(name, "")
    return value[:_LONGEST] if isinstance(value, str) else ""
