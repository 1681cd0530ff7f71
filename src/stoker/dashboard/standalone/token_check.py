"""The local token: its holder may see and do everything that this process can.

By default each start creates a new token in a file beside the ledger that only the user of this process
can read. If that folder belongs to another user, such as the gateway's, the file is not written. A file
of the user's own (`--dashboard-token-file`) is read again at each use; replacing its token ends the
sessions of the old token.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from stoker.dashboard.interfaces import ActionRefused, VisibleScope, Visitor
from stoker.dashboard.view_models import DashboardAction
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.ignition.sync.state_files import StateFiles

TOKEN_FILE = "dashboard-token"  # noqa: S105 - the name of a file
MIN_TOKEN_LENGTH = 16
USER = "local"


def _is_allowed(action: DashboardAction, namespace: str) -> bool:
    return True


FULL_SIGHT = VisibleScope(True, frozenset(), _is_allowed, True)


class LocalAuth:
    """Accepts a single token."""

    def __init__(self, token: Callable[[], Secret]) -> None:
        """`token` is called at each check; it raises StokerError if the token file cannot be read."""
        self._token = token

    def known(self, token: Secret) -> Visitor | None:
        return Visitor(USER, (), token) if token == self._token() else None

    async def admit(self, token: Secret) -> Visitor | None:
        return self.known(token)

    async def sight(self, visitor: Visitor) -> VisibleScope:
        if visitor.token != self._token():
            raise ActionRefused(401, "the token was replaced")
        return FULL_SIGHT


def check_token_length(token: Secret, file: Path) -> Secret:
    """Refuse a short token, which could be guessed."""
    if len(token.reveal_bytes()) < MIN_TOKEN_LENGTH:
        raise Misconfigured(f"the token in {file} has fewer than {MIN_TOKEN_LENGTH} characters")
    return token


class LocalToken:
    """A random token for the life of this process."""

    def __init__(self, state_dir: Path) -> None:
        self._marks = StateFiles(state_dir)
        self.value = Secret(secrets.token_urlsafe(32))
        self.file = state_dir / TOKEN_FILE

    def write(self) -> None:
        """Write the token file; raises OSError or StokerError if the folder is missing or not ours."""
        self._marks.write_secret(TOKEN_FILE, self.value.reveal_bytes() + b"\n")

    def clear(self) -> None:
        self._marks.clear(TOKEN_FILE)
