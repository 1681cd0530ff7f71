"""TLS for the dashboard: the certificate that lies in a folder, shown anew whenever it is replaced."""

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
    """`tls.crt` and `tls.key` of the folder; None, and plain HTTP, where no folder is given."""
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
