"""Maintains the Secret with the certificate that all replicas serve.

Replicas start together and find no Secret: each issues a CA, and the first to create the Secret wins;
the others read it. From then on each replica watches the Secret and renews its content as
`stoker.http_server.tls.rotation` decides. A write carries the resourceVersion that was read, so a replica
that loses a race reads again. If the Secret is emptied or deleted, it is restored from memory, so that
clients that trust the CA notice nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue, StokerError
from stoker.http_server.tls.certificate_authority import TlsMaterial, new_material
from stoker.http_server.tls.rotation import (
    CertificateLifetimes,
    RotationStep,
    apply_rotation_step,
    decide_rotation,
)
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.client.errors import AlreadyExists, Conflict, NotFound
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import SECRETS
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.reflector import Reflector
from stoker.telemetry.logs import get_logger

MAX_WAIT_SECONDS = 3600.0
MIN_WAIT_SECONDS = 0.1
BACKOFF = Backoff(base=0.5, ceiling=30.0, jitter=0.3)

log = get_logger(__name__)


class _TlsSecretMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _TlsSecret(msgspec.Struct):
    metadata: _TlsSecretMetadata = msgspec.field(default_factory=_TlsSecretMetadata)
    data: dict[str, str] | None = None


class CertificateRotator:
    """Keeps the Secret valid, and calls `on_change` with every new content."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        names: Sequence[str],
        *,
        on_change: Callable[[TlsMaterial], None],
        trusted: Callable[[TlsMaterial], bool],
        terms: CertificateLifetimes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._names = names
        self._on_change = on_change
        self._trusted = trusted
        self._terms = terms or CertificateLifetimes()
        self._clock = clock or SystemClock()
        self._wake = asyncio.Event()
        self._known: TlsMaterial | None = None
        self._failures = 0

    @property
    def material(self) -> TlsMaterial | None:
        """The content of the Secret as this replica last saw it."""
        return self._known

    async def run(self) -> None:
        """Maintain the Secret until cancelled."""
        watched = Reflector(
            self._client,
            SECRETS,
            namespace=self._namespace,
            fields=f"metadata.name={self._name}",
            keep=len,
            on_change=lambda _: self._wake.set(),
            clock=self._clock,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(watched.run(), name="certificate secret")
            while True:
                rest = await self._turn()
                await self._rest(rest)

    def look_again(self) -> None:
        """Check again, because an input of the decision has changed."""
        self._wake.set()

    async def _turn(self) -> float:
        """Read the Secret and perform at most one step; return the seconds until the next check."""
        try:
            rest = await self._looked()
        except (AlreadyExists, Conflict):
            return 0.0  # another replica was faster; read what it wrote at once
        except StokerError as error:
            self._failures += 1
            log.warning("certificate.failed", reason=error.reason, error=error.message, stored_in=self._name)
            return BACKOFF.delay(self._failures)
        self._failures = 0
        return rest

    async def _looked(self) -> float:
        found = await self._read()
        material = self._parsed(found)
        if material is None:
            material = self._known or new_material(
                self._names,
                self._clock.now(),
                self._terms.authority,
                self._terms.serving,
                mutual=self._terms.mutual,
            )
            await self._write(found, material)
            log.info("certificate.made", stored_in=self._name, names=list(self._names))
            self._tell(material)
            return 0.0
        self._tell(material)
        now = self._clock.now()
        decision = decide_rotation(
            material.authority_facts(),
            material.serving_facts(),
            self._names,
            now,
            self._terms,
            trusted=self._trusted(material),
        )
        if decision.step is RotationStep.KEEP:
            return (decision.look_again - now) / timedelta(seconds=1)
        after = apply_rotation_step(decision.step, material, self._names, now, self._terms)
        await self._write(found, after)
        log.info("certificate.rotated", step=decision.step.name.lower(), stored_in=self._name)
        self._tell(after)
        return 0.0

    async def _read(self) -> _TlsSecret | None:
        try:
            return await self._client.get(SECRETS, self._name, self._namespace, into=_TlsSecret)
        except NotFound:
            return None

    def _parsed(self, found: _TlsSecret | None) -> TlsMaterial | None:
        if found is None or not found.data:
            return None
        try:
            return TlsMaterial.parse(found.data)
        except InvalidValue as error:
            log.warning("certificate.unreadable", stored_in=self._name, error=error.message)
            return None

    async def _write(self, found: _TlsSecret | None, material: TlsMaterial) -> None:
        """Create the Secret, or replace exactly the version that was read."""
        if found is None:
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": self._name,
                    "labels": {
                        "app.kubernetes.io/managed-by": "stoker",
                        "app.kubernetes.io/part-of": "stoker",
                    },
                },
                "type": "Opaque",
                "data": material.data(),
            }
            await self._client.create(SECRETS, body, self._namespace, into=ObjectHeader)
            return
        version = {"resourceVersion": found.metadata.resource_version}
        body = {"metadata": version, "data": material.data()}
        await self._client.patch(SECRETS, body, self._name, self._namespace, into=ObjectHeader)

    def _tell(self, material: TlsMaterial) -> None:
        if material != self._known:
            self._known = material
            self._on_change(material)

    async def _rest(self, seconds: float) -> None:
        await wait_for_event(self._wake, self._clock, min(max(seconds, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS))
        self._wake.clear()
