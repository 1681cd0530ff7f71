"""Recognises addresses of the same repository, so that two destinations never share a folder.

`normalize_repository` drops the parts that never distinguish two repositories: scheme, user, default port,
final slash, `.git`, escapes. `may_be_same` compares more loosely and is for refusals only: most servers
ignore the case of a path and serve it at several ports, and over ssh `~/a` is `a`. Two host names of one
server are not recognised.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from stoker.domain.refs import address_of

_PORTS = {"https": 443, "http": 80, "ssh": 22}
_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>\[[^\]]+\]|[^:/]+):(?P<path>.*)")
_PORT = re.compile(r":\d+(?=/)")


def normalize_repository(url: str) -> str:
    """Return an address as host and path, in a canonical spelling."""
    if "://" not in url and (scp := _SCP.fullmatch(url)):
        host, port, path = scp["host"].strip("[]").lower(), "", scp["path"]
    else:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port and parts.port != _PORTS.get(parts.scheme) else ""
        host, path = (parts.hostname or "").lower(), parts.path
    host = str(address_of(host.rstrip(".")) or host.rstrip("."))
    host = f"[{host}]" if ":" in host else host
    return f"{host}{port}/{_one_spelling(path)}"


def may_be_same(one: str, other: str) -> bool:
    """Return whether two results of `normalize_repository` may be one repository, ignoring case and port."""
    return _loosely(one) == _loosely(other)


def _loosely(repository: str) -> str:
    host, _, path = _PORT.sub("", repository, count=1).casefold().partition("/")
    return f"{host}/{path.removeprefix('~/').removesuffix('.git')}"


def _one_spelling(path: str) -> str:
    names: list[str] = []
    for name in unquote(path).split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names).removesuffix(".git").rstrip("/")
