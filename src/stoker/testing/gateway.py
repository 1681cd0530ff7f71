"""A gateway to test against: Ignition's API over a data folder, in a thread or as a process.

No real gateway can be had in a test, so this one behaves as users and the vendor's
papers say the real one does, where it hurts first of all (`gateway_api`,
`gateway_mind`, `gateway_loading`). It keeps every request on record, and with
`observe` a witness reads all resources all the time (`gateway_observing`).

    python -m stoker.testing.gateway --data-dir DIR --port 0 --key-file FILE

starts one for people; the first line that it prints is its address.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aiohttp import web

from stoker.testing.certificates import KeyPair
from stoker.testing.gateway_api import HEADER, KEY_NAME, ApiKey, GatewayApi, Settings
from stoker.testing.gateway_mind import Designer, GatewayMind, Kind, State
from stoker.testing.gateway_observing import Observer
from stoker.testing.loop_thread import SHUTDOWN_SECONDS, LoopThread, stop_accepting
from stoker.testing.stopping import Stopped

SCAN_SECONDS = 0.05
KEY = "stoker:testing-secret"
"""The key that opens a gateway which was started without others."""


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """One request as the gateway saw it; of the key only the name."""

    method: str
    path: str
    key: str | None
    status: int
    authorization: bool
    """It brought a header that a gateway does not look at."""


class SimulatedGateway(Stopped):
    """Serves `data_dir`; its settings, state and designers can be changed while it runs."""

    def __init__(
        self, data_dir: Path, settings: Settings, *, scan_seconds: float, runs_as: int, observe: bool
    ) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.requests: list[GatewayRequest] = []
        self.url = ""
        self.observed = Observer(data_dir)
        self._observe = observe
        self._mind = GatewayMind(data_dir, scan_seconds=scan_seconds, runs_as=runs_as)
        self._loop = LoopThread("test-gateway")
        self._runner: web.AppRunner
        self._listener: socket.socket

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        settings: Settings | None = None,
        port: int = 0,
        tls: KeyPair | None = None,
        scan_seconds: float = SCAN_SECONDS,
        runs_as: int | None = None,
        observe: bool = False,
    ) -> Self:
        """Start one on 127.0.0.1 and let it read its folder; `KEY` opens it unless other keys are given.

        `runs_as` is the user that it takes itself for when it looks whether it may write its files.
        """
        data_dir.mkdir(parents=True, exist_ok=True)
        settings = settings or Settings()
        if not settings.keys:
            name, _, secret = KEY.partition(":")
            settings.keys[name] = ApiKey(secret)
        uid = os.geteuid() if runs_as is None else runs_as
        gateway = cls(data_dir, settings, scan_seconds=scan_seconds, runs_as=uid, observe=observe)
        gateway._loop.run(gateway._listen(port, tls))
        gateway.restart()
        if observe:
            gateway.observed.start()
        return gateway

    @property
    def state(self) -> State:
        return self._mind.state

    @state.setter
    def state(self, state: State) -> None:
        self._loop.call(setattr, self._mind, "state", state)

    @property
    def projects(self) -> Mapping[str, Mapping[str, str]]:
        """What the last scan published: the digest of each resource, by project."""
        return {
            name: {path: resource.digest for path, resource in project.resources.items()}
            for name, project in self._mind.projects.items()
        }

    @property
    def scans_done(self) -> int:
        return self._mind.scans_done

    def stale(self) -> list[str]:
        """Resources that a scan read half-written and that are whole by now: what must never happen."""
        return self._loop.call(self._mind.stale)

    def restart(self, seconds: float = 0.0) -> None:
        """Start again; what was read badly is forgotten. Returns when it runs, or has faulted."""
        self._loop.run(self._mind.boot(seconds))

    def ask_for_scan(self, kind: Kind) -> None:
        """Scan for a reason of its own, whoever holds the lock."""
        self._loop.call(self._mind.ask_for_scan, kind)

    def open_designer(self, designer: Designer) -> None:
        self._loop.call(self._mind.designers.__setitem__, designer.id, designer)

    def saving(self, kind: Kind, *, busy: bool) -> None:
        """Be, or be no more, in the middle of a change of its own, for which a lock has to wait."""
        self._loop.call(setattr, self._mind.kinds[kind], "saving", busy)

    def save(self, path: str, content: bytes) -> bool:
        """A Designer's save; whether it was written at once and not queued behind the lock."""
        return self._loop.call(self._mind.save, path, content)

    def locked(self, kind: Kind) -> bool:
        return self._loop.call(self._mind.locked, kind)

    def asked(self, method: str, path: str) -> list[GatewayRequest]:
        """The requests so far to a path that ends so."""
        return [one for one in self.requests if one.method == method and one.path.endswith(path)]

    def stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()
        if self._observe:
            self.observed.stop()

    async def _listen(self, port: int, tls: KeyPair | None) -> None:
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.certificate, tls.key)
        app = GatewayApi(self._mind, self.settings).application()
        app.on_response_prepare.append(self._record)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", port))
        await web.SockSite(self._runner, self._listener, ssl_context=context).start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    async def _close(self) -> None:
        await stop_accepting(self._listener)
        await self._runner.cleanup()

    async def _record(self, request: web.Request, response: web.StreamResponse) -> None:
        """Runs before the answer's first byte leaves, so whoever has the answer finds it on record."""
        foreign = "Authorization" in request.headers and HEADER not in request.headers
        seen = GatewayRequest(request.method, request.path, request.get(KEY_NAME), response.status, foreign)
        self.requests.append(seen)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stoker.testing.gateway", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that it reads")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--key-file", type=Path, help="holds the key that opens it, as name:secret")
    parser.add_argument("--name", default="gateway", help="what it calls itself")
    parser.add_argument("--scan-seconds", type=float, default=SCAN_SECONDS, help="how long after the request")
    given = parser.parse_args()
    name, _, secret = (given.key_file.read_text().strip() if given.key_file else KEY).partition(":")
    settings = Settings(name=given.name, keys={name: ApiKey(secret)})
    # Before any thread is started, so that no thread but this one can be given the signal.
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with SimulatedGateway.start(
        given.data_dir, settings=settings, port=given.port, scan_seconds=given.scan_seconds
    ) as gateway:
        sys.stdout.write(f"{gateway.url}\n")
        sys.stdout.flush()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
