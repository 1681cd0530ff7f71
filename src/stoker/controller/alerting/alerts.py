"""Derives alerts, and the end of incidents, from the Events and statuses of reconciles. Pure.

An incident begins with an Event, which is emitted once when the error begins
(`stoker.controller.status.events`). It is over when its reason is no longer in the status. An Event whose
reason is in no status is sent as an alert and never resolved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from stoker.api.spec.status import SyncStatus
from stoker.controller.status.events import StatusEvent
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason
from stoker.kube.events.series import EventType, ObjectRef

MAX_KEY_LENGTH = 255

_BAD_IF_FALSE = frozenset(
    {Type.READY, Type.AGENT_READY, Type.SIDECAR_INJECTED, Type.VERIFIED, Type.BIDIRECTIONAL_READY}
)
_BAD_IF_TRUE = frozenset(
    {
        Type.DRIFT_DETECTED,
        Type.REF_SKEW,
        Type.CANARY_STAGE_FAILED,
        Type.AUTO_ROLLBACK_PERFORMED,
        Type.PENDING_APPROVAL,
    }
)
_PROGRESSING_REASONS = frozenset({Reason.GATEWAYS_SYNCING, Reason.REF_RESOLVING, Reason.AGENT_STARTING})


class AlertSeverity(StrEnum):
    """The severities of PagerDuty."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Incident(NamedTuple):
    """A reason on a resource, and the gateway if it is about a gateway."""

    reason: str
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert to send."""

    about: ObjectRef
    incident: Incident
    message: str
    moment: datetime
    severity: AlertSeverity = AlertSeverity.ERROR
    cause: str = ""
    """The reason that a gateway gave, if the Event has a more general reason."""
    cluster: str = ""

    @property
    def key(self) -> str:
        """The same for the same incident, also under another leader; the uid differs between clusters."""
        key = f"stoker/{self.about.uid}/{self.incident.reason}/{self.incident.gateway}"
        return key if len(key) <= MAX_KEY_LENGTH else f"stoker/{hashlib.sha256(key.encode()).hexdigest()}"

    @property
    def words(self) -> frozenset[str]:
        """The names in `on` that select this alert."""
        return frozenset(word.casefold() for word in (self.incident.reason, self.cause) if word)


def alerts_for_events(
    told: Iterable[StatusEvent], about: ObjectRef, moment: datetime, cluster: str = ""
) -> Iterator[Alert]:
    """Make an alert of each Event; `alert_filter` decides which targets get it."""
    for one in told:
        # No alert about a failed alert: an unreachable service would get alerts about itself.
        if one.reason is Reason.ALERT_FAILED:
            continue
        incident = Incident(one.reason, one.gateway)
        yield Alert(about, incident, one.message, moment, _severity(one), one.cause, cluster)


def open_incidents(status: SyncStatus) -> frozenset[Incident]:
    """Every reason in a status, with its gateway."""
    words = {Incident(one.reason) for one in status.conditions or ()}
    for gateway in status.discovered_gateways or ():
        failed = Reason.SYNC_FAILED if gateway.sync_status == "Error" else None
        taken_back = gateway.quarantine.reason if gateway.quarantine is not None else None
        words |= {Incident(word, gateway.name) for word in (gateway.reason, failed, taken_back) if word}
    return frozenset(words)


def presumed_open(status: SyncStatus) -> frozenset[Incident]:
    """Incidents that another leader has presumably reported, as far as the status shows them."""
    wrong = {
        Incident(one.reason)
        for one in status.conditions or ()
        if (one.type in _BAD_IF_FALSE and one.status == "False")
        or (one.type in _BAD_IF_TRUE and one.status == "True")
    }
    wrong |= {
        Incident(Reason.SYNC_FAILED, gateway.name)
        for gateway in status.discovered_gateways or ()
        if gateway.sync_status == "Error"
    }
    return frozenset(one for one in wrong if one.reason not in _PROGRESSING_REASONS)


def _severity(told: StatusEvent) -> AlertSeverity:
    if told.type is EventType.WARNING:
        return AlertSeverity.ERROR
    return AlertSeverity.WARNING if told.reason is Reason.PAUSED else AlertSeverity.INFO
