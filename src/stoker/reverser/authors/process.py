"""Author capture as parts of the reverser process: every replica serves the webhook, without a leader.

    certificate ─ mutual TLS ─ webhook registration ─ peers ─ facts port ─ fact intake ─ reviews port

The parts start in this order, because each needs the parts before it. Without author capture the reverser
works as well; every author is then unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.http_server.review_server import ReviewLimits, ReviewServer
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.mutual import MutualTls
from stoker.http_server.tls.setup import SelfSignedCertificates, certificate_parts
from stoker.kube.client.client import KubeClient
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.leader.lease import unique_identity
from stoker.kube.runtime.process import ProcessPart
from stoker.reverser.authors.admission import PATH, AuthorIntake
from stoker.reverser.authors.attribution import AuthorAttribution
from stoker.reverser.authors.fact_exchange import MAX_BODY, PORT, ReplicaPeers, peer_resolver
from stoker.reverser.authors.replica_link import PATH as FACTS
from stoker.reverser.authors.webhook_registration import WebhookRegistration
from stoker.reverser.selection.selection import Selection
from stoker.telemetry.metrics import MetricReading, Metrics

REVIEWS = ReviewLimits(held=32 << 20, decoded=None)
BATCHES = ReviewLimits(body=MAX_BODY, held=8 << 20)


@dataclass(frozen=True, slots=True)
class AuthorCaptureOptions:
    """The command line options of author capture."""

    namespace: str
    """The namespace of the reverser itself."""
    certificate: Path | SelfSignedCertificates
    name: str
    """A DNS name in the certificate, by which replicas verify each other."""
    configuration: str
    """The `ValidatingWebhookConfiguration` whose rules this process maintains."""
    host: str = ""
    port: int = 9443
    peers: tuple[str, ...] = ()
    """DNS names of the other replicas; empty for a single replica."""
    peers_port: int = PORT
    own_host: str = ""
    """The address at which peers reach this replica, if known."""
    drain: float = 0.0


class AuthorCapture:
    """One replica's author capture: `authors` finds authors, `parts` run, `capture` sets the kinds."""

    def __init__(
        self,
        client: KubeClient,
        settings: AuthorCaptureOptions,
        authors: AuthorAttribution | None = None,
        *,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock or SystemClock()
        self._presented = ServerTlsContext()
        self._mutual = MutualTls(settings.name)
        self.authors = authors if authors is not None else AuthorAttribution()  # an empty one is falsy
        self.peers = ReplicaPeers(
            self.authors,
            self._mutual,
            peer_resolver(settings.peers, settings.peers_port),
            instance=unique_identity(),
            address=_address(settings.own_host, settings.peers_port) if settings.own_host else "",
            metrics=metrics,
            clock=self._clock,
        )
        self.intake = AuthorIntake(
            self.authors, self.peers if settings.peers else None, metrics=metrics, clock=self._clock
        )
        self.capturing = WebhookRegistration(client, settings.configuration, clock=self._clock)
        self._reviews = ReviewServer(
            _address(settings.host, settings.port),
            self._presented.context,
            {PATH: self.intake.review},
            limits=REVIEWS,
            drain=settings.drain,
            clock=self._clock,
        )
        self._facts = ReviewServer(
            _address(settings.host, settings.peers_port),
            self._mutual.server,
            {FACTS: self.peers.heard},
            limits=BATCHES,
            guard=self._mutual.is_peer,
            clock=self._clock,
        )
        if metrics is not None:
            metrics.collect_from(self._readings)

    @property
    def port(self) -> int | None:
        """The port that serves the API server; None while it is closed."""
        return self._reviews.port

    @property
    def peers_port(self) -> int | None:
        return self._facts.port

    def capture(self, selection: Selection, catalog: KindCatalog) -> None:
        """Have the API server send reviews for the selected kinds."""
        self.capturing.capture(selection, catalog)

    async def settle(self) -> None:
        """Wait until every review that was answered before this call has been read."""
        await self.intake.settle()

    def why_not(self) -> str | None:
        """Return why author capture is not ready, for the readiness probe."""
        return self._presented.why_not() or (None if self.port else "no server listens for reviews")

    def parts(self) -> list[ProcessPart]:
        """The parts in start order; they stop in the reverse order."""
        settings = self._settings
        certificate = certificate_parts(
            self._client,
            settings.namespace,
            settings.certificate,
            self._presented,
            told=self._mutual.use,
            clock=self._clock,
        )
        among = [
            ProcessPart("peers", self.peers.run),
            ProcessPart("facts", lambda: self._serve(self._facts), self._facts.stop),
        ]
        return [
            *certificate,
            ProcessPart("capturing", self.capturing.run),
            *(among if settings.peers else ()),
            ProcessPart("author facts", self.intake.run),
            ProcessPart("reviews", lambda: self._serve(self._reviews), self._reviews.stop),
        ]

    async def _serve(self, server: ReviewServer) -> None:
        """Listen only after a certificate is available."""
        while not self._presented.ready and not server.stopping:
            await self._clock.sleep(0.05)
        await server.run()

    def _readings(self) -> Iterable[MetricReading]:
        if self._presented.expires is not None:
            left = (self._presented.expires - self._clock.now()).total_seconds()
            yield MetricReading(
                "author_webhook_certificate_seconds", "How long the certificate is still good.", left
            )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
