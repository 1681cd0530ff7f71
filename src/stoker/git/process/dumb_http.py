"""Ends a git process whose server uses the dumb HTTP protocol.

A server without git serves plain files. git then downloads any number of them, and the file size limit
applies to each file and not to their sum, so the fetch is unbounded. git has no setting against this, and
a probe beforehand proves nothing about later answers of the server. But git can trace the requests that it
sends (GIT_TRACE_CURL, headers only). The first request for a single object or pack file, which git never
sends to a smart server, ends the process.

The trace is searched and dropped; it must never be shown.
"""

from __future__ import annotations

import os
import re

DUMB_HTTP_MESSAGE = b"fatal: the server speaks dumb http only\n"
_OBJECT = re.compile(
    rb"=> Send header: GET \S*/objects/"
    rb"(?:[0-9a-f]{2}/[0-9a-f]{38}|pack/pack-|info/(?:packs|alternates|http-alternates))"
)
_MAX_LINE_BYTES = 16 * 1024


class DumbHttpWatch:
    """Watches the HTTP requests of one git process through a pipe."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.file = os.fdopen(reading, "rb", buffering=0)
        self.is_dumb = False
        self._line = b""

    @property
    def environment(self) -> dict[str, str]:
        return {"GIT_TRACE_CURL": f"/dev/fd/{self.writing}", "GIT_TRACE_CURL_NO_DATA": "1"}

    def started(self) -> None:
        """Close our copy of the pipe's write end, because the child has started with its own."""
        os.close(self.writing)
        self.writing = -1

    def saw(self, chunk: bytes) -> bool:
        """Take a piece of the trace; return whether git requests files of a dumb server."""
        text = self._line + chunk
        self.is_dumb = self.is_dumb or _OBJECT.search(text) is not None
        self._line = text[text.rfind(b"\n") + 1 :][-_MAX_LINE_BYTES:]
        return self.is_dumb

    def close(self) -> None:
        if self.writing >= 0:
            self.started()
        self.file.close()
