"""The backup of a redundant pair: reads its primary's report and decides whether to sync.

Gateways cannot ask each other for their commits, so the backup's agent reads the report of the primary's
agent. The rules are in `stoker.ignition.sync.redundancy`; this module provides their inputs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stoker.agent.desired_state import DesiredState, ReportAddress
from stoker.agent.identity import AgentIdentity
from stoker.agent.status.status_report import StatusPublisher
from stoker.api.to_intent.pod_facts import status_key
from stoker.domain.clock import Clock, rfc3339_or
from stoker.domain.errors import Wait
from stoker.domain.intent.policies import RedundancyRole
from stoker.domain.protocol import AgentMetadata
from stoker.domain.reasons import Reason
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.ignition.sync.redundancy import PrimaryHealth, PrimaryReport

POLL_SECONDS = 5.0

_DOWN_REASONS = frozenset({Reason.GATEWAY_UNREACHABLE, Reason.GATEWAY_FAULTED})

log = get_logger(__name__)


class RedundancyGate:
    """Decides before each sync whether a backup gateway may sync."""

    def __init__(self, identity: AgentIdentity, publisher: StatusPublisher, clock: Clock) -> None:
        self._identity = identity
        self._publisher = publisher
        self._clock = clock
        self._watch: PrimaryHealth | None = None
        self._checked_at = -math.inf
        self._promoted = False

    async def warning(
        self, direction: DesiredState, metadata: AgentMetadata, *, here: str, said: str, initial: bool
    ) -> str:
        """Return the warning for a backup that syncs on its own; raise `Wait` if the primary goes first."""
        policy = direction.intent.policies.ignition
        if direction.commit is None or (policy.redundancy_role is RedundancyRole.STANDALONE and not said):
            return ""
        from stoker.ignition.sync.redundancy import (  # noqa: PLC0415 - few gateways are redundant
            BackupAction,
            PrimaryHealth,
            RedundancyState,
            decide_redundancy,
        )

        self._watch = self._watch or PrimaryHealth()
        primary = None
        if policy.peer_gateway and not initial:
            primary = await self._primary(policy.peer_gateway, metadata)
            self._count(primary, direction.intent.sync_period)
        pair = RedundancyState(
            wanted=str(direction.commit),
            here=here,
            initial=initial,
            role=policy.redundancy_role,
            said=said,
            peer=policy.peer_gateway,
            primary=primary,
            failed_checks=self._watch.failed_checks,
        )
        decision = decide_redundancy(pair)
        if (decision.course is BackupAction.PROMOTE) != self._promoted:
            self._promoted = not self._promoted
            say, event = (log.warning, "promoted") if self._promoted else (log.info, "demoted")
            say(f"redundancy.{event}", primary=policy.peer_gateway, why=decision.why)
        if decision.course is BackupAction.WAIT:
            raise Wait(decision.why, after=POLL_SECONDS, reason=decision.reason)
        return decision.why if decision.warning else ""

    async def _primary(self, peer: str, metadata: AgentMetadata) -> PrimaryReport | None:
        from stoker.ignition.sync.redundancy import PrimaryReport  # noqa: PLC0415

        key = status_key(peer)
        address = ReportAddress(self._identity.status_map(metadata.status_shards.get(key, 0)), key)
        report = await self._publisher.earlier(address)
        if report is None:
            return None
        return PrimaryReport(
            report.synced_commit,
            report.applied is not False,
            rfc3339_or(report.heartbeat_at, None),
            report.reason in _DOWN_REASONS,
        )

    def _count(self, primary: PrimaryReport | None, period: float) -> None:
        """Count at most one failed check per half period, so that a burst of triggers counts once."""
        now = self._clock.monotonic()
        well = primary is not None and primary.is_well(self._clock.now())
        if self._watch is not None and (well or now - self._checked_at >= period / 2):
            self._checked_at = now
            self._watch.checked(well=well)
