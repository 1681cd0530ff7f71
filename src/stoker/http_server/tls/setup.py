"""Where the certificate of a port comes from, as parts of a process: made by ourselves, or files.

Made by ourselves it lies in a Secret that all replicas share, and the objects that name
us are told whom to trust (`secret`, `ca_bundle`). As files it is somebody else's, and so
is telling others (`files`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.http_server.tls.ca_bundle import CaBundleTarget, CaBundleWriter
from stoker.http_server.tls.certificate_authority import TlsMaterial
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.files import CertificateFiles, CertificateListener
from stoker.http_server.tls.rotation import CertificateLifetimes
from stoker.http_server.tls.secret import CertificateRotator
from stoker.kube.client.client import KubeClient
from stoker.kube.runtime.process import ProcessPart
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SelfSignedCertificates:
    """Certificates that the process makes by itself."""

    secret: str
    names: tuple[str, ...]
    """Under which names it is called."""
    targets: tuple[CaBundleTarget, ...] = ()
    terms: CertificateLifetimes = field(default_factory=CertificateLifetimes)


def certificate_parts(
    client: KubeClient,
    namespace: str,
    certificate: Path | SelfSignedCertificates,
    presented: ServerTlsContext,
    *,
    told: CertificateListener | None = None,
    clock: Clock,
) -> list[ProcessPart]:
    """The parts that keep a certificate presented; `told` hears of every new one, and of its authority."""
    if isinstance(certificate, Path):
        return [ProcessPart("certificate", CertificateFiles(certificate, presented, clock, told).run)]
    made = certificate
    trusting = CaBundleWriter(
        client,
        made.targets,
        lambda: keeper.material.bundle if keeper.material else None,
        on_settled=lambda: keeper.look_again(),  # noqa: PLW0108 - it is made below
        clock=clock,
    )

    def changed(material: TlsMaterial) -> None:
        if presented.show(material.chain, material.key):
            log.info("certificate.loaded", stored_in=made.secret)
        if told is not None:
            told(material.chain, material.key, material.bundle)
        trusting.look_again()

    keeper = CertificateRotator(
        client,
        namespace,
        made.secret,
        made.names,
        on_change=changed,
        trusted=lambda material: trusting.in_place(material.authorities[0]),
        terms=made.terms,
        clock=clock,
    )
    return [ProcessPart("certificate", keeper.run), ProcessPart("trust", trusting.run)]
