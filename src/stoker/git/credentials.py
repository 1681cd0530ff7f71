"""How git is let in: a user name and a password, handed to one process.

git asks a helper program for them (askpass). The helper is a fixed script without
any secret in it; it prints what stands in the environment of that one git process,
and only for the address that the credentials are meant for. They are never part
of an argument, an address or a configuration file.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.private import write_private

TOKEN_USER = "x-access-token"  # noqa: S105 - the user name that forges expect beside a token

# git asks "Username for 'https://host': " and "Password for 'https://user@host': ".
_ASKPASS = b"""\
#!/bin/sh
case "$1" in
"Username for '$STOKER_GIT_SCHEME://$STOKER_GIT_HOST'"*) printf '%s\\n' "$STOKER_GIT_USERNAME" ;;
"Password for '$STOKER_GIT_SCHEME://"*"@$STOKER_GIT_HOST'"*) printf '%s\\n' "$STOKER_GIT_PASSWORD" ;;
*) exit 1 ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What opens one repository."""

    username: str
    password: Secret


def install_askpass(folder: Path) -> Path:
    """The helper, written into a folder that only this user may enter."""
    helper = folder / "askpass"
    if not helper.is_file() or helper.read_bytes() != _ASKPASS:
        write_private(helper, _ASKPASS, 0o700)
    return helper


def askpass_environment(helper: Path, url: RepoUrl, credentials: Credentials) -> dict[str, str]:
    """What the helper needs, for the environment of one git process."""
    parts = urlsplit(url)
    return {
        "GIT_ASKPASS": str(helper),
        "STOKER_GIT_SCHEME": parts.scheme,
        "STOKER_GIT_HOST": parts.netloc,
        "STOKER_GIT_USERNAME": credentials.username,
        "STOKER_GIT_PASSWORD": credentials.password.reveal(),
    }


def identity(key: bytes, url: RepoUrl, credentials: Credentials | None) -> str:
    """A name for what these credentials see of this repository.

    Two users of one address never share it, nobody without `key` can compute it,
    and it says nothing about the password.
    """
    digest = hmac.new(key, url.encode(), hashlib.sha256)
    if credentials is not None:
        for part in (credentials.username.encode(), credentials.password.reveal_bytes()):
            digest.update(b"\0%d\0" % len(part) + part)
    return digest.hexdigest()[:40]
