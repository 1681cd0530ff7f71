"""The fetcher: keeps the mirror of one resource on a volume that its agents mount read-only.

It reads the same metadata ConfigMap as the agents: the repository, its credentials, the wanted commits. It
fetches a new commit as soon as the ConfigMap names it, and all branches and tags periodically, so that a
pod's own ref is found as well. It writes nothing to the cluster and contacts no gateway. Its credentials are
only in its own pod, never on the volume.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.agent.sidecar.informers import AgentInformers
from stoker.agent.sidecar.mounted_secrets import MountedSecrets, metadata_key
from stoker.agent.sync.credentials import access_reader
from stoker.api.agent_spec import agent_spec_of
from stoker.api.to_intent import SettledResource, intent_for
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError, Wait
from stoker.domain.intent.source import SourceIntent
from stoker.domain.protocol import AgentMetadata, check_order, check_signature, is_terminating
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.git.mirror.full_mirror import FullMirror, MirrorUpkeep
from stoker.git.mirror.shared_volume import MirrorVolume
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.process import ProcessGroup, ProcessPart
from stoker.telemetry.health import Heartbeat, ProcessHealth
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer

BACKOFF = Backoff(base=1.0, ceiling=60.0, jitter=0.2)
IDLE_POLL_SECONDS = 3600.0
"""Seconds between two fetches of all refs if polling is off for the resource."""
MAP_POLL_SECONDS = 30.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FetcherOptions:
    """Options of a fetcher from the command line and the environment."""

    config: ClusterConfig
    identity: AgentIdentity
    places: AgentPaths = field(default_factory=AgentPaths)
    health_address: str = ":8082"
    metrics_address: str = ":8083"
    upkeep: MirrorUpkeep = field(default_factory=MirrorUpkeep)


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """The contents that the mirror should hold."""

    source: SourceIntent
    ref: GitRef
    wanted: tuple[CommitId, ...]
    interval: float
    require_known_hosts: bool = False


def read_order(data: dict[str, str], identity: AgentIdentity) -> MirrorRequest | None:
    """Return the request of a metadata ConfigMap; None while the resource is terminating.

    Raises for invalid data.
    """
    if is_terminating(data):
        return None
    metadata = AgentMetadata.parse(data)
    spec = agent_spec_of(metadata, identity.owner)
    intent = intent_for(SettledResource(spec.resource))
    rollback = metadata.rollback.to_commit if metadata.rollback is not None else None
    named = (metadata.commit, rollback, *(target.commit for target in metadata.targets.values()))
    wanted = tuple(dict.fromkeys(commit for commit in named if commit is not None))
    if not wanted:
        raise Wait(
            "the controller has not published a commit yet",
            after=MAP_POLL_SECONDS,
            reason=Reason.REF_NOT_RESOLVED,
        )
    return MirrorRequest(
        intent.source,
        metadata.ref or intent.source.ref,
        wanted,
        intent.polling.interval if intent.polling.enabled else IDLE_POLL_SECONDS,
        spec.require_known_hosts,
    )


class FetcherProcess:
    """One fetcher process."""

    def __init__(self, settings: FetcherOptions, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock if clock is not None else SystemClock()
        self._health = ProcessHealth()
        self._wake = asyncio.Event()
        self._runner = GitRunner(settings.places.temporary / "git")
        self._mirror = FullMirror(MirrorVolume(settings.places.repo), self._clock, settings.upkeep)
        self._done: MirrorRequest | None = None
        self._not_done = "the repository has not been fetched yet"
        self._failures = 0
        self._highest = 0
        self._heartbeat = Heartbeat(self._clock, 2 * settings.upkeep.seconds)

    async def run(self) -> None:
        """Update the mirror until cancelled."""
        settings, identity = self._settings, self._settings.identity
        self._health.live.add("fetcher", self._heartbeat.check)
        self._health.started.add("mirror", lambda: self._not_done or None)
        self._health.ready.add("mirror", lambda: self._not_done or None)
        probes = ProbeServer(
            self._health,
            Metrics(),
            health_address=settings.health_address,
            metrics_address=settings.metrics_address,
        )
        async with (
            probes,
            KubeClient(settings.config, clock=self._clock, user_agent="stoker-fetcher") as client,
        ):
            observed = AgentInformers(
                client, identity.namespace, identity.metadata_map, lambda _: self._wake.set(), self._clock
            )
            log.info("fetcher.started", kind=str(identity.door), resource=identity.resource)
            parts = [
                ProcessPart("observing", observed.run),
                ProcessPart("fetching", lambda: self._live(observed)),
            ]
            try:
                await ProcessGroup(parts, clock=self._clock).run()
            finally:
                self._mirror.close()

    async def _live(self, observed: AgentInformers) -> None:
        while True:
            self._heartbeat.beat()
            self._wake.clear()
            await wait_for_event(self._wake, self._clock, await self._turn(observed))

    async def _turn(self, observed: AgentInformers) -> float:
        """Fetch if needed; return the seconds until the next iteration."""
        try:
            order = await self._order(observed)
            if order is None:
                return IDLE_POLL_SECONDS
            await self._fill(order)
        except StokerError as error:
            self._failures += 1
            # An existing mirror stays usable for its readers; only a volume without a mirror is not ready.
            if self._done is None:
                self._not_done = f"{error.reason}: {error.message}"
            log.warning("fetch.failed", reason=error.reason, error=error.message)
            after = getattr(error, "after", None) or 0.0
            return max(BACKOFF.delay(self._failures), after if isinstance(error, Wait) else 0.0)
        self._failures = 0
        return order.interval

    async def _order(self, observed: AgentInformers) -> MirrorRequest | None:
        settings, identity = self._settings, self._settings.identity
        name = f"{identity.namespace}/{identity.metadata_map}"
        seen = await observed.metadata()
        if seen.value is None:
            raise Wait(
                f"metadata ConfigMap {name} does not exist",
                after=MAP_POLL_SECONDS,
                reason=Reason.METADATA_NOT_FOUND,
            )
        key = metadata_key(settings.places)
        if key is not None:
            sequence = check_signature(seen.value, key, of=name)
            check_order(sequence, self._highest, of=name)
            self._highest = sequence
        return read_order(seen.value, identity)

    async def _fill(self, order: MirrorRequest) -> None:
        secrets = MountedSecrets(self._settings.places, order.source.auth.secret)
        access = access_reader(order.source, secrets, require_known_hosts=order.require_known_hosts)
        remote = Remote(self._runner, order.source.url, access)
        if not self._mirror.opened():
            raise Wait("another fetcher is still writing to the volume", after=1.0)
        await self._mirror.update(remote, order.wanted, order.ref)
        if order != self._done:
            log.info("fetch.done", commit=str(order.wanted[0]), ref=str(order.ref))
        self._done, self._not_done = order, ""
