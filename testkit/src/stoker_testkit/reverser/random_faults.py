"""Random faults of two reversers while users make changes: networks, kills, pauses, in any order.

Every fault is drawn by chance and recorded, so that a failed run can be read. None of
them is the end: a replica that was killed is started again, perhaps to be killed, or to
stand still for longer than its Leases live, at the next failpoint it comes to; a network
that is silent speaks again.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from stoker.domain import failpoints
from stoker_testkit.faults.http_fault_proxy import AnsweredFault
from stoker_testkit.faults.stream_faults import Direction, Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.reverser.replicas import SIZE, ReplicaFleet

LONGER_THAN_A_LEASE = 3.0
FAILPOINTS = (*failpoints.REVERSING, *failpoints.WRITING, *failpoints.CACHE)
WATCHES = r"watch=true"
LISTS = r"limit="


def status(code: int, reason: str) -> bytes:
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps(document).encode()


class RandomFaults:
    """Draws mishaps, and keeps up to date who is standing still until when."""

    def __init__(self, chance: random.Random, fleet: ReplicaFleet, git: FaultProxy) -> None:
        self.recorded: list[str] = []
        self.counts: Counter[str] = Counter()
        self._chance = chance
        self._fleet = fleet
        self._git = git
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._pauses = fleet.pauses
        self._began = time.monotonic()

    def inject_fault(self) -> None:
        """One mishap."""
        number = self._chance.randrange(SIZE)
        mishap = self._chance.choices(
            (
                self._kill,
                self._restart,
                self._freeze,
                self._reset,
                self._expire,
                self._break_the_list,
                self._fall_silent,
                self.cut_git,
                self._ask_another,
            ),
            (6, 1, 2, 3, 3, 2, 2, 3, 3),
        )[0]
        self.counts[mishap.__name__.strip("_")] += 1
        mishap(number)

    def do_due_work(self) -> None:
        """Do what is due: start what has died, end the faults whose time is over."""
        self._end_due_faults()
        self._pause(LONGER_THAN_A_LEASE)
        for number in range(SIZE):
            if not self._fleet.lives(number):
                self.counts["deaths"] += 1
                self._start(number, again=self._chance.random() < 0.3)

    def end_faults(self) -> None:
        """End all faults; a replica that dies at a failpoint that is still armed is started."""
        for _, fix in self._later:
            fix()
        self._later = []
        self._git.lift()
        for network in self._fleet.networks:
            network.fix()
        self.record("faults end")

    def check_replicas(self) -> None:
        """Keep the fleet alive."""
        self._end_due_faults()
        self._pause(0.0)
        for number in range(SIZE):
            if not self._fleet.lives(number):
                self.counts["deaths"] += 1
                self._start(number)

    def _end_due_faults(self) -> None:
        now = time.monotonic()
        due = [each for each in self._later if each[0] <= now]
        self._later = [each for each in self._later if each[0] > now]
        for _, fix in due:
            fix()

    def _pause(self, seconds: float) -> None:
        """A replica that has reached its failpoint goes on after so many seconds."""
        for file, number in list(self._pauses.items()):
            if file.exists():
                del self._pauses[file]
                self._fleet.ask(1 - number)
                self.counts["pauses"] += 1
                self.record(f"replica {number} is paused at its failpoint for {seconds} s")
                if seconds:
                    self._after(seconds, partial(file.unlink, missing_ok=True))
                else:
                    file.unlink()

    def _start(self, number: int, *, again: bool = False) -> None:
        failures = []
        if again:
            failures = [f"{self._chance.choice(FAILPOINTS)}:{self._chance.choice((1, 1, 2, 3))}"]
            if self._chance.random() < 0.4:
                file = self._fleet.folder / f"pause-{self._fleet.starts}"
                self._pauses[file] = number
                failures[0] += f"=pause@{file}"
        self._fleet.start(number, failures)
        self.record(f"replica {number} starts" + (f", to fail at {failures[0]}" if failures else ""))

    def _kill(self, number: int) -> None:
        """On the spot, and it comes back to die or to stand still at a failpoint."""
        replica = self._fleet.replicas[number]
        if replica is not None:
            replica.kill()
        self.record(f"replica {number} is killed")
        self._start(number, again=True)

    def _restart(self, number: int) -> None:
        replica = self._fleet.replicas[number]
        if replica is not None:
            willing = replica.stop()
            self.record(f"replica {number} gets SIGTERM" + ("" if willing else ", and killed after that"))
        self._start(number)

    def _freeze(self, number: int) -> None:
        """Pause it, perhaps for longer than its Leases live, and let it go on."""
        replica = self._fleet.replicas[number]
        if replica is None:
            return
        seconds = self._chance.choice((0.3, 1.0, 2.5))
        self._fleet.ask(1 - number)
        replica.freeze()
        self._after(seconds, replica.thaw)
        self.record(f"replica {number} is paused for {seconds} s")

    def _reset(self, number: int) -> None:
        self._fleet.networks[number].reset()
        self.record(f"connections of replica {number} are cut")

    def _expire(self, number: int) -> None:
        """The last version of the replica is too old for the server."""
        network = self._fleet.networks[number]
        answer = AnsweredFault(410, status(410, "Expired"))
        if self._chance.random() < 0.5:
            answer = AnsweredFault(200, b'{"type":"ERROR","object":%s}\n' % status(410, "Expired"))
        network.inner.arm(answer, WATCHES, times=self._chance.choice((1, 2, 4)))
        network.go_through_answers()
        self._after(0.6, network.fix)
        self.record(f"versions that replica {number} knows are expired")

    def _break_the_list(self, number: int) -> None:
        network = self._fleet.networks[number]
        network.inner.arm(AnsweredFault(410, status(410, "Expired")), WATCHES, times=2)
        network.inner.arm(AnsweredFault(500, status(500, "InternalError")), LISTS, times=2)
        network.go_through_answers()
        self._after(0.6, network.fix)
        self.record(f"lists of replica {number} fail after an expired version")

    def _fall_silent(self, number: int) -> None:
        """Nothing comes through, perhaps for longer than Leases live; git can still be reached."""
        network = self._fleet.networks[number]
        seconds = self._chance.choice((0.3, 2.5))
        direction = self._chance.choice((Direction.TO_CLIENT, Direction.TO_SERVER))
        stall = Fault(FaultKind.STALL, direction)
        network.outer.inject(stall)
        network.outer.arm(stall, None)
        self._after(seconds, network.fix)
        self.record(f"the network of replica {number} is silent for {seconds} s, {direction}")

    def cut_git(self, _: int = 0) -> None:
        """A request to the git server breaks off somewhere; whether a push arrived is then unknown."""
        direction = self._chance.choice((Direction.TO_CLIENT, Direction.TO_SERVER))
        after = self._chance.choice((0, 200, 1000, 3000))
        self._git.arm(Fault(FaultKind.RESET, direction, after), self._chance.choice((1, 2)))
        self.record(f"a connection to git is cut {direction} after {after} bytes")

    def _ask_another(self, number: int) -> None:
        self._fleet.ask(number)
        self.record(f"replica {number} is asked about authors")

    def _after(self, seconds: float, fix: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, fix))

    def record(self, what: str) -> None:
        self.recorded.append(f"{time.monotonic() - self._began:.2f} s: {what}")
