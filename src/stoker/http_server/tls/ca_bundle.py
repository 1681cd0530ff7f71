"""Tells the API server whom to trust: `caBundle` in webhook configurations and CRDs.

Only that one field is ours; it is applied under a field manager of our own, and
whoever installs the configurations leaves it out. They are watched by name: what an
upgrade or a person takes away comes back at once. An object that is not there is not
waited for, and one that does not call us (a CRD without conversion) is left alone.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.http_server.tls.certificate_authority import split_certificates
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
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
# A replica that is a moment behind must not take from everybody what another has just told them to trust.
SETTLE = 30.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CaBundleTarget:
    """One object that names us as a webhook."""

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
    """A configuration or a CRD, as far as it says whom to trust."""

    metadata: _CaBundleMetadata = msgspec.field(default_factory=_CaBundleMetadata)
    webhooks: list[_CaBundleWebhook] | None = None
    spec: _CaBundleSpec = msgspec.field(default_factory=_CaBundleSpec)

    def bundles(self) -> list[str]:
        """Each place that needs one, with what stands there."""
        conversion = self.spec.conversion
        if conversion is not None and conversion.strategy == "Webhook":
            return [conversion.webhook.client_config.ca_bundle if conversion.webhook else ""]
        return [one.client_config.ca_bundle for one in self.webhooks or ()]

    def wanted(self, target: CaBundleTarget, bundle: str) -> dict[str, Any]:
        """Our field and nothing else; the uid keeps a deleted object from being made anew by it."""
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
    """Keeps the bundle in all targets."""

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
        """Keep it so until cancelled."""
        async with asyncio.TaskGroup() as group:
            for target, watched in self._watched.items():
                group.create_task(watched.run(), name=str(target))
            while True:
                with contextlib.suppress(TimeoutError):
                    async with deadline(self._clock, await self._turn()):
                        await self._wake.wait()
                self._wake.clear()

    def look_again(self) -> None:
        """The bundle has changed."""
        self._wake.set()

    def in_place(self, authority: bytes) -> bool:
        """Whether everybody who calls us trusts this authority, as far as we have seen."""
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
        """Seconds until what is trusted beyond ours may be taken away."""
        now = self._clock.monotonic()
        if not surplus:
            self._surplus_since = None
            return 0.0
        self._surplus_since = now if self._surplus_since is None else self._surplus_since
        return self._surplus_since + SETTLE - now

    async def _applied(self, target: CaBundleTarget, bundle: str) -> bool:
        """Whether it worked; one that we may not write does not keep the others waiting."""
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
    """Whether every one of these authorities stands in a `caBundle`."""
    try:
        present = base64.b64decode(place)
    except ValueError:
        return False
    return all(one in present for one in split_certificates(authorities))
