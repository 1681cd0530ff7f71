"""Runs the webhook receiver beside the controller; the only module that knows both packages.

The controller's informers fill the receiver's index and its keyring. The receiver writes only annotations,
which the controller sees like any other change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.receiver_index import ReceiverIndexUpdater
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.intent import ResourceIdentity, ResourceIntent
from stoker.domain.intent.source import SecretKey
from stoker.domain.refs import GitRef
from stoker.domain.secrets import Secret
from stoker.http_server.tls.context import ServerTlsContext
from stoker.http_server.tls.files import CertificateFiles
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader
from stoker.kube.config.files import read_bounded
from stoker.telemetry.metrics import Metrics
from stoker.webhooks.receiver.annotate import Annotator
from stoker.webhooks.receiver.caller_auth import CallerKeys
from stoker.webhooks.receiver.index import ReceiverIndex, indexed_resource
from stoker.webhooks.receiver.keyring import CallerKeyring
from stoker.webhooks.receiver.receiver import ReceiverOptions, WebhookReceiver


@dataclass(frozen=True, slots=True)
class ReceiverFlags:
    """The values of the receiver's options."""

    settings: ReceiverOptions
    defaults: IgnitionSyncBaseSpec
    key_file: Path | None = None
    """The operator's own key, which is valid for every resource; read again for each request."""
    cert_dir: Path | None = None
    """A folder with tls.crt and tls.key, which may be renewed; without it the receiver serves plain HTTP."""

    def operator_keys(self) -> CallerKeys:
        if self.key_file is None:
            return CallerKeys()
        with suppress(OSError, Misconfigured):
            key = Secret(read_bounded(self.key_file, f"receiver key {self.key_file}").strip())
            return CallerKeys(key) if key else CallerKeys()
        return CallerKeys()


def receiver_for(
    calls: ReceiverFlags,
) -> Callable[[KubeClient, ControllerInformers, Metrics], AbstractAsyncContextManager[object]]:
    """Return a context manager factory that serves the receiver of one replica."""

    @asynccontextmanager
    async def serve(
        client: KubeClient, observed: ControllerInformers, metrics: Metrics
    ) -> AsyncIterator[None]:
        clock = SystemClock()
        index = ReceiverIndex()

        async def read(namespace: str, key: SecretKey) -> Secret:
            return await NamespaceSecretReader(client, namespace).value(key)

        keyring = CallerKeyring(read, clock)

        def put(intent: ResourceIntent, followed: GitRef) -> None:
            index.put(indexed_resource(intent, followed))
            keyring.follow(index.keys())

        def forget(who: ResourceIdentity) -> None:
            index.forget(who)
            keyring.follow(index.keys())

        presented = ServerTlsContext()
        certificate = None if calls.cert_dir is None else CertificateFiles(calls.cert_dir, presented, clock)
        ReceiverIndexUpdater(observed, calls.defaults, put, forget)
        observed.secrets.listen(lambda change: keyring.changed(*change.key))
        receiver = WebhookReceiver(
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
