"""What is worth an alarm, and when it is over: read out of the Events and statuses of a pass. Pure.

An alarm begins with an Event, which is told once when something becomes wrong
(`stoker.controller.status.events`). It is over when its word stands in the status no more.
An Event whose word stands in no status is over as it comes: it is told and not resolved.
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
    """The words of PagerDuty."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Incident(NamedTuple):
    """What is wrong with a resource, and on which gateway, where it is about one."""

    reason: str
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing to tell."""

    about: ObjectRef
    incident: Incident
    message: str
    moment: datetime
    severity: AlertSeverity = AlertSeverity.ERROR
    cause: str = ""
    """The reason that a gateway gave, where the Event has a more general one."""
    cluster: str = ""

    @property
    def key(self) -> str:
        """The same for the same trouble, also after a change of leaders; no two clusters share a uid."""
        key = f"stoker/{self.about.uid}/{self.incident.reason}/{self.incident.gateway}"
        return key if len(key) <= MAX_KEY_LENGTH else f"stoker/{hashlib.sha256(key.encode()).hexdigest()}"

    @property
    def words(self) -> frozenset[str]:
        """Under which names somebody may have asked for it."""
        return frozenset(word.casefold() for word in (self.incident.reason, self.cause) if word)


def alerts_for_events(
    told: Iterable[StatusEvent], about: ObjectRef, moment: datetime, cluster: str = ""
) -> Iterator[Alert]:
    """Each Event as an alarm; whether anybody wants it is another question."""
    for one in told:
        if one.reason is Reason.ALERT_FAILED:  # or a service that is away would be told of itself
            continue
        incident = Incident(one.reason, one.gateway)
        yield Alert(about, incident, one.message, moment, _severity(one), one.cause, cluster)


def open_incidents(status: SyncStatus) -> frozenset[Incident]:
    """Every word that stands in a status, whatever it means."""
    words = {Incident(one.reason) for one in status.conditions or ()}
    for gateway in status.discovered_gateways or ():
        failed = Reason.SYNC_FAILED if gateway.sync_status == "Error" else None
        taken_back = gateway.quarantine.reason if gateway.quarantine is not None else None
        words |= {Incident(word, gateway.name) for word in (gateway.reason, failed, taken_back) if word}
    return frozenset(words)


def presumed_open(status: SyncStatus) -> frozenset[Incident]:
    """What another leader has told of, as far as a status shows it."""
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
