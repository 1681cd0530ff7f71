"""Writes the CA to `caBundle` in webhook configurations and CRDs, so that the API server trusts it.

Only that field is ours: it is applied with a field manager of its own, and manifests of the
configurations must omit it. The objects are watched by name: if an upgrade or a user removes the field,
it is written again at once. A missing object is not waited for, and an object that does not call this
process (a CRD without conversion webhook) is not changed.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.http_server.tls.certificate_authority import split_certificates
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import ApiResource
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

MANAGER = "stoker-webhook-trust"
MUTATING = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
BACKOFF = Backoff(base=0.5, ceiling=60.0, jitter=0.3)
RECHECK_SECONDS = 300.0
# A replica that is a moment behind must not remove a CA that another replica has just added.
SETTLE = 30.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CaBundleTarget:
    """An object that refers to this process as a webhook."""

    resource: ApiResource
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


class _CaBundleClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str = ""


class _CaBundleWebhook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _CaBundleClientConfig = msgspec.field(default_factory=_CaBundleClientConfig)


class _CaBundleConversion(msgspec.Struct, rename="camel"):
    strategy: str = ""
    webhook: _CaBundleWebhook | None = None


class _CaBundleSpec(msgspec.Struct):
    conversion: _CaBundleConversion | None = None


class _CaBundleMetadata(msgspec.Struct):
    uid: str = ""


class _CaBundleObject(msgspec.Struct):
    """The fields of a webhook configuration or a CRD that concern `caBundle`."""

    metadata: _CaBundleMetadata = msgspec.field(default_factory=_CaBundleMetadata)
    webhooks: list[_CaBundleWebhook] | None = None
    spec: _CaBundleSpec = msgspec.field(default_factory=_CaBundleSpec)

    def bundles(self) -> list[str]:
        """Return the current value of each `caBundle` field."""
        conversion = self.spec.conversion
        if conversion is not None and conversion.strategy == "Webhook":
            return [conversion.webhook.client_config.ca_bundle if conversion.webhook else ""]
        return [one.client_config.ca_bundle for one in self.webhooks or ()]

    def wanted(self, target: CaBundleTarget, bundle: str) -> dict[str, Any]:
        """Return an apply body with only our field; the uid prevents it from recreating a deleted object."""
        body: dict[str, Any] = {
            "apiVersion": target.resource.api_version,
            "kind": target.resource.kind,
            "metadata": {"name": target.name, "uid": self.metadata.uid},
        }
        trust = {"clientConfig": {"caBundle": bundle}}
        if self.webhooks:
            return body | {"webhooks": [{"name": one.name, **trust} for one in self.webhooks]}
        return body | {"spec": {"conversion": {"strategy": "Webhook", "webhook": trust}}}


class CaBundleWriter:
    """Keeps the CA bundle in all targets."""

    def __init__(
        self,
        client: KubeClient,
        targets: Sequence[CaBundleTarget],
        bundle: Callable[[], bytes | None],
        *,
        on_settled: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._bundle = bundle
        self._on_settled = on_settled
        self._clock = clock or SystemClock()
        self._wake = asyncio.Event()
        self._failures = 0
        self._surplus_since: float | None = None
        self._watched: dict[CaBundleTarget, Reflector[_CaBundleObject]] = {
            target: Reflector(
                client,
                target.resource,
                fields=f"metadata.name={target.name}",
                keep=msgspec.json.Decoder(_CaBundleObject).decode,
                on_change=lambda _: self._wake.set(),
                clock=self._clock,
            )
            for target in targets
        }

    async def run(self) -> None:
        """Maintain the bundles until cancelled."""
        async with asyncio.TaskGroup() as group:
            for target, watched in self._watched.items():
                group.create_task(watched.run(), name=str(target))
            while True:
                await wait_for_event(self._wake, self._clock, await self._turn())
                self._wake.clear()

    def look_again(self) -> None:
        """Check again, because the bundle has changed."""
        self._wake.set()

    def in_place(self, authority: bytes) -> bool:
        """Return whether all observed targets contain this CA."""
        return all(
            watched.health.synced
            and all(_has_authorities(one, authority) for one in self._places(target, watched))
            for target, watched in self._watched.items()
        )

    async def _turn(self) -> float:
        bundle = self._bundle()
        if bundle is None:
            return RECHECK_SECONDS
        encoded = base64.b64encode(bundle).decode()
        other = [one for one in self._watched if any(place != encoded for place in self._at(one))]
        lacking = [
            one for one in other if not all(_has_authorities(place, bundle) for place in self._at(one))
        ]
        wait = self._until_settled(surplus=len(other) > len(lacking))
        done = [await self._applied(target, encoded) for target in (lacking if wait > 0 else other)]
        if not all(done):
            self._failures += 1
            return BACKOFF.delay(self._failures)
        self._failures = 0
        if not lacking:
            self._on_settled()
        return min(wait, RECHECK_SECONDS) if wait > 0 else RECHECK_SECONDS

    def _until_settled(self, *, surplus: bool) -> float:
        """Return the seconds until CAs that are in targets but not in our bundle may be removed."""
        now = self._clock.monotonic()
        if not surplus:
            self._surplus_since = None
            return 0.0
        self._surplus_since = now if self._surplus_since is None else self._surplus_since
        return self._surplus_since + SETTLE - now

    async def _applied(self, target: CaBundleTarget, bundle: str) -> bool:
        """Apply the bundle and return whether it succeeded; a target that fails does not delay the others."""
        found = self._watched[target].store.get(ObjectKey("", target.name))
        if found is None:
            return True
        body = found.wanted(target, bundle)
        try:
            await self._client.apply(target.resource, body, target.name, manager=MANAGER, into=ObjectHeader)
        except StokerError as error:
            log.warning("trust.failed", target=str(target), reason=error.reason, error=error.message)
            return False
        log.info("trust.given", target=str(target))
        return True

    def _at(self, target: CaBundleTarget) -> list[str]:
        return self._places(target, self._watched[target])

    @staticmethod
    def _places(target: CaBundleTarget, watched: Reflector[_CaBundleObject]) -> list[str]:
        found = watched.store.get(ObjectKey("", target.name))
        return [] if found is None else found.bundles()


def _has_authorities(place: str, authorities: bytes) -> bool:
    """Return whether a `caBundle` value contains all of these CAs."""
    try:
        present = base64.b64decode(place)
    except ValueError:
        return False
    return all(one in present for one in split_certificates(authorities))
