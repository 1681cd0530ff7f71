"""Passes a user name and a password to one git process.

git runs a helper program (askpass) to get them. The helper is a fixed script that contains no secret. It
prints values from the environment of that one git process, and only for the address that the credentials
are meant for. They are never part of an argument, an address or a configuration file.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from stoker.domain.refs import RepoUrl
from stoker.git.auth.credentials import GitPassword
from stoker.git.private_files import install_script

# git asks "Username for 'https://host': " and "Password for 'https://user@host': ".
_ASKPASS = b"""\
#!/bin/sh
case "$1" in
"Username for '$STOKER_GIT_SCHEME://$STOKER_GIT_HOST'"*) printf '%s\\n' "$STOKER_GIT_USERNAME" ;;
"Password for '$STOKER_GIT_SCHEME://"*"@$STOKER_GIT_HOST'"*) printf '%s\\n' "$STOKER_GIT_PASSWORD" ;;
*) exit 1 ;;
esac
"""


def install_askpass(folder: Path) -> Path:
    """Install the helper in a folder that only this user can enter."""
    return install_script(folder / "askpass", _ASKPASS)


def askpass_environment(helper: Path, url: RepoUrl, login: GitPassword) -> dict[str, str]:
    """Return the variables for one git process that the helper reads."""
    parts = urlsplit(url)
    return {
        "GIT_ASKPASS": str(helper),
        "STOKER_GIT_SCHEME": parts.scheme,
        "STOKER_GIT_HOST": parts.netloc,
        "STOKER_GIT_USERNAME": login.username,
        "STOKER_GIT_PASSWORD": login.password.reveal(),
    }
