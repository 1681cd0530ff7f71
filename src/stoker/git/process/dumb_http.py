"""Ends a git whose server speaks the dumb HTTP protocol.

A server without git serves plain files. git then fetches any number of them by itself, each of
which may be as large as a whole answer may be, so that no cap on an answer holds. git has no
setting against it, and a question beforehand binds no server. But git tells on request which
requests it sends (GIT_TRACE_CURL, headers only): the first one for a single object or pack file,
which no smart server is ever asked for, ends the process.

What git tells here is looked at and thrown away; it is never shown.
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
    """The requests of one git process."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.file = os.fdopen(reading, "rb", buffering=0)
        self.is_dumb = False
        self._line = b""

    @property
    def environment(self) -> dict[str, str]:
        return {"GIT_TRACE_CURL": f"/dev/fd/{self.writing}", "GIT_TRACE_CURL_NO_DATA": "1"}

    def started(self) -> None:
        """The child has its end of the pipe."""
        os.close(self.writing)
        self.writing = -1

    def saw(self, chunk: bytes) -> bool:
        """Whether git asks a dumb server for files."""
        text = self._line + chunk
        self.is_dumb = self.is_dumb or _OBJECT.search(text) is not None
        self._line = text[text.rfind(b"\n") + 1 :][-_MAX_LINE_BYTES:]
        return self.is_dumb

    def close(self) -> None:
        if self.writing >= 0:
            self.started()
        self.file.close()
