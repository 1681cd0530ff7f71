"""A third-party HTTP service with the responses that a test sets: health checks, notifications."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from stoker_testkit.certificates import KeyPair


@dataclass
class StubHttpService:
    """Answers with one status, and remembers what it was asked and sent."""

    url: str = ""
    status: int = 200
    broken: set[str] = field(default_factory=set)
    """Paths that answer 503."""
    asked: list[str] = field(default_factory=list)
    """The paths of all GET requests."""
    sent: list[dict[str, Any]] = field(default_factory=list)
    """The objects of all POST requests."""

    @classmethod
    @contextmanager
    def start(cls, tls: KeyPair | None = None) -> Iterator[StubHttpService]:
        service = cls()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.asked.append(self.path)
                self._answer()

            def do_POST(self) -> None:
                service.sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self._answer()

            def _answer(self) -> None:
                self.send_response(503 if self.path in service.broken else service.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Requests are not logged."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            if tls is not None:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(tls.certificate, tls.key)
                server.socket = context.wrap_socket(server.socket, server_side=True)
            serving = Thread(target=server.serve_forever)
            serving.start()
            scheme = "http" if tls is None else "https"
            service.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
            try:
                yield service
            finally:
                server.shutdown()
                serving.join()
