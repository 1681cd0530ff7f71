"""The proxy between git and an https server.

`spec.git.proxy` (or the option of a command) has precedence. If it is empty, git gets the proxy variables
of this process, exactly those that git and curl know, because they are set for users behind a corporate
proxy. NO_PROXY is honoured in both cases. All of it is passed in the environment of one process, because
an address may contain a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def inherited_proxies(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the proxy variables of this process, for a git without an explicit proxy."""
    found = {name: environ[name] for name in (*_PROXIES, *_EXCEPTIONS) if environ.get(name)}
    if "HTTP_PROXY" in found:  # curl reads only the lower-case variable
        found.setdefault("http_proxy", found["HTTP_PROXY"])
    return found


def no_proxy_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that list hosts to reach directly, whichever proxy is set."""
    return {name: environ[name] for name in _EXCEPTIONS if environ.get(name)}
