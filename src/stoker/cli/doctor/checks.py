"""What is examined, and what earlier checks learned of it; one chain of checks after another.

A check looks at one thing and makes one finding, or none where the thing is not there to
be looked at. The first thing that is wrong ends its chain, because what comes after it
would only repeat it. What whoever asks may not see is said to be unseen, and never wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from stoker.api.spec.status import SyncStatus
from stoker.cli.common.in_cluster import ClusterResourceOptions
from stoker.cli.doctor.advice import advice_for, troubleshooting_hint
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.cache.objects import ResourceKey
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Forbidden

MAX_NAMES = 5


class WebhookService(msgspec.Struct, frozen=True):
    """A Service that the API server calls."""

    namespace: str = ""
    name: str = ""
    port: int = 443
    path: str = ""


class WebhookClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Where the API server finds a webhook, and whom it trusts there."""

    url: str | None = None
    service: WebhookService | None = None
    ca_bundle: str = ""


class RegisteredWebhook(NamedTuple):
    """One place in the cluster that names us as a webhook."""

    name: str
    """As a person finds it: the kind and the name of the object, and which of its webhooks."""
    config: WebhookClientConfig


class OperatorInstallation(NamedTuple):
    """The installation, as its Deployment tells of it; where that cannot be seen, the namespace alone."""

    namespace: str
    account: str = ""
    """The service account of the controller; empty: not known."""
    watched: tuple[str, ...] = ()
    """Namespaces that it works on; none named means all."""
    labels: str = ""
    """The selector of the resources that it works on; empty means all."""
    shards: int = 0
    """How many controllers divide the namespaces; 0: not known."""
    shared_volumes: bool = False
    require_known_hosts: bool = False
    defaults: str = ""
    """The ConfigMap with what resources leave out."""
    admission: bool = False
    """Whether the webhook is installed."""

    def works_on(self, namespace: str) -> bool:
        return not self.watched or namespace in self.watched


@dataclass(slots=True)
class ExaminedResource:
    """The resource that is asked about, and what hangs on it."""

    key: ResourceKey
    status: SyncStatus
    generation: int
    intent: ResourceIntent
    fleet: GatewayFleet = field(default_factory=GatewayFleet)
    unread: bool = False
    """Some of its Secrets may not be looked at by whoever asks."""


@dataclass(slots=True)
class Examination:
    """One examination."""

    client: KubeClient
    place: ClusterResourceOptions
    home: str = ""
    """The operator's namespace, where somebody said it."""
    clock: Clock = field(default_factory=SystemClock)
    ahead: timedelta = timedelta()
    """How far the API server's clock is ahead of the one here; what the cluster wrote is held against it."""
    definitions: dict[str, object] = field(default_factory=dict)
    """CRDs that were read already, by name."""
    operator: OperatorInstallation | None = None
    webhooks: list[RegisteredWebhook] = field(default_factory=list)
    subject: ExaminedResource | None = None
    wrong: set[str] = field(default_factory=set)
    """The checks that found something wrong."""

    def now(self) -> datetime:
        """The time as the cluster has it."""
        return self.clock.now() + self.ahead


DoctorCheck = Callable[[Examination], Awaitable[Finding | None]]
DoctorChain = Sequence[tuple[str, DoctorCheck]]


async def run_chain(chain: DoctorChain, case: Examination) -> AsyncIterator[Finding]:
    """Finding after finding, up to the first that is wrong."""
    for name, look in chain:
        try:
            finding = await look(case)
        except Forbidden as error:
            finding = forbidden_finding(name, error)
        except StokerError as error:
            finding = error_finding(name, error)
        if finding is None:
            continue
        yield finding
        if finding.mark is FindingStatus.WRONG:
            case.wrong.add(name)
            return


def forbidden_finding(check: str, error: Forbidden) -> Finding:
    """What whoever asks may not look at."""
    mend = "Ask somebody who may, or have this right granted to you; nothing is known to be wrong."
    return Finding(check, FindingStatus.UNTRIED, f"not looked at: {error.message}", mend, error.reason)


def error_finding(check: str, error: StokerError, mend: str = "") -> Finding:
    return Finding(
        check,
        FindingStatus.WRONG,
        error.message,
        mend or advice_for(error.reason) or troubleshooting_hint(error.reason),
        error.reason,
    )


def failed_finding(check: str, said: str, mend: str, reason: Reason) -> Finding:
    return Finding(check, FindingStatus.WRONG, said, mend, reason)


def passed_finding(check: str, said: str) -> Finding:
    return Finding(check, FindingStatus.WELL, said)


def first_names(names: Sequence[str]) -> str:
    """The first few, and how many there are besides."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
