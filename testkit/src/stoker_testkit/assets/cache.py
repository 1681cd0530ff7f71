"""The pinned versions of the cluster's binaries, and the cache folder of what is built from them.

The cache folder is outside the repository and outlives it, so a fresh checkout
starts its cluster at once. Its name is a digest of the pins: a changed pin means
another folder, and a stale binary cannot be used by mistake.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from importlib import resources
from pathlib import Path

PINS = resources.files("stoker_testkit") / "binaries"
MODULES = ("etcd", "kubernetes")
NODE_MODULES = ("node", "containerd", "cni", "policies")


def cache_root() -> Path:
    """The folder that Stoker keeps between runs on a developer's machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stoker"


def cache_folder() -> Path:
    """The folder of the binaries that are made from exactly these pins."""
    return cache_root() / "cluster" / _digest(*MODULES)


def node_folder() -> Path:
    """The same for what runs pods on a real node."""
    return cache_root() / "node" / _digest(*NODE_MODULES)


def tool_folder(module: str) -> Path:
    """The same for a program that is no part of the cluster, so that it rebuilds nothing else."""
    return cache_root() / "tools" / f"{module}-{_digest(module)}"


def pin(module: str, file: str) -> bytes:
    """The content of one pinned module file."""
    return (PINS / module / file).read_bytes()


def _digest(*modules: str) -> str:
    digest = hashlib.sha256()
    for module in modules:
        for file in ("go.mod", "go.sum"):
            digest.update(pin(module, file))
    return digest.hexdigest()[:16]


def missing(names: Collection[str], folder: Path) -> tuple[str, ...]:
    """The named binaries that the folder lacks."""
    return tuple(name for name in names if not os.access(folder / name, os.X_OK))
