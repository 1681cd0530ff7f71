"""The state of an examination, and how a chain of checks runs.

A check looks at one thing and returns one finding, or None if the thing does not exist. The first wrong
finding ends its chain, because later checks would only repeat it. What the user has no right to read is
reported as not checked, never as wrong.
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


class WebhookService(msgspec.Struct, frozen=True):
    """A Service that the API server calls."""

    namespace: str = ""
    name: str = ""
    port: int = 443
    path: str = ""


class WebhookClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The address of a webhook, and the CA bundle that the API server trusts for it."""

    url: str | None = None
    service: WebhookService | None = None
    ca_bundle: str = ""


class RegisteredWebhook(NamedTuple):
    """One webhook entry in the cluster that points to us."""

    name: str
    """For users: kind and name of the object, and which of its webhooks."""
    config: WebhookClientConfig


class OperatorInstallation(NamedTuple):
    """The installation, read from its Deployment; only the namespace if that cannot be read."""

    namespace: str
    account: str = ""
    """The controller's service account; empty: not known."""
    watched: tuple[str, ...] = ()
    """Namespaces that the controller watches; empty means all."""
    labels: str = ""
    """The label selector of the resources that it reconciles; empty means all."""
    shards: int = 0
    """The number of shards that divide the namespaces; 0: not known."""
    shared_volumes: bool = False
    require_known_hosts: bool = False
    defaults: str = ""
    """The ConfigMap with the defaults for resources."""
    admission: bool = False
    """Whether the webhook is installed."""

    def works_on(self, namespace: str) -> bool:
        return not self.watched or namespace in self.watched


@dataclass(slots=True)
class ExaminedResource:
    """The resource that is examined, with its intent and its gateways."""

    key: ResourceKey
    status: SyncStatus
    generation: int
    intent: ResourceIntent
    fleet: GatewayFleet = field(default_factory=GatewayFleet)
    unread: bool = False
    """The user has no right to read some of its Secrets."""


@dataclass(slots=True)
class Examination:
    """The state of one examination: inputs, and what earlier checks found out."""

    client: KubeClient
    place: ClusterResourceOptions
    home: str = ""
    """The operator's namespace, if the user named it."""
    clock: Clock = field(default_factory=SystemClock)
    ahead: timedelta = timedelta()
    """How far the API server's clock is ahead of ours; timestamps of the cluster are compared to it."""
    definitions: dict[str, object] = field(default_factory=dict)
    """CRDs that were already read, by name."""
    operator: OperatorInstallation | None = None
    webhooks: list[RegisteredWebhook] = field(default_factory=list)
    subject: ExaminedResource | None = None
    wrong: set[str] = field(default_factory=set)
    """The names of checks with a wrong finding."""

    def now(self) -> datetime:
        """The current time of the cluster's clock."""
        return self.clock.now() + self.ahead


DoctorCheck = Callable[[Examination], Awaitable[Finding | None]]
DoctorChain = Sequence[tuple[str, DoctorCheck]]


async def run_chain(chain: DoctorChain, case: Examination) -> AsyncIterator[Finding]:
    """Yield findings up to the first wrong one."""
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
    """Finding for something that the user has no right to read."""
    fix = "Ask a user with this permission, or have it granted to you; this is not necessarily a problem."
    return Finding(check, FindingStatus.UNTRIED, f"not checked: {error.message}", fix, error.reason)


def error_finding(check: str, error: StokerError, fix: str = "") -> Finding:
    return Finding(
        check,
        FindingStatus.WRONG,
        error.message,
        fix or advice_for(error.reason) or troubleshooting_hint(error.reason),
        error.reason,
    )


def failed_finding(check: str, said: str, fix: str, reason: Reason) -> Finding:
    return Finding(check, FindingStatus.WRONG, said, fix, reason)


def passed_finding(check: str, said: str) -> Finding:
    return Finding(check, FindingStatus.WELL, said)
