"""A simulated gateway: Ignition's API over a data folder, in a thread or as a process.

Tests have no real gateway, so this one behaves as users and the vendor's documentation say that the real
one does, above all in what can break a sync (`rest_api`, `runtime`, `scan_loader`). It records every request
and every resource that it ever read wrong (`scan_recorder`), and with `observe` a second reader reads all
resources all the time. Tests in other processes control it over HTTP (`control_routes`).

    python -m stoker_testkit.gateway.simulated_gateway --data-dir DIR --port 0 --key-file FILE

starts one from the command line, as `stoker testing gateway` does; the first line of its output is its
address.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Self

from aiohttp import web

from stoker_testkit.certificates import KeyPair
from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.gateway.rest_api.application import application
from stoker_testkit.gateway.rest_api.control_routes import PREFIX
from stoker_testkit.gateway.rest_api.request_log import GatewayRequest, recorded
from stoker_testkit.gateway.runtime import GatewayRuntime, State
from stoker_testkit.gateway.scan_lock import ScanLockKind
from stoker_testkit.gateway.sessions import Designer, PerspectiveBrowser, SessionMessage
from stoker_testkit.gateway.settings import ApiKey, GatewaySettings
from stoker_testkit.gateway.torn_reads.observations import ObservationLog
from stoker_testkit.gateway.torn_reads.polling_reader import PollingReader
from stoker_testkit.gateway.torn_reads.scan_recorder import TornRead
from stoker_testkit.http_listener import WebListener
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.stoppable import Stoppable

SCAN_SECONDS = 0.05
SECRET = planted("gateway-key")
KEY = f"stoker:{SECRET}"
"""The key that opens a gateway which was started without others."""


class SimulatedGateway(Stoppable):
    """Serves `data_dir`; its settings, state and sessions can be changed while it runs."""

    def __init__(
        self,
        data_dir: Path,
        settings: GatewaySettings,
        *,
        scan_seconds: float,
        runs_as: int,
        observe: bool,
        commissions: bool,
    ) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.requests: list[GatewayRequest] = []
        self.url = ""
        self.observed = PollingReader(data_dir)
        self._observe = observe
        self._runtime = GatewayRuntime(
            data_dir, settings, scan_seconds=scan_seconds, runs_as=runs_as, commissions=commissions
        )
        self._loop = LoopThread("test-gateway")
        self._listener = WebListener()
        self._port = 0
        self._tls: KeyPair | None = None

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        settings: GatewaySettings | None = None,
        port: int = 0,
        tls: KeyPair | None = None,
        scan_seconds: float = SCAN_SECONDS,
        runs_as: int | None = None,
        observe: bool = False,
        commissions: bool = False,
        slow_start: float = 0.0,
    ) -> Self:
        """Start one on 127.0.0.1 and let it read its folder; `KEY` opens it unless other keys are given.

        `runs_as` is the user that it takes itself for when it looks whether it may write its files.
        With `commissions` its first start on a folder makes the files that are a gateway's own. With
        `slow_start` it answers at once and is STARTING for so many seconds; else this returns when it
        runs, or has faulted.
        """
        data_dir.mkdir(parents=True, exist_ok=True)
        settings = settings or GatewaySettings()
        if not settings.keys:
            name, _, secret = KEY.partition(":")
            settings.keys[name] = ApiKey(secret)
        uid = os.geteuid() if runs_as is None else runs_as
        gateway = cls(
            data_dir,
            settings,
            scan_seconds=scan_seconds,
            runs_as=uid,
            observe=observe,
            commissions=commissions,
        )
        gateway._port, gateway._tls = port, tls
        gateway.come_up(slow_start)
        if observe:
            gateway.observed.start()
        return gateway

    @property
    def state(self) -> State:
        return self._runtime.state

    @state.setter
    def state(self, state: State) -> None:
        self._loop.call(setattr, self._runtime, "state", state)

    @property
    def faults(self) -> list[str]:
        """Why it faulted: the files that it cannot write."""
        return self._runtime.faults

    @property
    def active(self) -> bool:
        """Of a redundant pair, whether it is the one that works."""
        return self._runtime.active

    @active.setter
    def active(self, active: bool) -> None:
        self._loop.call(setattr, self._runtime, "active", active)

    @property
    def projects(self) -> Mapping[str, Mapping[str, str]]:
        """The result of the last scan: the digest of each resource, by project."""
        return {
            name: {path: resource.digest for path, resource in project.resources.items()}
            for name, project in self._runtime.projects.items()
        }

    @property
    def config(self) -> Mapping[str, str]:
        """The same of the configuration: the digest of each resource, its collection first."""
        return {path: resource.digest for path, resource in self._runtime.config.items()}

    @property
    def scans_done(self) -> int:
        return self._runtime.scans_done

    @property
    def random_scans(self) -> int:
        """The number of scans by `scan_at_random`."""
        return self._runtime.random_scans

    @property
    def scanned(self) -> ObservationLog:
        """Observations of its scans, one each time that a resource looked different."""
        return self._runtime.witness

    @property
    def messages(self) -> list[SessionMessage]:
        """The messages in Perspective sessions."""
        return list(self._runtime.sessions.messages)

    def stale(self) -> list[str]:
        """Resources that any scan ever read wrong (`scan_recorder`): what must never happen."""
        return self._loop.run(self._runtime.stale())

    def mishaps(self) -> list[TornRead]:
        """The same with what was wrong."""
        self.stale()
        return list(self._runtime.witness.mishaps)

    def poisoned(self) -> list[str]:
        """Resources that it holds wrong now, until their `resource.json` changes or it is restarted."""
        return self._loop.call(self._runtime.poisoned)

    def restart(self, seconds: float = 0.0) -> None:
        """Start again; what was read badly is held no more. Returns when it runs, or has faulted."""
        self._loop.run(self._runtime.boot(seconds))

    def ask_for_scan(self, kind: ScanLockKind) -> None:
        """Scan for a reason of its own, even while a client holds the lock; the lock stays."""
        self._loop.call(self._runtime.ask_for_scan, kind, releases=False)

    def scan_at_random(self, rate: float, seed: int | None = None) -> None:
        """Look at everything `rate` times a second on average, at any moment; 0 ends it."""
        self._loop.call(self._runtime.scan_at_random, rate, seed)

    def load(self) -> None:
        """Load what is in its folder now, as a backup does after its master sent it."""
        for kind in ScanLockKind:
            self._loop.run(self._runtime.load(kind, rewrites=False))

    def after_scan(self, work: Callable[[], Awaitable[None]] | None) -> None:
        """Have this awaited after each scan that was asked for, in the gateway's own loop."""
        self._loop.call(setattr, self._runtime, "after_scan", work)

    def open_designer(self, designer: Designer) -> None:
        self._loop.call(self._runtime.sessions.open_designer, designer)

    def close_designer(self, session: str) -> None:
        self._loop.call(self._runtime.sessions.end_designer, session)

    def open_session(self, browser: PerspectiveBrowser) -> None:
        """A user opens a project in a browser."""
        self._loop.call(self._runtime.sessions.open_browser, browser)

    @property
    def sessions(self) -> list[str]:
        """The ids of the Perspective sessions that are open."""
        return self._loop.call(lambda: list(self._runtime.sessions.browsers))

    def needs_restart(self, *tasks: str) -> None:
        """Set the tasks in `restart-tasks/pending` until the next restart."""
        self._loop.call(setattr, self._runtime, "pending", list(tasks))

    def saving(self, kind: ScanLockKind, *, busy: bool) -> None:
        """Be, or be no more, in the middle of a change of its own, for which a lock has to wait."""
        self._loop.call(setattr, self._runtime.kinds[kind], "saving", busy)

    def save(self, path: str, content: bytes) -> bool:
        """A Designer's save; whether it was written at once and not queued behind the lock."""
        return self._loop.call(self._runtime.save, path, content)

    def locked(self, kind: ScanLockKind) -> bool:
        return self._loop.call(self._runtime.kinds[kind].locked)

    def asked(self, method: str, path: str) -> list[GatewayRequest]:
        """The requests so far to a path that ends so."""
        return [one for one in self.requests if one.method == method and one.path.endswith(path)]

    def go_down(self) -> None:
        """Be switched off: its address refuses connections."""
        self._loop.run(self._close())

    def come_up(self, slow_start: float = 0.0) -> None:
        """Be switched on, at the same address as before."""
        self._loop.run(self._listen())
        if slow_start:
            self._loop.call(self._runtime.restart, slow_start)
        else:
            self.restart()

    def stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()
        if self._observe:
            self.observed.stop()

    async def _listen(self) -> None:
        app = application(self._runtime, self.settings, self.requests)
        app.on_response_prepare.append(self._record)
        self.url = await self._listener.open(app, self._tls, self._port)
        self._port = self._listener.port

    async def _close(self) -> None:
        if await self._listener.close():
            self._runtime.state = State.STARTING

    async def _record(self, request: web.Request, response: web.StreamResponse) -> None:
        """Runs before the answer's first byte leaves, so a client that has the answer finds it on record."""
        if not request.path.startswith(PREFIX):
            self.requests.append(recorded(request, response))


if __name__ == "__main__":
    from stoker_testkit.gateway.command import gateway_command

    sys.exit(gateway_command(prog_name="python -m stoker_testkit.gateway.simulated_gateway"))
