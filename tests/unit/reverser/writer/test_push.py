"""Pushes hold only deletions that the brake has checked, and files that were compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from stoker.domain.git_objects import blob_of
from stoker.domain.refs import RepoUrl
from stoker.git.commit.branch import RemoteBranch
from stoker.git.process.runner import GitRunner
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.render import render_object
from stoker.reverser.metrics import ReverserMetrics
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.watch.watch_set import WatchSet
from stoker.reverser.writer.commit_message import CommitOrigin
from stoker.reverser.writer.context import WriterContext
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.reverser.writer.push import CommitPusher
from stoker.reverser.writer.resync import OutboxResync
from stoker.telemetry.metrics import Metrics
from stoker_testkit.manual_clock import ManualClock

PLACE = BranchKey("git.example.com/a", "main")
WATCHED = WatchedKind(ApiResource("", "v1", "configmaps", "ConfigMap", namespaced=True))
CLOCK = ManualClock()
TOOLS = WriterContext(
    cast("KubeClient", None),
    cast("GitRunner", None),
    Path(),
    "system",
    CommitOrigin("uid", "system", "gitops-reverser", "pod-0"),
    lambda _, __: None,
    lambda _: None,
    cast("WatchSet", None),
    ReverserMetrics(Metrics("test")),
    lambda: None,
)


def key(number: int) -> ManifestKey:
    return ManifestKey("", "v1", "configmaps", "shop", f"m{number}")


def content(number: int) -> bytes:
    metadata = {"name": f"m{number}", "namespace": "shop"}
    return render_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def commented(number: int) -> bytes:
    return b"# by a person\n" + content(number)


def outbox(*files: bytes) -> DestinationOutbox:
    url = RepoUrl("https://git.example.com/a")
    to = WritableDestination(DestinationRef("s", "d"), "uid", RepoConfigRef("s", "r"), url, PLACE, "base")
    box = DestinationOutbox(to, CLOCK, wake=lambda: None)
    box.open({box.path_of(key(number)): blob_of(file) for number, file in enumerate(files)}, 40)
    return box


def put(box: DestinationOutbox, number: int) -> None:
    written = content(number)
    box.put(key(number), box.path_of(key(number)), written, blob_of(written), WATCHED, None)


class ChangingBranch:
    """A branch of these files; objects change while it is read."""

    def __init__(self, box: DestinationOutbox, files: Sequence[bytes], *later: int) -> None:
        self._box = box
        self._files = {box.path_of(key(number)): file for number, file in enumerate(files)}
        self._later = list(later)

    async def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        if self._later:
            put(self._box, self._later.pop())
        return {path: self._files[path] for path in paths}


def test_deletions_that_come_in_after_the_last_check_are_held_all_the_same() -> None:
    box = outbox(*(b"%d" % number for number in range(60)))
    box.check_deletions()
    for number in range(51):  # while a file of another destination is read
        box.drop(key(number), box.path_of(key(number)), None)
    box.hurry()
    delivery = CommitPusher(PLACE, TOOLS, CLOCK)
    delivery.take(box)
    assert not delivery
    assert box.brake.plan is not None
    assert box.brake.plan.files == 51


async def test_what_comes_in_while_files_are_compared_is_compared_before_it_is_written() -> None:
    files = [commented(number) for number in range(3)]
    box = outbox(*files)
    put(box, 0)
    box.hurry()
    await OutboxResync(TOOLS, CLOCK).leave_equal(cast("RemoteBranch", ChangingBranch(box, files, 1, 2)), box)
    delivery = CommitPusher(PLACE, TOOLS, CLOCK)
    delivery.take(box)
    assert not delivery.paths, "the comments stay"


async def test_what_was_not_compared_waits_also_when_deletions_are_released() -> None:
    files = [commented(0), b"written: by a person"]
    box = outbox(*files)
    put(box, 0)
    put(box, 1)
    box.hurry()
    delivery = CommitPusher(PLACE, TOOLS, CLOCK)
    delivery.take(box)
    assert not delivery
    assert box.due_at() == 0.0, "it is compared at once"
    await OutboxResync(TOOLS, CLOCK).leave_equal(cast("RemoteBranch", ChangingBranch(box, files)), box)
    delivery.take(box)
    assert delivery.paths == {box.path_of(key(1))}
