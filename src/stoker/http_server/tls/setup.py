"""Selects the source of a port's certificate, self-signed or files, and returns the process parts for it.

A self-signed certificate is stored in a Secret that all replicas share, and its CA is written to the
webhook configurations and CRDs that refer to this process (`secret`, `ca_bundle`). With certificate files
(`files`), the user or cert-manager provides both the certificate and the CA bundle.
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
    """Settings of certificates that the process issues itself."""

    secret: str
    names: tuple[str, ...]
    """The DNS names of the certificate."""
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
    """Return the parts that keep the certificate current; `told` is called with each new pair and its CA."""
    if isinstance(certificate, Path):
        return [ProcessPart("certificate", CertificateFiles(certificate, presented, clock, told).run)]
    made = certificate
    trusting = CaBundleWriter(
        client,
        made.targets,
        lambda: keeper.material.bundle if keeper.material else None,
        on_settled=lambda: keeper.look_again(),  # noqa: PLW0108 - keeper is defined below
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
