"""A health check service for a rollout stage: it returns a gateway's state, unless a test makes it refuse."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from stoker_testkit.stoppable import Stoppable


class HealthCheckService(Stoppable):
    """Listens until it is stopped; while the file `refuses` exists, every answer is 503."""

    def __init__(self, gateway: Callable[[], str], refuses: Path) -> None:
        self.answers: list[tuple[str, int]] = []
        """The path and the answer of every request."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = 503 if refuses.exists() else _status(gateway() + self.path)
                service.answers.append((self.path, status))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Requests are not logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, name="asked-service", daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - a test gateway
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 502
