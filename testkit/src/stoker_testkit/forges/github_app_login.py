"""As much of GitHub as an app needs to log in: git over HTTP, and the endpoint that gives out tokens.

It has one address, as GitHub Enterprise does (`/api/v3` beside the
repositories). A statement of an app is checked as GitHub checks it: signature,
issuer, times. Its clock can be set apart from ours, tokens can be revoked, and it
can be made to answer badly.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import known

MAX_STATEMENT_SECONDS = 600
_TOKENS = re.compile(r"/api/v3/app/installations/(\d+)/access_tokens")


class GitHubAppServer(GitHttpServer):
    """Serves repositories to every client with a token that it has issued."""

    def __init__(
        self, root: Path, *, users: Mapping[str, str], tokens: Collection[str], public: bool
    ) -> None:
        super().__init__(root, users=users, tokens=tokens, public=public)
        self.ahead = 0.0
        """Seconds by which its clock differs from ours."""
        self.lifetime = 3600.0
        self.given: list[str] = []
        """Every token that was given out, in order."""
        self.scopes: dict[str, dict[str, Any]] = {}
        """By token: the repositories and permissions that it was asked for with; empty: the installation."""
        self.statements = 0
        """The number of requested tokens."""
        self.answer: web.Response | None = None
        """The response instead, once it is set."""
        self._keys: dict[int, rsa.RSAPublicKey] = {}
        self._installations: dict[int, int] = {}

    def register(self, app_id: int, installation_id: int) -> bytes:
        """A new app with one installation; its private key in the form in which GitHub hands it out."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._keys[app_id] = key.public_key()
        self._installations[installation_id] = app_id
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        known("app-key", pem.decode())
        return pem

    def revoke_all(self) -> None:
        """Let no token that was given out open anything any more."""
        self.tokens = {"nobody-has-this"}

    def now(self) -> float:
        return time.time() + self.ahead

    def _user_of(self, request: web.Request) -> str | None:
        scheme, _, credentials = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "basic":
            name, _, password = base64.b64decode(credentials).decode().partition(":")
            known_token = name == "x-access-token" and password in self.tokens
            return "app" if known_token and self._covers(password, request) else None
        return None

    def _covers(self, token: str, request: web.Request) -> bool:
        """Whether the token was given for this repository, and to write where something is pushed."""
        scope = self.scopes.get(token, {})
        folder, _, _ = request.path.partition(".git/")
        permission = scope.get("permissions", {}).get("contents", "write")
        if "git-receive-pack" in request.path_qs and permission != "write":
            return False
        return "repositories" not in scope or folder.rpartition("/")[2] in scope["repositories"]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        wanted = _TOKENS.fullmatch(request.path)
        if wanted is None or request.method != "POST":
            return await super()._answer(request)
        self.statements += 1
        scope = json.loads(await request.read() or b"{}")
        response = self.answer or self._give(request, int(wanted[1]), scope)
        response.headers["Date"] = formatdate(self.now(), usegmt=True)
        return response

    def _give(self, request: web.Request, installation: int, scope: dict[str, Any]) -> web.Response:
        scheme, _, statement = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        try:
            app = self._app_of(statement) if scheme == "Bearer" else None
        except (ValueError, KeyError, InvalidSignature):
            app = None
        if app is None:
            return web.json_response({"message": "A JSON web token could not be decoded"}, status=401)
        if self._installations.get(installation) != app:
            return web.json_response({"message": "Not Found"}, status=404)
        token = known("app-token", f"ghs_{secrets.token_hex(18)}")
        self.tokens.add(token)
        self.given.append(token)
        self.scopes[token] = scope
        expires = datetime.fromtimestamp(self.now() + self.lifetime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return web.json_response({"token": token, "expires_at": expires}, status=201)

    def _app_of(self, statement: str) -> int:
        head, body, signature = statement.split(".")
        claims = json.loads(_decoded(body))
        app = int(claims["iss"])
        self._keys[app].verify(
            _decoded(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        now = self.now()
        if json.loads(_decoded(head))["alg"] != "RS256" or claims["iat"] > now:
            raise ValueError("it was made in the future or in another way")
        if not now < claims["exp"] <= now + MAX_STATEMENT_SECONDS:
            raise ValueError("it is too old, or means to last too long")
        return app


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
