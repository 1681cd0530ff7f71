"""The receiver of webhooks, put beside the controller: the only place where both rooms are known.

What the controller watches fills the receiver's index and its keyring; what the
receiver writes are annotations, which the controller sees like any other change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.controller.cache.informers import Observed, listen
from stoker.controller.cache.secrets import SecretReader
from stoker.controller.receiver_index import Routes
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.intent import Identity, ResourceIntent
from stoker.domain.intent.source import SecretKey
from stoker.domain.refs import GitRef
from stoker.domain.secrets import Secret
from stoker.http_server.tls.context import Presented
from stoker.http_server.tls.files import CertificateFiles
from stoker.kube.client.client import Client
from stoker.kube.config.files import read_bounded
from stoker.telemetry.metrics import Metrics
from stoker.webhooks.receiver.annotate import Annotator
from stoker.webhooks.receiver.caller_auth import Keys
from stoker.webhooks.receiver.index import Index, known_of
from stoker.webhooks.receiver.keyring import Keyring
from stoker.webhooks.receiver.receiver import Receiver, Settings


@dataclass(frozen=True, slots=True)
class Calls:
    """What a command line says about webhooks."""

    settings: Settings
    defaults: IgnitionSyncBaseSpec
    key_file: Path | None = None
    """The operator's own key, which opens every resource; read anew for each request."""
    cert_dir: Path | None = None
    """A folder with tls.crt and tls.key, which may be renewed; without it the receiver speaks plain HTTP."""

    def operator_keys(self) -> Keys:
        if self.key_file is None:
            return Keys()
        with suppress(OSError, Misconfigured):
            key = Secret(read_bounded(self.key_file, f"receiver key {self.key_file}").strip())
            return Keys(key) if key else Keys()
        return Keys()


def receiver_for(calls: Calls) -> Callable[[Client, Observed, Metrics], AbstractAsyncContextManager[object]]:
    """Makes the receiver of a replica."""

    @asynccontextmanager
    async def serve(client: Client, observed: Observed, metrics: Metrics) -> AsyncIterator[None]:
        clock = SystemClock()
        index = Index()

        async def read(namespace: str, key: SecretKey) -> Secret:
            return await SecretReader(client, namespace).value(key)

        keyring = Keyring(read, clock)

        def put(intent: ResourceIntent, followed: GitRef) -> None:
            index.put(known_of(intent, followed))
            keyring.follow(index.keys())

        def forget(who: Identity) -> None:
            index.forget(who)
            keyring.follow(index.keys())

        presented = Presented()
        certificate = None if calls.cert_dir is None else CertificateFiles(calls.cert_dir, presented, clock)
        Routes(observed, calls.defaults, put, forget)
        listen(observed.secrets, lambda change: keyring.changed(*change.key))
        receiver = Receiver(
            index.find,
            keyring.value,
            Annotator(client, clock),
            operator_keys=calls.operator_keys,
            settings=calls.settings,
            tls=None if certificate is None else presented.context,
            metrics=metrics,
            clock=clock,
            ready=lambda: observed.listed.is_set() and keyring.is_read,
        )
        beside = [asyncio.create_task(keyring.run(), name="keyring")]
        if certificate is not None:
            certificate.look()
            beside.append(asyncio.create_task(certificate.run(), name="receiver certificate"))
        try:
            async with receiver:
                yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    return serve
