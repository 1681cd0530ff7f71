"""Laws of list and watch: whatever breaks on the way, the store ends as the cluster is, and in order.

A model of the API server keeps a history with revisions and a point before which
it has forgotten. Random histories run against the protocol while the way between
them fails at random: streams break, lines are cut off or come twice, versions
expire as an answer and as a line, lists break off between pages, errors come in
the stream. What is delivered is applied to a mirror, which checks every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import StokerError
from stoker.kube.client.errors import ApiServerUnreachable, Gone, ServerError
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.list_watch import ListAll, ListWatchState, WatchFrom
from stoker.kube.watch.store import ObjectCache, ObjectChange, ObjectKey

NAMES = ["a", "b", "c", "d"]
PAGE = 2


@dataclass(frozen=True)
class Event:
    revision: int
    kind: str
    name: str
    uid: str


@dataclass
class Server:
    """Objects, their history, and what of it is still remembered."""

    opaque: bool
    revision: int = 1
    compacted: int = 0
    objects: dict[str, Event] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)

    def write(self, name: str) -> None:
        """Create the object, or update it if it is there."""
        self.revision += 1
        known = self.objects.get(name)
        kind, uid = ("MODIFIED", known.uid) if known else ("ADDED", f"{name}{self.revision}")
        self.objects[name] = Event(self.revision, kind, name, uid)
        self.history.append(self.objects[name])

    def delete(self, name: str) -> None:
        if name in self.objects:
            self.revision += 1
            self.history.append(Event(self.revision, "DELETED", name, self.objects.pop(name).uid))

    def version(self, revision: int) -> str:
        return f"v{revision * 7919 % 104729}" if self.opaque else str(revision)

    def revision_of(self, version: str) -> int:
        return next(number for number in range(self.revision, -1, -1) if self.version(number) == version)

    def raw(self, event: Event) -> bytes:
        metadata = {"name": event.name, "uid": event.uid, "resourceVersion": self.version(event.revision)}
        return msgspec.json.encode({"metadata": metadata})

    def line(self, event: Event) -> bytes:
        return b'{"type":"%s","object":%s}' % (event.kind.encode(), self.raw(event))

    def bookmark(self, revision: int) -> bytes:
        return self.line(Event(revision, "BOOKMARK", "", ""))


class Ending(Enum):
    """How a list or a stream ends."""

    WELL = auto()
    RESET = auto()
    CUT_OFF = auto()
    ERROR_500 = auto()
    ERROR_429 = auto()
    GONE = auto()
    SILENT = auto()


class Noise(Enum):
    """The separator of two lines of a stream."""

    NOTHING = auto()
    BOOKMARK = auto()
    LAST_LINE_AGAIN = auto()
    OLD_LINE_AGAIN = auto()


@dataclass(frozen=True)
class Write:
    name: str


@dataclass(frozen=True)
class Delete:
    name: str


@dataclass(frozen=True)
class Compact:
    pass


@dataclass(frozen=True)
class Turn:
    """The client does one step and gets so far; `as_line` tells whether a 410 comes in the stream."""

    reach: int
    noise: tuple[Noise, ...]
    ending: Ending
    as_line: bool
    meanwhile: str | None


Action = Write | Delete | Compact | Turn
names = st.sampled_from(NAMES)
turns = st.builds(
    Turn,
    reach=st.integers(0, 5),
    noise=st.lists(st.sampled_from(Noise), max_size=5).map(tuple),
    ending=st.sampled_from(Ending),
    as_line=st.booleans(),
    meanwhile=st.none() | names,
)
actions = st.lists(
    st.one_of(st.builds(Write, names), st.builds(Delete, names), st.builds(Compact), turns), max_size=60
)


class Mirror:
    """The state of a client that has only the changes; refuses any that is out of order."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.objects: dict[str, tuple[str, str]] = {}
        self._latest: dict[str, int] = {}
        self._dead: set[str] = set()

    def apply(self, changes: Iterable[ObjectChange[str]]) -> None:
        for change in changes:
            name, uid, revision = (
                change.key.name,
                change.uid,
                self._server.revision_of(change.resource_version),
            )
            assert uid not in self._dead, f"{change} comes after the end of {uid}"
            assert revision > self._latest.get(uid, 0), f"{change} is out of order"
            self._latest[uid] = revision
            before = self.objects.get(name)
            assert change.added == (before is None), f"{change} does not follow {before}"
            assert before is None or before[0] == uid, f"{change} is about another object than {before}"
            if change.deleted:
                self._dead.add(uid)
                del self.objects[name]
            else:
                self.objects[name] = (uid, change.resource_version)


class WatchModel:
    """A server, a client, and the bad line between them."""

    def __init__(self, opaque: bool) -> None:
        self.server = Server(opaque)
        self.mirror = Mirror(self.server)
        self.store: ObjectCache[str] = ObjectCache(bytes.decode)
        self.machine = ListWatchState(
            self.store, backoff=Backoff(), slow_backoff=Backoff(), random=lambda: 0.5
        )

    def act(self, action: Action) -> None:
        match action:
            case Write(name):
                self.server.write(name)
            case Delete(name):
                self.server.delete(name)
            case Compact():
                self.server.compacted = self.server.revision
            case Turn():
                self.take(action)
        self.check_that_the_mirror_agrees()

    def take(self, turn: Turn) -> None:
        try:
            if isinstance(self.machine.step, ListAll):
                self.read_list(turn)
            else:
                self.watch(self.machine.step, turn)
        except StokerError as error:
            self.machine.failed(error)

    def read_list(self, turn: Turn) -> None:
        snapshot, version = list(self.server.objects.values()), self.server.version(self.server.revision)
        for number, start in enumerate(range(0, max(len(snapshot), 1), PAGE)):
            if turn.meanwhile is not None:
                self.server.write(turn.meanwhile)
            if turn.ending is not Ending.WELL and number == turn.reach % 2:
                raise (
                    Gone("expired", status=410)
                    if turn.ending is Ending.GONE
                    else ApiServerUnreachable("reset")
                )
            self.machine.page(self.server.raw(each) for each in snapshot[start : start + PAGE])
        self.mirror.apply(self.machine.listed(version))

    def watch(self, step: WatchFrom, turn: Turn) -> None:
        seen = self.server.revision_of(step.resource_version)
        if seen < self.server.compacted or turn.ending is Ending.GONE:
            if turn.as_line:
                self.hear(b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}')
            raise Gone("too old", status=410)
        events = [event for event in self.server.history if event.revision > seen]
        for number, event in enumerate(events[: turn.reach]):
            self.hear(self.server.line(event))
            self.disturb(turn.noise[number] if number < len(turn.noise) else Noise.NOTHING, event)
        self.end(turn, events[turn.reach :])

    def disturb(self, noise: Noise, event: Event) -> None:
        match noise:
            case Noise.BOOKMARK:
                self.hear(self.server.bookmark(event.revision))
            case Noise.LAST_LINE_AGAIN:
                self.hear(self.server.line(event))
            case Noise.OLD_LINE_AGAIN if not self.server.opaque:
                # Of versions that cannot be compared, an old one cannot be recognized.
                for old in self.server.history[:3]:
                    self.hear(self.server.line(old))

    def end(self, turn: Turn, unsent: list[Event]) -> None:
        match turn.ending:
            case Ending.RESET:
                raise ApiServerUnreachable("reset")
            case Ending.CUT_OFF:
                line = self.server.line(unsent[0]) if unsent else b'{"type":"BOOKMARK"}'
                self.hear(line[: len(line) * turn.reach // 6])
            case Ending.ERROR_500:
                self.hear(b'{"type":"ERROR","object":{"code":500}}')
            case Ending.ERROR_429:
                raise ServerError("busy", status=429, after=1.0)
            case Ending.SILENT:
                self.machine.silent()
            case _:
                self.machine.ended(lasted=1.0 * turn.reach)

    def hear(self, line: bytes) -> None:
        self.mirror.apply(self.machine.line(line))

    def settle(self) -> None:
        """Nothing fails any more: a handful of steps must do."""
        calm = Turn(reach=1000, noise=(), ending=Ending.WELL, as_line=False, meanwhile=None)
        for _ in range(3):
            self.take(calm)

    def check_that_the_mirror_agrees(self) -> None:
        stored = {key.name: entry for key in self.store if (entry := self.store.entry(key)) is not None}
        assert self.mirror.objects == {name: (e.uid, e.resource_version) for name, e in stored.items()}

    def check_that_the_store_is_right(self) -> None:
        expected = {
            ObjectKey("", name): self.server.raw(event).decode()
            for name, event in self.server.objects.items()
        }
        assert dict(self.store.items()) == expected


def check(history: list[Action], *, opaque: bool) -> None:
    model = WatchModel(opaque)
    for action in history:
        model.act(action)
    model.settle()
    model.check_that_the_mirror_agrees()
    model.check_that_the_store_is_right()


@given(actions)
def test_every_history_ends_with_the_right_store_and_in_order(history: list[Action]) -> None:
    check(history, opaque=False)


@given(actions)
def test_so_it_does_where_versions_cannot_be_compared(history: list[Action]) -> None:
    check(history, opaque=True)
