"""The lookup of other shards: nothing is begun before it; it is repeated while the counts differ."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from stoker.controller.sharding.division import SHARDS, ShardDivision
from stoker.controller.sharding.peers import ShardPeers
from stoker.domain.shards import Shard
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

Json = dict[str, object]


def lease(index: int, holder: str, count: int, version: str) -> Json:
    metadata = {
        "name": f"stoker-controller-{index}",
        "resourceVersion": version,
        "annotations": {SHARDS: str(count)},
    }
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}


class Played:
    """An API server with the responses of the test, one for each lookup."""

    def __init__(self, *answers: list[Json] | int) -> None:
        self.answers = list(answers)
        self.looks = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.looks += 1
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, int):
            return web.json_response(
                {"kind": "Status", "message": 'User "stoker" cannot list leases'}, status=said
            )
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": said})


async def looked(played: Played, division: ShardDivision, begun: list[bool]) -> list[str | None]:
    """Until there is nothing more to look for; what was wrong in the meantime."""
    app = web.Application()
    app.router.add_get("/{path:.*}", played.answer)
    async with (
        TestServer(app) as server,
        KubeClient(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        clock = ManualClock()
        lookout = ShardPeers(client, "home", division, clock, lambda: begun.append(division.settled))
        task = asyncio.create_task(lookout.run())
        told: list[str | None] = []

        async def over() -> bool:
            await clock.advance(1)
            told.append(lookout.error.reason if lookout.error is not None else None)
            return division.settled

        await eventually_async(over, 20, "everybody divides alike")
        assert not task.done(), "the end of a part would end the whole process"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return list(dict.fromkeys(told))


async def test_where_all_divide_alike_one_look_is_enough() -> None:
    played, begun = Played([lease(1, "b", 2, "1"), lease(0, "a", 2, "2")]), list[bool]()
    assert await looked(played, ShardDivision(Shard(0, 2), None, 15), begun) == [None]
    assert (played.looks, begun) == (1, [True])


async def test_work_begins_with_the_first_look_and_again_with_each_shard_that_is_gone() -> None:
    old = [lease(0, "a", 2, "1"), lease(1, "b", 2, "2")]
    played = Played(old, old, [lease(0, "", 2, "3"), old[1]], [lease(0, "new", 3, "4"), lease(1, "", 2, "5")])
    begun: list[bool] = []
    await looked(played, ShardDivision(Shard(2, 3), None, 15), begun)
    assert (played.looks, begun) == (4, [False, False, True])


async def test_nothing_is_begun_while_leases_may_not_be_read_and_the_reason_is_available() -> None:
    played, begun = Played(403, 403, []), list[bool]()
    with capture_logs() as lines:
        told = await looked(played, ShardDivision(Shard(0, 1), None, 15), begun)
    assert told[-2:] == ["RBACDenied", None]
    assert begun == [True]
    assert [line["event"] for line in lines] == ["shards.unseen"], "logged once, and not at each lookup"
