"""The environment of a git process, built from scratch.

No setting of the machine, the user or a repository reaches git. Everything that would run a program
(hooks, helpers, submodules, transports other than that of the address) is disabled. Settings bound git's
memory, for large files and large packs alike.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl
from stoker.git.private_files import write_private

# No process that reads or packs objects may grow with the size of a file or of a pack.
_MEMORY = {
    "core.bigFileThreshold": "4m",  # larger blobs are streamed, not held in memory
    "core.packedGitLimit": "64m",  # mapped pack data; the default maps a whole pack
    "core.packedGitWindowSize": "16m",
    # If the cache is too small for the delta bases that reading all contents needs, git unpacks each delta
    # chain again and again: with 64m, reading 10,000 files took five times as long.
    "core.deltaBaseCacheLimit": "128m",
    "pack.windowMemory": "32m",
    "pack.threads": "2",
}
_CONFIG = _MEMORY | {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    # Every repository here is a cache. Objects that a power loss damages fail the check of their id and are
    # fetched again.
    "core.fsync": "none",
    "credential.helper": "",
    "fetch.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "protocol.allow": "never",
    # Otherwise askpass would send the credentials to the host that a redirect names.
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "512",
}


def base_environment(home: Path) -> dict[str, str]:
    """Return the environment that every git process of one cache gets."""
    environment = {
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SSH_COMMAND": "false",
        # Without GIT_DIR, git must not discover a repository in a folder above its working directory.
        "GIT_CEILING_DIRECTORIES": str(home.parent),
    }
    return environment | _numbered_config(_CONFIG, 0)


def with_config(environment: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with additional settings."""
    return {**environment, **_numbered_config(config, int(environment["GIT_CONFIG_COUNT"]))}


def write_safe_directory_config(home: Path, url: RepoUrl) -> Path:
    """Write the configuration for the `git upload-pack` that serves one local repository.

    git starts that process without our variables, so settings reach it only through a file. The file marks
    the repository as safe, because a mirror that is mounted into a pod usually belongs to another user, and
    git would fail with "detected dubious ownership". It also bounds the memory of that process.
    """
    place = unquote(urlsplit(url).path).rstrip("/")
    if not place.isprintable():
        raise InvalidValue(f"repository address {str(url)!r} holds an escaped control character")
    folders = sorted(f"{root}{tail}" for root in {place, os.path.realpath(place)} for tail in ("", "/.git"))
    settings = [("safe.directory", folder) for folder in folders] + list(_MEMORY.items())
    content = "".join(_section(key, value) for key, value in settings).encode()
    path = home / f"trust-{hashlib.sha256(content).hexdigest()[:32]}.gitconfig"
    if not path.is_file():
        write_private(path, content, 0o600)
    return path


def _section(key: str, value: str) -> str:
    section, _, name = key.partition(".")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{section}]\n\t{name} = "{quoted}"\n'


def _numbered_config(config: Mapping[str, str], first: int) -> dict[str, str]:
    numbered = {"GIT_CONFIG_COUNT": str(first + len(config))}
    for number, (key, value) in enumerate(config.items(), first):
        numbered[f"GIT_CONFIG_KEY_{number}"] = key
        numbered[f"GIT_CONFIG_VALUE_{number}"] = value
    return numbered
