"""Certificates that git trusts for https in addition to the system's.

An organisation's own CA is added to the system's roots and does not replace them, so that the same
resource works with an internal server and, after the repository moves, with a public forge. git accepts
one file, so both are written into one bundle, which is named after its content and reused.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from stoker.git.private_files import write_private
from stoker.http_client.tls import extract_certificates

# Debian and Alpine, Fedora and its family, SUSE, macOS.
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def write_ca_bundle(folder: Path, ca: bytes) -> Path:
    """Write a bundle of the system's roots and these certificates, and return its path."""
    given = extract_certificates(ca)
    system = _system_file()
    stamp = b"" if system is None else f"{system} {system.stat().st_mtime_ns}".encode()
    path = folder / f"ca-{hashlib.sha256(stamp + given).hexdigest()[:32]}.pem"
    if not path.is_file():
        roots = b"" if system is None else system.read_bytes()
        write_private(path, roots.rstrip() + b"\n" + given, 0o600)
    return path


def _system_file() -> Path | None:
    named = os.environ.get("SSL_CERT_FILE", "")
    return next((path for path in map(Path, (named, *_SYSTEM)) if path.is_file()), None)
