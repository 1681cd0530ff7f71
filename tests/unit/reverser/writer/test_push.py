"""What becomes commits: only deletions that the brake was asked about, and files that were compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from stoker.domain.git_objects import blob_of
from stoker.domain.refs import RepoUrl
from stoker.git.commit.branch import Branch
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import Client
from stoker.kube.client.resources import Resource
from stoker.reverser.destinations import ConfigRef, Destination, Place
from stoker.reverser.manifest.path import ObjectKey
from stoker.reverser.manifest.render import rendered
from stoker.reverser.metrics import Meter
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import Watched
from stoker.reverser.watch.watch_set import Watches
from stoker.reverser.writer.commit_message import Origin
from stoker.reverser.writer.context import Tools
from stoker.reverser.writer.outbox import Outbox
from stoker.reverser.writer.push import Delivery
from stoker.reverser.writer.resync import Opener
from stoker.telemetry.metrics import Metrics
from stoker_testkit.manual_clock import ManualClock

PLACE = Place("git.example.com/a", "main")
WATCHED = Watched(Resource("", "v1", "configmaps", "ConfigMap", namespaced=True))
CLOCK = ManualClock()
TOOLS = Tools(
    cast("Client", None),
    cast("GitRunner", None),
    Path(),
    "system",
    Origin("uid", "system", "gitops-reverser", "pod-0"),
    lambda _, __: None,
    lambda _: None,
    cast("Watches", None),
    Meter(Metrics("test")),
    lambda: None,
)


def key(number: int) -> ObjectKey:
    return ObjectKey("", "v1", "configmaps", "shop", f"m{number}")


def content(number: int) -> bytes:
    metadata = {"name": f"m{number}", "namespace": "shop"}
    return rendered({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def commented(number: int) -> bytes:
    return b"# by a person\n" + content(number)


def outbox(*files: bytes) -> Outbox:
    url = RepoUrl("https://git.example.com/a")
    to = Destination(DestinationRef("s", "d"), "uid", ConfigRef("s", "r"), url, PLACE, "base")
    box = Outbox(to, CLOCK, wake=lambda: None)
    box.open({box.path_of(key(number)): blob_of(file) for number, file in enumerate(files)}, 40)
    return box


def put(box: Outbox, number: int) -> None:
    written = content(number)
    box.put(key(number), box.path_of(key(number)), written, blob_of(written), WATCHED, None)


class ChangingBranch:
    """A branch of these files; objects change while it is read."""

    def __init__(self, box: Outbox, files: Sequence[bytes], *later: int) -> None:
        self._box = box
        self._files = {box.path_of(key(number)): file for number, file in enumerate(files)}
        self._later = list(later)

    async def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        if self._later:
            put(self._box, self._later.pop())
        return {path: self._files[path] for path in paths}


def test_deletions_that_come_in_after_the_last_look_are_held_all_the_same() -> None:
    box = outbox(*(b"%d" % number for number in range(60)))
    box.check_deletions()
    for number in range(51):  # while a file of another destination is read
        box.drop(key(number), box.path_of(key(number)), None)
    box.hurry()
    delivery = Delivery(PLACE, TOOLS, CLOCK)
    delivery.take(box)
    assert not delivery
    assert box.brake.plan is not None
    assert box.brake.plan.files == 51


async def test_what_comes_in_while_files_are_compared_is_compared_before_it_is_written() -> None:
    files = [commented(number) for number in range(3)]
    box = outbox(*files)
    put(box, 0)
    box.hurry()
    await Opener(TOOLS, CLOCK).leave_equal(cast("Branch", ChangingBranch(box, files, 1, 2)), box)
    delivery = Delivery(PLACE, TOOLS, CLOCK)
    delivery.take(box)
    assert not delivery.paths, "the comments stay"


async def test_what_was_not_compared_waits_also_when_deletions_are_released() -> None:
    files = [commented(0), b"written: by a person"]
    box = outbox(*files)
    put(box, 0)
    put(box, 1)
    box.hurry()
    delivery = Delivery(PLACE, TOOLS, CLOCK)
    delivery.take(box)
    assert not delivery
    assert box.due_at() == 0.0, "it is compared at once"
    await Opener(TOOLS, CLOCK).leave_equal(cast("Branch", ChangingBranch(box, files)), box)
    delivery.take(box)
    assert delivery.paths == {box.path_of(key(1))}
