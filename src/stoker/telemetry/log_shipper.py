"""Sends messages to a syslog server from its own thread, without ever blocking the caller.

`offer` puts a message into a bounded queue and returns. The thread sends in order, reconnects after a
failure with growing pauses, and keeps the message that it could not send. A message that finds the queue
full, or is still unsent at the end, is dropped: it is counted and logged. The thread starts with the first
message.

Writes to a stream that the server has closed would be lost, so the thread checks the stream before each
message.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import MetricReading
from stoker.telemetry.syslog import SyslogAddress, SyslogTransport, frame_message

if TYPE_CHECKING:
    from ssl import SSLContext

CAPACITY = 1000
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
GRACE = 3.0
REPEAT_SECONDS = 60.0

log = get_logger(__name__)


class LogShipper:
    """The connection to one log server, with its queue."""

    def __init__(
        self,
        server: SyslogAddress,
        *,
        tls: Callable[[], SSLContext] | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        """`tls` creates the context for `tls://`, and only for that: there is no fallback to plain text."""
        if (tls is not None) is not (server.via is SyslogTransport.TLS):
            raise ValueError("a context for TLS goes with a tls:// server, and with no other")
        self.server = server
        self._tls = tls
        self._waiting: queue.Queue[bytes] = queue.Queue(capacity)
        self._connection: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._trouble = ""
        self._said_at = 0.0
        self.sent = 0
        self.dropped = 0

    def offer(self, message: bytes) -> None:
        """Queue the message or drop it, without blocking."""
        if self._closing.is_set():
            self._drop(1)
            return
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._drop(1)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="syslog", daemon=True)
            self._thread.start()

    def close(self, grace: float = GRACE) -> None:
        """Send queued messages for up to `grace` seconds; drop the rest."""
        deadline = time.monotonic() + grace
        while self._thread is not None and self._waiting.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.02)
        self._closing.set()
        if self._thread is not None:
            self._disconnect()
            self._thread.join(0.2)
        left = self._waiting.unfinished_tasks
        if left:
            self._drop(left, last=True)

    def readings(self) -> Iterable[MetricReading]:
        """Yield the shipper's metrics."""
        yield MetricReading(
            "ignition_sync_audit_exported_total", "Audit records sent by syslog.", self.sent, counter=True
        )
        yield MetricReading(
            "ignition_sync_audit_dropped_total",
            "Audit records that could not be sent by syslog and were dropped; the file has them.",
            self.dropped,
            counter=True,
        )

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                message = self._waiting.get(timeout=0.5)
            except queue.Empty:
                continue
            if self._deliver(message):
                self._waiting.task_done()

    def _deliver(self, message: bytes) -> bool:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            try:
                self._send(message)
            except (OSError, ValueError) as error:  # a host name that cannot be encoded is a ValueError
                self._disconnect()
                self._tell(f"{type(error).__name__}: {error}")
                self._closing.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.sent += 1
                if self._trouble:
                    log.info("audit.exported", server=str(self.server), dropped=self.dropped)
                    self._trouble = ""
                return True
        return False

    def _send(self, message: bytes) -> None:
        connection = self._connection
        if connection is not None and self._is_over(connection):
            self._disconnect()
            connection = None
        if connection is None:
            connection = self._connection = self._connected()
        is_stream = connection.type == socket.SOCK_STREAM
        connection.sendall(frame_message(message) if is_stream else message)

    def _connected(self) -> socket.socket:
        server = self.server
        if server.via is SyslogTransport.UNIX:
            return _unix_socket(server.host)
        if server.via is SyslogTransport.UDP:
            return _datagram_socket(server.host, server.port)
        plain = socket.create_connection((server.host, server.port), CONNECT_SECONDS)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._tls is None:
            return plain
        try:
            return self._tls().wrap_socket(plain, server_hostname=server.host)
        except BaseException:
            plain.close()
            raise

    def _is_over(self, connection: socket.socket) -> bool:
        """Return whether the server has closed the connection; a log server never sends anything else."""
        if connection.type != socket.SOCK_STREAM:
            return False
        connection.setblocking(False)
        try:
            return connection.recv(1) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            # TLS has its own errors for "nothing to read now".
            return type(error).__name__ not in ("SSLWantReadError", "SSLWantWriteError")
        finally:
            connection.settimeout(CONNECT_SECONDS)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("audit.not_exported", server=str(self.server), error=trouble[:300])

    def _drop(self, count: int, *, last: bool = False) -> None:
        self.dropped += count
        now = time.monotonic()
        if last or not self._said_at or now - self._said_at >= REPEAT_SECONDS:
            self._said_at = now
            log.warning("audit.dropped", server=str(self.server), dropped=self.dropped)


def _unix_socket(path: str) -> socket.socket:
    """Connect by datagrams, as journald and rsyslog expect, or else by a stream."""
    last: OSError | None = None
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        connection = socket.socket(socket.AF_UNIX, kind)
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(path)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    raise last or OSError(path)


def _datagram_socket(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    connection = socket.socket(family, kind, protocol)
    connection.settimeout(CONNECT_SECONDS)
    connection.connect(place)
    return connection
