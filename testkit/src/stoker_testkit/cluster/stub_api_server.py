"""An API server that says what a test wants it to say, for what a real one says too seldom.

Errors at the right moment, another clock, foreign lists: everything else is tested
on the real one (`control_plane`). It knows no objects and remembers nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

StubAnswer = Callable[[str, dict[str, str]], object]
"""From a path and its query to what the server says: an object, None for a forbidden path, or a status."""

_REFUSALS = {
    403: ("Forbidden", 'this is forbidden: User "a" cannot get resource "b" in API group "c"'),
    404: ("NotFound", "not found"),
}


@contextmanager
def stub_api(answer: StubAnswer) -> Iterator[str]:
    """Its address, while it answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            reply = answer(parts.path, dict(parse_qsl(parts.query)))
            code = reply if isinstance(reply, int) else 403 if reply is None else 200
            reason, message = _REFUSALS.get(code, ("", "no"))
            refusal = {
                "kind": "Status",
                "status": "Failure",
                "reason": reason,
                "message": message,
                "code": code,
            }
            body = json.dumps(reply if code == 200 else refusal).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def kubeconfig_for(server: str, folder: Path, namespace: str = "") -> Path:
    """A kubeconfig with one context; its namespace where one is named."""
    context = {"cluster": "a", "user": "a"} | ({"namespace": namespace} if namespace else {})
    config = {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "x"}}],
        "contexts": [{"name": "a", "context": context}],
        "current-context": "a",
    }
    place = folder / "kubeconfig"
    place.write_text(json.dumps(config))
    return place
