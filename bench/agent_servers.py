"""The servers around an agent, each in a process of its own and with a watch in its hand.

    python bench/agent_servers.py git FOLDER               serves the repositories in it
    python bench/agent_servers.py gateway DATA_DIR PORT    the test gateway of a data folder

The first line of output is the address; from then on each request is a line of JSON: what
it was, when it came and when it was answered, by the wall clock, as files have it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from aiohttp import web

from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.repositories.git_http_server import GitHttpServer

SCANNED = "scanned"
"""A line of the gateway's own: it has read its files, as a scan asked it to."""


def say(what: str, begun: float) -> None:
    sys.stdout.write(json.dumps({"what": what, "begun": begun, "ended": time.time()}) + "\n")
    sys.stdout.flush()


class TimedGit(GitHttpServer):
    """The git server that tells when it was asked for what."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        begun = time.time()
        try:
            return await super()._answer(request)
        finally:
            say(f"{request.method} {request.path}", begun)


class TimedGateway(SimulatedGateway):
    """The test gateway that does; a request counts from the moment before its answer leaves."""

    async def _record(self, request: web.Request, response: web.StreamResponse) -> None:
        await super()._record(request, response)
        say(f"{request.method} {request.path}", time.time())


async def _scanned() -> None:
    say(SCANNED, time.time())
    await asyncio.sleep(0)


def _served(kind: str, folder: Path, *port: str) -> AbstractContextManager[object]:
    if kind == "git":
        git = TimedGit.start(folder)
        print(git.url("").rstrip("/"), flush=True)
        return git
    gateway = TimedGateway.start(folder, port=int(port[0]))
    gateway.after_scan(_scanned)
    print(gateway.url, flush=True)
    return gateway


if __name__ == "__main__":
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with _served(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]):
        signal.sigwait(ends)
