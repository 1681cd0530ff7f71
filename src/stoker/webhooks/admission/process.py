"""`stoker webhook` as a process: every replica serves, none leads.

    probes ─ events ─ certificate ─ trust ─ serving

They start in this order and end in the opposite one: reviews that are under way are
answered, then the last Events are written, and the probes answer until the end.
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
from stoker.domain.images import ImageRef
from stoker.domain.injection import Installation
from stoker.domain.intent.source import SecretKey
from stoker.http_server.review_server import ReviewServer
from stoker.http_server.tls.context import Presented
from stoker.http_server.tls.setup import SelfMade, certified
from stoker.kube.client.client import Client
from stoker.kube.client.resources import PODS
from stoker.kube.config.config import ClusterConfig
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.leader.lease import unique_identity
from stoker.kube.runtime.process import Part, Unit
from stoker.telemetry.health import Health
from stoker.telemetry.metrics import Metrics, Reading
from stoker.telemetry.probes import ProbeServer
from stoker.webhooks.admission.inject import Rules
from stoker.webhooks.admission.lookups import LookUp
from stoker.webhooks.admission.pod_review import Injector
from stoker.webhooks.admission.routes import routes
from stoker.webhooks.admission.validate import Validator

OWN_CONTAINERS = ("webhook", "manager")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a command line can say about a webhook."""

    config: ClusterConfig
    namespace: str
    """Where it runs itself."""
    certificate: Path | SelfMade
    address: str = ":9443"
    health_address: str = ":8081"
    metrics_address: str = ":8080"
    agent_image: str = ""
    """Empty: the image that this process runs."""
    pod: str = ""
    """The pod that this process runs in, for that."""
    image_repositories: tuple[str, ...] = ()
    """Of images that agents may have besides `agent_image`."""
    require_digest: bool = False
    repo_size: str = "2Gi"
    metadata_key: SecretKey | None = None
    shared_volumes: bool = False
    agent_environment: tuple[tuple[str, str], ...] = ()
    selector: dict[str, str | None] = field(default_factory=dict)
    deny_refused: bool = False
    defaults: IgnitionSyncBaseSpec = NO_DEFAULTS
    drain: float = 0.0


class Webhook:
    """One replica."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._metrics = Metrics()
        self._health = Health()
        self._presented = Presented()
        self._server: ReviewServer | None = None

    @property
    def port(self) -> int | None:
        """The port that answers reviews, while it does."""
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
        async with probes, Client(settings.config, clock=clock, user_agent="stoker-webhook") as client:
            events = EventRecorder(
                client, component="stoker-webhook", instance=unique_identity(), clock=clock
            )
            look_up = LookUp(client, settings.defaults)
            rules = Rules(await self._installation(client), settings.selector)
            injector = Injector(look_up, rules, events, self._metrics, deny_refused=settings.deny_refused)
            server = self._server = ReviewServer(
                settings.address,
                self._presented.context,
                routes(injector, Validator(look_up, settings.defaults), self._metrics, clock),
                drain=settings.drain,
                clock=clock,
            )
            self._answer_for(server)
            parts = [
                Part("events", events.run, events.stop),
                *certified(client, settings.namespace, settings.certificate, self._presented, clock=clock),
                Part("serving", lambda: self._serve(server), server.stop),
            ]
            await Unit(parts, clock=clock).run()

    async def _serve(self, server: ReviewServer) -> None:
        """Nobody is let in before there is something to show."""
        while not self._presented.ready and not server.stopping:
            await self._clock.sleep(0.05)
        await server.run()

    async def _installation(self, client: Client) -> Installation:
        settings = self._settings
        image = settings.agent_image or await _own_image(client, settings.namespace, settings.pod)
        return Installation(
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
        self._health.ready.add("reviews", lambda: None if server.port else "nobody is listening")
        self._metrics.collect_from(self._readings)

    def _readings(self) -> Iterable[Reading]:
        if self._presented.expires is not None:
            left = (self._presented.expires - self._clock.now()).total_seconds()
            yield Reading(
                "ignition_sync_webhook_certificate_seconds", "How long the certificate is still good.", left
            )


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""


class _PodSpec(msgspec.Struct):
    containers: list[_Container] = []


class _Pod(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


async def _own_image(client: Client, namespace: str, pod: str) -> str:
    """Of the container that is us; the papers' names of it are known, too."""
    if not pod:
        raise Misconfigured("which image agents shall run is not known: give --agent-image, or set POD_NAME")
    found = (await client.get(PODS, pod, namespace, into=_Pod)).spec.containers
    own = next((one for one in found if one.name in OWN_CONTAINERS), found[0] if found else None)
    if own is None or not own.image:
        raise Misconfigured(f"pod {namespace}/{pod} has no container with an image: give --agent-image")
    return own.image
