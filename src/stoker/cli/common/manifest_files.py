"""Reads manifest files given on the command line, and fills in a missing namespace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.api.kinds.resource import CustomResource
from stoker.api.manifests.yaml import MAX_BYTES
from stoker.cli.common.options import STDIN
from stoker.domain.errors import Misconfigured

R = TypeVar("R", bound=CustomResource)


def read_bounded(name: str) -> bytes:
    """Return at most one byte more than the limit, so that the caller can refuse a larger file."""
    try:
        if name == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"file {name} cannot be read: {error.strerror}") from None


def with_namespace(resource: R, namespace: str) -> R:
    """The resource in this namespace, unless it names its own."""
    if resource.metadata.namespace:
        return resource
    meta = msgspec.structs.replace(resource.metadata, namespace=namespace)
    return msgspec.structs.replace(resource, metadata=meta)
