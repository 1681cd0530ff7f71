"""A log server that takes syslog by every way there is, and reads each message by RFC 5424.

    SyslogServer.start("tcp")          octets are counted (RFC 6587)
    SyslogServer.start("tls", tls=…)   the same within TLS (RFC 5425)
    SyslogServer.start("udp"), .start("unix", path=…)

What is no message, or is framed wrongly, is kept in `complaints`. A server can be away
for a while: `stop` it and start another on the same port.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_testkit.certificates import KeyPair
from stoker_testkit.secret_leaks.tracked_credentials import known
from stoker_testkit.stoppable import Stoppable

_MESSAGE = re.compile(
    rb"<(?P<pri>\d{1,3})>1 (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z|-) (?P<host>[!-~]{1,255})"
    rb" (?P<app>[!-~]{1,48}) (?P<process>[!-~]{1,128}) (?P<kind>[!-~]{1,32})"
    rb' (?P<data>-|\[[^ =\]"]+(?: [^ =\]"]+="(?:[^"\\\]]|\\["\\\]])*")*\]) (?P<text>.*)',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SyslogMessage:
    """One message, taken apart."""

    facility: int
    severity: int
    time: str
    host: str
    app: str
    kind: str
    data: str
    record: dict[str, Any]


@dataclass
class SyslogServer(Stoppable):
    """One way in."""

    via: str
    address: str
    port: int
    messages: list[SyslogMessage] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _socket: socket.socket | None = None
    _connections: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _tls: ssl.SSLContext | None = None

    @classmethod
    def start(
        cls, via: str, *, tls: KeyPair | None = None, path: Path | None = None, port: int = 0
    ) -> SyslogServer:
        if via == "unix":
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            listening.bind(str(path))
            server = cls(via, f"unix:{path}", 0)
        elif via == "udp":
            listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            listening.bind(("127.0.0.1", port))
            server = cls(via, f"udp://127.0.0.1:{listening.getsockname()[1]}", listening.getsockname()[1])
        else:
            listening = socket.create_server(("127.0.0.1", port))
            server = cls(via, f"{via}://127.0.0.1:{listening.getsockname()[1]}", listening.getsockname()[1])
        if tls is not None:
            known("syslog-key", tls.key.read_text())
            server._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            server._tls.load_cert_chain(tls.certificate, tls.key)
        server._socket = listening
        server._begin(server._accept if via in ("tcp", "tls") else server._datagrams)
        return server

    def stop(self) -> None:
        """Listen no more, and hang up on everybody."""
        for one in (self._socket, *self._connections):
            if one is not None:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        if self.via in ("udp", "unix"):
            self._wake()
        for thread in self._threads:
            thread.join(5.0)

    def _begin(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _wake(self) -> None:
        """A datagram socket that is closed keeps its reader waiting; there is nothing more to read."""
        self._threads.clear()

    def _datagrams(self) -> None:
        assert self._socket is not None  # noqa: S101 - it was opened before
        with suppress(OSError):
            while found := self._socket.recv(65536):
                self._take(found)

    def _accept(self) -> None:
        assert self._socket is not None  # noqa: S101 - it was opened before
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                self._begin(self._stream, connection)

    def _stream(self, plain: socket.socket) -> None:
        try:
            connection = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
        except OSError as error:
            self.complaints.append(f"TLS: {error}")
            return
        self._connections.append(connection)
        with suppress(OSError), connection.makefile("rb") as stream:
            while digit := stream.read(1):
                length = digit
                while (digit := stream.read(1)) not in (b" ", b""):
                    length += digit
                if not length.isdigit():
                    self.complaints.append(f"the octets are not counted: {length[:80]!r}")
                    return
                self._take(stream.read(int(length)))

    def _take(self, found: bytes) -> None:
        parts = _MESSAGE.fullmatch(found)
        try:
            record = json.loads(parts["text"]) if parts is not None else None
        except ValueError:
            record = None
        if parts is None or not isinstance(record, dict):
            self.complaints.append(f"no message: {found[:200]!r}")
            return
        number = int(parts["pri"])
        texts = {name: parts[name].decode() for name in ("time", "host", "app", "kind", "data")}
        self.messages.append(SyslogMessage(number // 8, number % 8, record=record, **texts))
