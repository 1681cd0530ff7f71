"""What `bench/kube.py` measures, each in a process of its own: `kube_cases.py NAME ARGUMENTS…`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from harness import measured, report

Go = Callable[[], None]

WATCHES = 300


def list_ours(go: Go, kubeconfig: str, namespace: str) -> float:
    """The list as a reflector takes it: the head of every object decoded, its bytes kept in a store."""
    from stoker.kube.client.client import KubeClient
    from stoker.kube.client.objects import ObjectHeader
    from stoker.kube.client.resources import CONFIG_MAPS, NAMESPACES
    from stoker.kube.config.config import load_config
    from stoker.kube.runtime.process import run_process
    from stoker.kube.watch.list_watch import ListWatchState
    from stoker.kube.watch.reflector import BACKOFF
    from stoker.kube.watch.store import ObjectCache

    store: ObjectCache[bytes] = ObjectCache(bytes)
    watching = ListWatchState(store, backoff=BACKOFF, slow_backoff=BACKOFF)

    async def main() -> None:
        async with KubeClient(load_config(Path(kubeconfig))) as client:
            await client.get(
                NAMESPACES, namespace, into=ObjectHeader
            )  # the connection stands, as for the other
            go()
            version = ""
            async for page in client.pages(CONFIG_MAPS, namespace):
                watching.page(page.items)
                version = page.resource_version
            watching.listed(version)

    run_process(main)
    return len(store)


def list_official(go: Go, kubeconfig: str, namespace: str) -> float:
    """The same list through the official client, in pages of the same size."""
    from kubernetes import client, config

    config.load_kube_config(kubeconfig)  # type: ignore[no-untyped-call]
    api = client.CoreV1Api()
    api.read_namespace(namespace)
    go()
    kept: list[object] = []
    token = None
    while True:
        page = api.list_namespaced_config_map(namespace, limit=500, _continue=token)
        kept.extend(page.items)
        token = page.metadata._continue if page.metadata else None
        if not token:
            return len(kept)


def list_bytes(go: Go, url: str, ca: str, token: str, namespace: str) -> float:
    """The same answer, read through a bare TLS socket into a buffer and not looked at: the floor."""
    import socket
    import ssl
    from urllib.parse import urlsplit

    at = urlsplit(url)
    assert at.hostname is not None
    plain = socket.create_connection((at.hostname, at.port or 443))
    stream = ssl.create_default_context(cafile=ca).wrap_socket(plain, server_hostname=at.hostname)
    head = f"Host: {at.hostname}\r\nAuthorization: Bearer {token}\r\n\r\n"
    ask = f"GET /api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\n{head}"
    buffer = memoryview(bytearray(1 << 20))
    total, end = 0, b""
    go()
    stream.sendall(ask.encode())
    while not end.endswith(b"\r\n0\r\n\r\n"):
        count = stream.recv_into(buffer)
        end = end[-16:] + bytes(buffer[max(0, count - 16) : count])
        total += count
    return total


def hold_watches(go: Go, kubeconfig: str, namespace: str) -> float:
    """Three hundred reflectors, each with its own watch, synced and idle."""
    from stoker.kube.client.client import KubeClient
    from stoker.kube.client.resources import CONFIG_MAPS
    from stoker.kube.config.config import load_config
    from stoker.kube.runtime.process import run_process
    from stoker.kube.watch.reflector import Reflector

    async def main() -> None:
        async with KubeClient(load_config(Path(kubeconfig))) as client:
            go()
            reflectors = [
                Reflector(client, CONFIG_MAPS, namespace=namespace, labels=f"share={n}", keep=len)
                for n in range(WATCHES)
            ]
            tasks = [asyncio.ensure_future(each.run()) for each in reflectors]
            for each in reflectors:
                await each.synced()
            await asyncio.sleep(5)  # all watches are open by then, and as large as they get while idle
            assert all(each.watches == 1 and each.health.error is None for each in reflectors)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_process(main)
    return WATCHES


def events_ours(go: Go, url: str, ca: str, expected: str) -> float:
    """Every event from the socket through reflector, store and queue to a worker."""
    from stoker.kube.client.client import KubeClient
    from stoker.kube.client.resources import CONFIG_MAPS
    from stoker.kube.config.config import ClusterConfig
    from stoker.kube.config.tls import ServerTrust
    from stoker.kube.runtime.process import run_process
    from stoker.kube.runtime.workqueue import WorkQueue
    from stoker.kube.watch.reflector import Reflector
    from stoker.kube.watch.store import ObjectChange, ObjectKey

    total = int(expected)
    seen = 0

    async def main() -> None:
        nonlocal seen
        queue: WorkQueue[ObjectKey] = WorkQueue()
        finished = asyncio.Event()

        def on_change(change: ObjectChange[int]) -> None:
            nonlocal seen
            seen += 1
            queue.add(change.key)
            if seen == total:
                finished.set()

        async def work() -> None:
            while True:
                key = await queue.get()
                queue.done(key)

        async with KubeClient(ClusterConfig(url, trust=ServerTrust(ca_file=Path(ca)))) as client:
            reflector = Reflector(client, CONFIG_MAPS, keep=len, on_change=on_change)
            worker = asyncio.ensure_future(work())
            go()
            task = asyncio.ensure_future(reflector.run())
            await finished.wait()
            for each in (task, worker):
                each.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await each

    run_process(main)
    return seen


def events_official(go: Go, url: str, ca: str, expected: str) -> float:
    """The same events through the official client's watch."""
    from kubernetes import client, watch

    settings = client.Configuration()
    settings.host = url
    settings.ssl_ca_cert = ca
    api = client.CoreV1Api(client.ApiClient(settings))
    seen = 0
    total = int(expected)
    stream = watch.Watch()  # type: ignore[no-untyped-call]
    go()
    listing = api.list_config_map_for_all_namespaces
    for _ in stream.stream(listing, resource_version="1"):  # type: ignore[no-untyped-call]
        seen += 1
        if seen == total:
            break
    return seen


SUBJECTS: dict[str, Callable[..., float]] = {
    "list-ours": list_ours,
    "list-official": list_official,
    "list-bytes": list_bytes,
    "hold-watches": hold_watches,
    "events-ours": events_ours,
    "events-official": events_official,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    report(measured(lambda go: SUBJECTS[name](go, *arguments)))
