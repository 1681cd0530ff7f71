"""The receiver as a process of its own, for `test_webhook_calls` and `test_documented_recipes`.

    python receiver_process.py KUBECONFIG NAMESPACE [OPERATOR_KEY_FILE]

Watches the resources and Secrets of one namespace and serves on free ports of
127.0.0.1, which it writes to standard output: that of the receiver, that of metrics.
The ref of the spec is the one that is followed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.api.to_intent import MODELS, intent_for, merge_spec
from stoker.domain.clock import SystemClock
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import SECRETS
from stoker.kube.client.secret_reader import NamespaceSecretReader
from stoker.kube.config import config
from stoker.kube.runtime.process import run_process
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange
from stoker.telemetry import logs
from stoker.telemetry.health import ProcessHealth
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import ProbeServer
from stoker.webhooks.receiver.annotate import Annotator
from stoker.webhooks.receiver.caller_auth import CallerKeys
from stoker.webhooks.receiver.index import ReceiverIndex, indexed_resource
from stoker.webhooks.receiver.keyring import CallerKeyring
from stoker.webhooks.receiver.receiver import ReceiverOptions, WebhookReceiver


class Watched:
    """The index and the keyring, kept by watches."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.index = ReceiverIndex()
        self.keyring = CallerKeyring(self._read, SystemClock())
        self._client = client
        kinds = [kind for kind in KINDS if kind.model in MODELS]
        self._reflectors = [self._resources(kind, namespace) for kind in kinds]
        self._secrets = Reflector(
            client,
            SECRETS,
            namespace=namespace,
            keep=msgspec.json.Decoder(ObjectHeader).decode,
            on_change=lambda change: self.keyring.changed(*change.key),
            metadata_only=True,
        )

    def is_whole(self) -> bool:
        return all(one.health.synced for one in self._reflectors) and self.keyring.is_read

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self._reflectors:
                group.create_task(one.run())
            group.create_task(self._secrets.run())
            group.create_task(self.keyring.run())

    def _resources(self, kind: CustomResourceKind, namespace: str) -> Reflector[Model]:
        def on_change(change: ObjectChange[Model]) -> None:
            if change.new is None:
                self.index.forget(ResourceIdentity(SyncResourceKind(kind.name), *change.key))
            else:
                self.index.put(indexed_resource(intent_for(merge_spec(change.new))))
            self.keyring.follow(self.index.keys())

        decode = msgspec.json.Decoder(kind.model).decode
        return Reflector(
            self._client, rest_resource(kind), namespace=namespace, keep=decode, on_change=on_change
        )

    async def _read(self, namespace: str, key: SecretKey) -> Secret:
        return await NamespaceSecretReader(self._client, namespace).value(key)


async def serve(kubeconfig: Path, namespace: str, operator_key: Path | None) -> None:
    metrics = Metrics()
    async with (
        KubeClient(config.load_config(kubeconfig)) as client,
        ProbeServer(ProcessHealth(), metrics, health_address="0", metrics_address="127.0.0.1:0") as probes,
    ):
        watched = Watched(client, namespace)
        receiver = WebhookReceiver(
            watched.index.find,
            watched.keyring.value,
            Annotator(client, SystemClock()),
            operator_keys=lambda: (
                CallerKeys(Secret(operator_key.read_bytes())) if operator_key else CallerKeys()
            ),
            settings=ReceiverOptions(address="127.0.0.1:0"),
            metrics=metrics,
            ready=watched.is_whole,
        )
        async with receiver:
            sys.stdout.write(f"{receiver.port} {probes.metrics_port}\n")
            sys.stdout.flush()
            await watched.run()


if __name__ == "__main__":
    logs.configure_logging(log_format="json")
    given = [Path(one) for one in sys.argv[3:]]
    run_process(lambda: serve(Path(sys.argv[1]), sys.argv[2], given[0] if given else None))
