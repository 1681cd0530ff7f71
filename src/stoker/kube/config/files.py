"""Reads small files that others wrote: a kubeconfig, a token, a certificate."""

from __future__ import annotations

from pathlib import Path

from stoker.domain.errors import Misconfigured

MAX_FILE_BYTES = 1024 * 1024


def read_bounded(path: Path, what: str, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a small file; raise with the reason if that is not possible."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise Misconfigured(f"{what} does not exist") from None
    except OSError as error:
        raise Misconfigured(f"{what} cannot be read: {error.strerror}") from None
    except ValueError:
        raise Misconfigured(f"{what} has no name that a file can have") from None
    if len(data) > limit:
        raise Misconfigured(f"{what} is larger than {limit // 1024} KiB")
    return data
