"""The proxy between git and an https server.

`spec.git.proxy` (or what a command was told) comes first. Where it is empty the
process's own variables are handed on, exactly those that git and curl know, because
whoever runs a command behind a corporate proxy has them set. NO_PROXY is honoured in
both cases. All of it travels in the environment of one process, since an address may
hold a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def inherited_proxies(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The proxies of the process's own environment, for git where no other was named."""
    found = {name: environ[name] for name in (*_PROXIES, *_EXCEPTIONS) if environ.get(name)}
    if "HTTP_PROXY" in found:  # which curl alone does not read
        found.setdefault("http_proxy", found["HTTP_PROXY"])
    return found


def no_proxy_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Hosts that are reached directly, whichever proxy was named."""
    return {name: environ[name] for name in _EXCEPTIONS if environ.get(name)}
