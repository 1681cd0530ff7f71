"""The process of `stoker webhook`: every replica serves, without leader election.

    probes ─ events ─ certificate ─ trust ─ serving

The parts start in this order and stop in the opposite order: running reviews are answered, then the last
Events are written, and the probes respond until the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.api.to_intent import NO_DEFAULTS
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import SecretKey
from stoker.domain.pods.images import ImageRef
from stoker.domain.pods.injection import AgentInstallation
from stoker.http_server.review_server import ReviewServer
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.setup import SelfSignedCertificates, certificate_parts
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import PODS
from stoker.kube.config.config import ClusterConfig
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.leader.lease import unique_identity
from stoker.kube.runtime.process import ProcessGroup, ProcessPart
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.metrics import MetricReading, Metrics
from stoker.telemetry.probes import ProbeServer
from stoker.webhooks.admission.inject import InjectionRules
from stoker.webhooks.admission.lookups import AdmissionLookup
from stoker.webhooks.admission.pod_review import PodInjector
from stoker.webhooks.admission.routes import routes
from stoker.webhooks.admission.validate import ResourceValidator

OWN_CONTAINERS = ("webhook", "manager")


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The command-line options of the webhook."""

    config: ClusterConfig
    namespace: str
    """The namespace of the webhook itself."""
    certificate: Path | SelfSignedCertificates
    address: str = ":9443"
    health_address: str = ":8081"
    metrics_address: str = ":8080"
    agent_image: str = ""
    """Empty: the image of this process."""
    pod: str = ""
    """The pod of this process, needed to look up its image."""
    image_repositories: tuple[str, ...] = ()
    """Repositories of the images that agents may use beside `agent_image`."""
    require_digest: bool = False
    repo_size: str = "2Gi"
    metadata_key: SecretKey | None = None
    shared_volumes: bool = False
    agent_environment: tuple[tuple[str, str], ...] = ()
    selector: dict[str, str | None] = field(default_factory=dict)
    deny_refused: bool = False
    defaults: IgnitionSyncBaseSpec = NO_DEFAULTS
    drain: float = 0.0


class WebhookProcess:
    """One replica of the webhook."""

    def __init__(self, settings: WebhookOptions, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._metrics = Metrics()
        self._health = ProcessHealth()
        self._presented = ServerTlsContext()
        self._server: ReviewServer | None = None

    @property
    def port(self) -> int | None:
        """The port of the review server while it listens, else None."""
        return self._server.port if self._server is not None else None

    async def run(self) -> None:
        """Serve until cancelled."""
        settings, clock = self._settings, self._clock
        probes = ProbeServer(
            self._health,
            self._metrics,
            health_address=settings.health_address,
            metrics_address=settings.metrics_address,
        )
        async with probes, KubeClient(settings.config, clock=clock, user_agent="stoker-webhook") as client:
            events = EventRecorder(
                client, component="stoker-webhook", instance=unique_identity(), clock=clock
            )
            look_up = AdmissionLookup(client, settings.defaults)
            rules = InjectionRules(await self._installation(client), settings.selector)
            injector = PodInjector(look_up, rules, events, self._metrics, deny_refused=settings.deny_refused)
            server = self._server = ReviewServer(
                settings.address,
                self._presented.context,
                routes(injector, ResourceValidator(look_up, settings.defaults), self._metrics, clock),
                drain=settings.drain,
                clock=clock,
            )
            self._answer_for(server)
            parts = [
                ProcessPart("events", events.run, events.stop),
                *certificate_parts(
                    client, settings.namespace, settings.certificate, self._presented, clock=clock
                ),
                ProcessPart("serving", lambda: self._serve(server), server.stop),
            ]
            await ProcessGroup(parts, clock=clock).run()

    async def _serve(self, server: ReviewServer) -> None:
        """Accept no connections before there is a certificate to present."""
        while not self._presented.ready and not server.stopping:
            await self._clock.sleep(0.05)
        await server.run()

    async def _installation(self, client: KubeClient) -> AgentInstallation:
        settings = self._settings
        image = settings.agent_image or await _own_image(client, settings.namespace, settings.pod)
        return AgentInstallation(
            ImageRef.parse(image),
            settings.require_digest,
            settings.repo_size,
            settings.metadata_key,
            settings.shared_volumes,
            settings.agent_environment,
            settings.image_repositories,
        )

    def _answer_for(self, server: ReviewServer) -> None:
        self._health.ready.add("certificate", self._presented.why_not)
        self._health.ready.add("reviews", lambda: None if server.port else "no server is listening")
        self._metrics.collect_from(self._readings)

    def _readings(self) -> Iterable[MetricReading]:
        if self._presented.expires is not None:
            left = (self._presented.expires - self._clock.now()).total_seconds()
            yield MetricReading(
                "ignition_sync_webhook_certificate_seconds", "How long the certificate is still good.", left
            )


class _OwnContainer(msgspec.Struct):
    name: str = ""
    image: str = ""


class _OwnPodSpec(msgspec.Struct):
    containers: list[_OwnContainer] = []


class _OwnPod(msgspec.Struct):
    spec: _OwnPodSpec = msgspec.field(default_factory=_OwnPodSpec)


async def _own_image(client: KubeClient, namespace: str, pod: str) -> str:
    """Return the image of this process's container, by its usual names, else of the first container."""
    if not pod:
        raise Misconfigured("which image agents shall run is not known: give --agent-image, or set POD_NAME")
    found = (await client.get(PODS, pod, namespace, into=_OwnPod)).spec.containers
    own = next((one for one in found if one.name in OWN_CONTAINERS), found[0] if found else None)
    if own is None or not own.image:
        raise Misconfigured(f"pod {namespace}/{pod} has no container with an image: give --agent-image")
    return own.image
