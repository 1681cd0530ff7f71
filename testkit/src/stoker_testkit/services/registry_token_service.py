"""The service that gives out tokens for a registry, as the distribution project specifies them.

The registry checks each token with the key that is written for it; who asks with the
wrong password gets none.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.stoppable import Stoppable

SERVICE, ISSUER, KEY_ID = "plant-registry", "plant-tokens", "key-1"
LIFETIME = 300


class TokenService(Stoppable):
    """One service with one user."""

    def __init__(self, folder: Path) -> None:
        self.username, self.password = "robot", planted("registry-password")
        self.asked: list[str] = []
        """The scopes that were requested, also those that were refused."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._jwks = folder / "jwks.json"
        self._jwks.write_text(json.dumps({"keys": [self._public()]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="tokens")
        self._thread.start()

    @classmethod
    def start(cls, folder: Path) -> Self:
        return cls(folder)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def settings(self) -> dict[str, str]:
        """The settings for the registry."""
        realm = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        return {"realm": realm, "service": SERVICE, "issuer": ISSUER, "jwks": str(self._jwks)}

    def token(self, name: str, actions: Sequence[str]) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": self.username,
            "aud": SERVICE,
            "exp": now + LIFETIME,
            "nbf": now - LIFETIME,
            "iat": now,
            "jti": secrets.token_hex(8),
            "access": [{"type": "repository", "name": name, "actions": list(actions)}],
        }
        head = {"typ": "JWT", "alg": "ES256", "kid": KEY_ID}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(b''.join(number.to_bytes(32, 'big') for number in signature))}"

    def answer(self, query: dict[str, list[str]], login: str) -> dict[str, str] | None:
        """A token for what is asked, None for the wrong login."""
        scope = query.get("scope", [""])[0]
        self.asked.append(scope)
        both = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        if login != f"Basic {both}" or query.get("service") != [SERVICE]:
            return None
        _, name, actions = scope.split(":")
        return {"token": self.token(name, [each for each in actions.split(",") if each == "pull"])}

    def _public(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        point = {"x": _encoded(numbers.x.to_bytes(32, "big")), "y": _encoded(numbers.y.to_bytes(32, "big"))}
        return {"kty": "EC", "crv": "P-256", "kid": KEY_ID, "alg": "ES256", "use": "sig", **point}


def _handler(service: TokenService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            given = service.answer(query, self.headers.get("Authorization", ""))
            body = json.dumps(given or {"details": "no"}).encode()
            self.send_response(200 if given is not None else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
