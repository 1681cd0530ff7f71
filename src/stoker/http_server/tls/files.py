"""A certificate in files that are renewed externally, for example by cert-manager through its Secret.

The files are checked every 2 seconds and loaded as soon as they are complete; existing connections stay
open. The CA bundle of the API server is then provided externally, too (cert-manager's injector writes
`caBundle`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.secrets import Secret
from stoker.http_server.tls.context import ServerTlsContext
from stoker.kube.config.files import read_bounded
from stoker.telemetry.logs import get_logger

POLL_SECONDS = 2.0

_NAMES = ("tls.crt", "tls.key")
_AUTHORITY = "ca.crt"

CertificateListener = Callable[[bytes, Secret, bytes], None]
"""Called with a new certificate, its key and the CAs that signed it."""

log = get_logger(__name__)


class CertificateFiles:
    """Presents the certificate of a folder. With `told`, the folder must also hold the CA (ca.crt)."""

    def __init__(
        self,
        folder: Path,
        presented: ServerTlsContext,
        clock: Clock | None = None,
        told: CertificateListener | None = None,
    ) -> None:
        self._folder = folder
        self._presented = presented
        self._clock = clock or SystemClock()
        self._told = told
        self._names = _NAMES if told is None else (*_NAMES, _AUTHORITY)
        self._seen: object = None
        self._said = ""

    async def run(self) -> None:
        while True:
            self.look()
            await self._clock.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Load the pair if it has changed; an incomplete pair is retried at the next check."""
        stamp = tuple(_stat_stamp(self._folder / name) for name in self._names)
        if stamp == self._seen and self._presented.ready and not self._presented.error:
            return
        try:
            chain, key, *authority = (
                read_bounded(self._folder / name, f"certificate file {self._folder / name}")
                for name in self._names
            )
            if self._presented.show(chain, Secret(key)):
                log.info("certificate.loaded", folder=str(self._folder))
            if self._told is not None:
                self._told(chain, Secret(key), authority[0])
            self._seen, self._said = stamp, ""
        except (InvalidValue, Misconfigured, ValueError) as error:
            self._presented.error = f"{self._folder}: {error}"
            if str(error) != self._said:
                self._said = str(error)
                log.warning("certificate.unreadable", folder=str(self._folder), error=str(error))


def _stat_stamp(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of a file's version; the kubelet replaces files, so the inode changes."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
