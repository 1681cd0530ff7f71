"""Prepares each sync of the sidecar: observe, decide, open the source and the gateway.

    pod, metadata ConfigMap, profile ─► desired state ─► folder and gateway ─► one sync

The sync loop calls `assign` before each iteration. The assigner reads all inputs again, but decides again
only if they changed, and keeps the opened `FolderSync` as long as its inputs stay the same. An error ends
only this iteration and goes into the status report; files on disk stay as they are, and the next iteration
tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from stoker.agent.audit.audit_log import MANUAL, POLLING, AuditLog
from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.bidirectional.setup import capture_inputs, open_capture
from stoker.agent.bidirectional.watch import CaptureLoop
from stoker.agent.desired_state import (
    DesiredState,
    ReportAddress,
    build_direction,
    profile_name,
    report_address,
)
from stoker.agent.gates.setup import gates_for
from stoker.agent.identity import AgentIdentity, AgentPaths, check_pod
from stoker.agent.loop.log_lines import ChangeLogHook
from stoker.agent.loop.loop import SyncAssignment
from stoker.agent.rollback.setup import open_rollback
from stoker.agent.sidecar.gateway import FILES_ONLY_NOTE, files_only_for, gateway_attendant, gateway_stamp
from stoker.agent.sidecar.informers import AgentInformers
from stoker.agent.sidecar.memory_release import MemoryTrimmer
from stoker.agent.sidecar.metadata_order import MetadataOrder
from stoker.agent.sidecar.mounted_secrets import MountedSecrets, metadata_key
from stoker.agent.sidecar.podinfo import FileStamp, PodInfo
from stoker.agent.sidecar.primary_watch import RedundancyGate
from stoker.agent.sidecar.sidecar_sync import SidecarSync
from stoker.agent.sidecar.startup import StartupGate
from stoker.agent.status.status_report import CurrentReport, StatusPublisher
from stoker.agent.sync.credentials import access_reader, keys_reader
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import GatewayRef
from stoker.agent.sync.open_source import open_keeper
from stoker.api.agent_spec import agent_spec_of
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.to_intent import PodFacts
from stoker.api.to_intent.pod_facts import status_key
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue, StokerError, Wait
from stoker.domain.protocol import AgentMetadata, check_signature, is_terminating
from stoker.domain.reasons import Reason
from stoker.fs.writer_claim import WriterClaim

if TYPE_CHECKING:
    from stoker.agent.audit.audit_export import AuditExport
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.gateway_hook import GatewayHook

MAP_POLL_SECONDS = 30.0
"""Seconds until the agent looks again for a missing metadata ConfigMap, in case no watch reports it."""
IDLE = 3600.0


class PreparedSync(NamedTuple):
    """A folder with its gateway, and the inputs both were built from."""

    folder: FolderSync
    made_of: object
    capture: CaptureLoop | None = None
    """Captures gateway changes, if bidirectional sync is enabled."""


class ObservedState(NamedTuple):
    """The inputs of a decision."""

    pod: PodFacts
    metadata: AgentMetadata
    profile: SyncProfile | None


class SyncAssigner:
    """Builds the assignment for each iteration of the sync loop."""

    def __init__(
        self,
        identity: AgentIdentity,
        places: AgentPaths,
        observed: AgentInformers,
        publisher: StatusPublisher,
        startup: StartupGate,
        clock: Clock,
        sender: OutboxSender | None = None,
        answered: Callable[[float], None] | None = None,
        export: AuditExport | None = None,
    ) -> None:
        """`sender` sends captured gateway changes; without it none are sent.

        `answered` receives the gateway's response time to each scan request; `export` sends audit records to
        another system.
        """
        self._identity = identity
        self._places = places
        self._observed = observed
        self._publisher = publisher
        self._startup = startup
        self._clock = clock
        self._sender = sender
        self._answered = answered
        self._resting = False
        self._podinfo = PodInfo(places, identity)
        self._secrets = MountedSecrets(places)
        self._trimmer = MemoryTrimmer()
        self._pairing = RedundancyGate(identity, publisher, clock)
        gateway = identity.gateway or identity.pod
        home = ReportAddress(identity.status_map(), status_key(gateway))
        self._board = CurrentReport(identity, gateway, home, clock, publisher.offer)
        self._audit = AuditLog(places.data, self._gateway(gateway), clock, export=export)
        self._data: tuple[dict[str, str], AgentMetadata] | None = None
        self._decided: tuple[ObservedState, DesiredState] | None = None
        self._held: PreparedSync | None = None
        self._map_uid = ""
        self._order = MetadataOrder(places.data)
        self._seeded = False
        self._claim: WriterClaim | None = None

    async def assign(self) -> SyncAssignment:
        """Return the next assignment; if there is none, report the reason and raise."""
        try:
            return await self._assign()
        except StokerError as error:
            self._failed(error)
            raise
        except Exception as error:
            self._failed(StokerError(f"{type(error).__name__}: {error}"))
            raise

    def stamps(self) -> tuple[FileStamp | None, ...]:
        """Return a value that changes when a mounted file that the agent depends on changes."""
        return (*self._podinfo.stamps(), *self._secrets.stamps())

    async def stop(self) -> None:
        """Close everything and release the folder for another process."""
        await self.aclose()
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    async def aclose(self) -> None:
        if self._held is not None:
            if self._held.capture is not None:
                await self._held.capture.aclose()
            await self._held.folder.aclose()
            self._held = None

    async def _assign(self) -> SyncAssignment:
        pod = self._podinfo.read()
        self._check(pod)
        data = await self._told(pod)
        self._resting = is_terminating(data)
        if self._resting:
            self._board.addressed(self._address(pod, data), may_create=False)
            self._board.terminating()
            return SyncAssignment(None, IDLE)
        self._board.addressed(self._address(pod, data), may_create=True)
        metadata = self._parsed(data)
        profile = await self._observed.profile(profile_name(pod))
        direction = self._direction(ObservedState(pod, metadata, profile))
        await self._seed(direction)
        self._board.directed(direction)
        self._audit.gateway = self._gateway(direction.intent.gateway)
        self._startup.budget = direction.startup_budget
        period = direction.intent.sync_period
        self._resting = direction.paused
        if direction.paused:
            self._board.paused(direction.commit or "")
            self._audit.paused(commit=direction.commit or "", ref=str(direction.job.source.ref))
            self._startup.failed("paused")
            return SyncAssignment(None, period)
        self._claim_folder(direction)
        held = await self._hold(direction)
        alone = FILES_ONLY_NOTE if direction.access.files_only else ""
        gateway = held.folder.gateway
        self._board.remark(await self._pair(direction, metadata, gateway) or alone)
        if held.capture is not None:
            await held.capture.capturing.told(direction.changes, direction.approved)
        kept = SidecarSync(
            direction, held.folder, self._board, self._startup, self._trimmer, self._clock, self._audit
        )
        return SyncAssignment(kept, _next_sync_delay(period, gateway), direction.intent.policies.drift)

    def _check(self, pod: PodFacts) -> None:
        try:
            check_pod(self._identity, pod)
        except StokerError:
            # Report under the pod's own name: the gateway's status key belongs to the pod the agent was
            # injected for.
            self._board.addressed(
                ReportAddress(self._identity.status_map(), status_key(pod.name)), may_create=False
            )
            raise

    async def _told(self, pod: PodFacts) -> dict[str, str]:
        """Return the data of the metadata ConfigMap if it exists and its signature is valid."""
        seen = await self._observed.metadata()
        name = f"{self._identity.namespace}/{self._identity.metadata_map}"
        if seen.value is None:
            self._board.addressed(self._address(pod, {}), may_create=False)
            raise Wait(
                f"metadata ConfigMap {name} does not exist; the files on disk are not changed",
                after=MAP_POLL_SECONDS,
                reason=Reason.METADATA_NOT_FOUND,
            )
        if seen.uid != self._map_uid:
            self._map_uid = seen.uid
            self._publisher.again()  # the status ConfigMap may have been recreated as well
        key = metadata_key(self._places)
        if key is not None:
            self._order.accept(check_signature(seen.value, key, of=name), of=name)
        return seen.value

    def _parsed(self, data: dict[str, str]) -> AgentMetadata:
        if self._data is None or self._data[0] != data:
            self._data = data, AgentMetadata.parse(data)
        return self._data[1]

    def _address(self, pod: PodFacts, data: dict[str, str]) -> ReportAddress:
        try:
            return report_address(self._identity, pod, AgentMetadata.parse(data))
        except InvalidValue:
            return ReportAddress(self._identity.status_map(), status_key(self._identity.gateway or pod.name))

    def _direction(self, seen: ObservedState) -> DesiredState:
        if self._decided is None or self._decided[0] != seen:
            spec = agent_spec_of(seen.metadata, self._identity.owner)
            made = build_direction(self._identity, self._places, seen.pod, seen.metadata, spec, seen.profile)
            self._decided = seen, made
        return self._decided[1]

    async def _seed(self, direction: DesiredState) -> None:
        """Continue the report of an earlier agent: history, counts, the last sync."""
        if self._seeded:
            return
        self._seeded = True
        earlier = await self._publisher.earlier(direction.address)
        if earlier is not None and earlier.gateway == direction.intent.gateway:
            self._board.seed(earlier)

    def _claim_folder(self, direction: DesiredState) -> None:
        """Claim the folder for this process; raise if another process holds it."""
        ref = str(direction.job.source.ref)
        if self._claim is None:
            command = f"the agent of pod {self._identity.pod}"
            self._claim = WriterClaim.taken(direction.job.data_dir, command, ref, self._clock)
        self._claim.follow(ref)

    async def _hold(self, direction: DesiredState) -> PreparedSync:
        source = direction.job.source
        self._secrets = MountedSecrets(self._places, source.auth.secret, direction.access.api_key)
        made_of = (
            direction.keeper_key,
            gateway_stamp(direction, self._secrets),
            capture_inputs(direction),
        )
        if self._held is not None and self._held.made_of == made_of:
            return self._held
        await self.aclose()
        attendant = gateway_attendant(direction, self._secrets, self._clock, self._answered)
        files_only, noise, job = files_only_for(direction), _gateway_noise(), direction.job
        rollback = open_rollback(
            direction.intent.policies.snapshots,
            direction.auto_rollback,
            data_dir=self._places.data,
            gateway=direction.snapshot_name,
            mount=self._places.snapshots,
            secret=self._secrets.read,
            attendant=attendant,
            files_only=files_only,
            noise=noise,
            clock=self._clock,
            asked=bool(direction.pinned_at),
            resource=direction.intent.resource,
        )
        if files_only is not None:
            job = job._replace(files=files_only.fitted(job.files))
        folder = open_keeper(
            job,
            access=access_reader(source, self._secrets, require_known_hosts=direction.require_known_hosts),
            keys=keys_reader(source, self._secrets),
            hooks=(
                ChangeLogHook(self._clock, mappings=len(direction.job.files.mappings), source=self._source),
                *gates_for(
                    direction.intent.policies.validation,
                    direction.job.data_dir,
                    self._gateway(direction.intent.gateway),
                    self._clock,
                ),
                *(rollback.hooks if rollback is not None else ()),
                *(hook for hook in (attendant, files_only) if hook is not None),
            ),
            gateway=attendant,
            rollback=rollback,
            noise=noise,
            clock=self._clock,
            shared=self._places.shared_repo if self._places.shared_repo.is_dir() else None,
        )
        capture = open_capture(
            direction,
            folder,
            self._sender,
            self._clock,
            noise=noise,
            tell=self._board.changed_here,
            may=lambda: not (self._resting or self._is_new() or _awaits_first_boot(attendant)),
        )
        if rollback is not None:
            rollback.capture = folder.capture
        self._held = PreparedSync(folder, made_of, capture)
        return self._held

    def _source(self) -> str:
        """Return the trigger of the current change: a rollback request, a moved ref, or polling."""
        direction = self._decided[1] if self._decided is not None else None
        if direction is None or direction.rollback is not None:
            return MANUAL
        return (direction.trigger if direction.commit != self._board.report.synced_commit else "") or POLLING

    def _is_new(self) -> bool:
        """Return whether this volume never had a gateway; an old volume may hold changes of people."""
        return self._startup.initial and not self._startup.synced_before

    def _gateway(self, name: str) -> GatewayRef:
        return GatewayRef(name, self._identity.namespace, self._identity.resource, self._identity.pod)

    async def _pair(
        self, direction: DesiredState, metadata: AgentMetadata, attendant: GatewayHook | None
    ) -> str:
        info = attendant.info if attendant is not None else None
        return await self._pairing.warning(
            direction,
            metadata,
            here=self._board.report.synced_commit,
            said=info.role if info is not None else "",
            initial=self._startup.initial,
        )

    def _failed(self, error: StokerError) -> None:
        gateway = self._held.folder.gateway if self._held is not None else None
        self._board.failed(error, gateway.outcome if gateway is not None else None)
        self._audit.failed(error, POLLING, commit=self._board.report.commit, ref=self._board.report.ref)
        self._startup.failed(f"{error.reason}: {error.message}")


def _next_sync_delay(period: float, attendant: GatewayHook | None) -> float:
    """Return the period, or less if the gateway has pending work."""
    due = attendant.settle_in if attendant is not None else None
    return period if due is None else min(period, max(1.0, due))


def _awaits_first_boot(attendant: GatewayHook | None) -> bool:
    return attendant is not None and attendant.awaits_first_boot


def _gateway_noise() -> ResourceNoise:
    from stoker.ignition.content.noise import ResourceNoise  # noqa: PLC0415 - only needed once a sync is prepared

    return ResourceNoise()
