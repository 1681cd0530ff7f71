"""TLS for the dashboard: serves the certificate of a folder, and reloads it when the files change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.files import CertificateFiles


@asynccontextmanager
async def server_tls_context(cert_dir: Path | None, clock: Clock) -> AsyncIterator[ssl.SSLContext | None]:
    """Yield a context for the folder's `tls.crt` and `tls.key`; None, so plain HTTP, without a folder."""
    if cert_dir is None:
        yield None
        return
    presented = ServerTlsContext()
    certificate = CertificateFiles(cert_dir, presented, clock)
    certificate.look()
    looking = asyncio.create_task(certificate.run(), name="dashboard certificate")
    try:
        yield presented.context
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
