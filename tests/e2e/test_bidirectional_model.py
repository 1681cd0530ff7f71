"""Random histories between a gateway and git: whatever happens, no edit is lost, and both sides converge.

Each seed is one history of one gateway: a designer edits, creates and deletes; others
push to the same and to other files; the real agent's code syncs and captures, the real
controller's code records on branches of a real repository; reviewers merge, squash, close
and push on; the forge is away; agents and controllers are cut off in the middle of
anything and begin again.

At every moment an edit is on the gateway, or is in a commit that was pushed, and no commit
leaves its branch unless a person takes it away. In the end,
when all requests are merged and all syncs done, gateway and git agree and nothing is
captured again.

`STOKER_SEEDS=120-129` plays those alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.bidirectional.types import OutboxAddress
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.policies import BidirectionalPolicy, ConflictStrategy
from stoker.domain.reasons import Reason
from stoker.fs.data_folder import DataFolder
from stoker.fs.watch.paths import ChangedPaths
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.source.git import GitSource
from stoker_testkit.environments.bidirectional_environment import (
    BRANCH,
    FOLDER,
    GATEWAY,
    InProcessController,
    working,
)
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository

SEEDS = 1000
TOGETHER = 25
SAMPLE = range(20)
STEPS = 40
PATHS = ("projects/hmi/view.py", "projects/hmi/script.py", "projects/tags/tags.csv", "projects/new/a.txt")
TOKEN = re.compile(r"edit-\d+-")


def histories() -> list[Sequence[int]]:
    first, _, last = (os.environ.get("STOKER_SEEDS") or f"0-{SEEDS - 1}").partition("-")
    end = int(last or first) + 1
    return [range(one, min(one + TOGETHER, end)) for one in range(int(first), end, TOGETHER)]


class DictSender(OutboxSender):
    """Puts sets where the played controller finds them."""

    def __init__(self, controller: InProcessController) -> None:
        self._controller = controller

    async def send(self, key: str, set_id: str, chunks: Sequence[bytes]) -> None:
        self._controller.put(set_id, list(chunks))

    async def is_there(self, key: str, set_id: str) -> bool:
        return any(f".{set_id}." in name for keys in self._controller.maps.values() for name in keys)


@dataclass
class History:
    """One seed."""

    seed: int
    folder: Path
    chance: random.Random = field(init=False)
    clock: ManualClock = field(default_factory=ManualClock)
    log: list[str] = field(default_factory=list)
    expected: dict[str, frozenset[str] | None] = field(default_factory=dict)
    """What the designer's last edit of a path left there: tokens, or None where it was deleted."""
    known_commits: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    """All that were ever pushed."""
    absent: set[str] = field(default_factory=set)
    """Paths that some commit from the gateway has deleted."""
    reachable: set[str] = field(default_factory=set)
    """Commits that some branch led to."""
    edits: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - no secret
        self.repository = Repository.create(self.folder / "plant.git")
        self.repository.commit({f"{FOLDER}/{path}": self._lines() for path in PATHS[:3]})
        strategy = list(ConflictStrategy)[self.seed % 3]
        policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), conflicts=strategy)
        self.controller = InProcessController(self.repository, self.clock, policy, self.folder / "controller")
        self.data = self.folder / "data"
        self.data.mkdir()
        self._start_agent()

    async def play(self) -> None:
        self.controller.publish()
        await self.sync()
        acts: list[tuple[int, Callable[[], Awaitable[None] | None]]] = [
            (10, self.designer_edits),
            (16, self.all_take_a_turn),
            (1, self.designer_deletes),
            (5, self.others_push),
            (4, self.sync),
            (6, self.capture),
            (6, self.controller_works),
            (2, self.controller_is_cut_off),
            (5, self.controller_passes),
            (1, self.controller_dies_while_it_passes),
            (2, self.reviewer_decides),
            (1, self.reviewer_pushes),
            (1, self.forge_comes_or_goes),
            (1, self.agent_restarts),
            (1, self.agent_dies_before_it_sends),
        ]
        for _ in range(STEPS):
            (act,) = self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])
            self.log.append(act.__name__)
            done = act()
            if done is not None:
                await done
            await self.clock.advance(7)
            self.check()
        await self.peace()

    # People.

    def designer_edits(self) -> None:
        path = self.chance.choice(PATHS)
        place = self.data / path
        lines = (place.read_text() if place.exists() else self._lines()).splitlines()
        self.edits += 1
        lines[self.chance.randrange(len(lines))] = f"edit-{self.edits}-by-designer"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(lines) + "\n")
        self.expected[path] = frozenset(TOKEN.findall(place.read_text()))
        self.log.append(f"  {path}: edit-{self.edits}")

    def designer_deletes(self) -> None:
        path = self.chance.choice(PATHS)
        if (self.data / path).exists():
            (self.data / path).unlink()
            with DataFolder.opened(self.data) as folder:
                ledger = self.folder_sync.read(folder)
            if ledger is not None and path in ledger.files:
                self.expected[path] = None
                if not self._is_proposed_gone(path):
                    self.absent.discard(path)
            else:  # a user who reverts an own change has changed nothing that we wrote
                self.expected.pop(path, None)
            self.log.append(f"  {path}")

    def _is_proposed_gone(self, path: str) -> bool:
        """Whether the branch is without it already, so that no second commit is needed."""
        files = self.repository.files(BRANCH) if self.repository.has_branch(BRANCH) else None
        return files is not None and f"{FOLDER}/{path}" not in files

    def others_push(self) -> None:
        path = self.chance.choice(PATHS)
        before = self.repository.files().get(f"{FOLDER}/{path}")
        lines = (before.decode() if before is not None else self._lines()).splitlines()
        self.edits += 1
        lines[self.chance.randrange(len(lines))] = f"edit-{self.edits}-by-others"
        gone = before is not None and self.chance.random() < 0.15
        content = None if gone else "\n".join(lines) + "\n"
        self.repository.commit({f"{FOLDER}/{path}": content})
        self.log.append(f"  {path}: {'gone' if gone else f'edit-{self.edits}'}")

    def reviewer_decides(self) -> None:
        for request in self.controller.forge.open:
            squash, keep = self.chance.random() < 0.5, self.chance.random() < 0.5
            if self.chance.random() < 0.7:
                self.controller.forge.merge(request.number, squash=squash, keep_branch=keep)
            else:
                self.controller.forge.close(request.number, keep_branch=keep)
            self.reachable.clear()  # a person may let a branch go
            self.log.append(f"  {request.number} {squash=} {keep=}")

    def reviewer_pushes(self) -> None:
        if self.repository.has_branch(BRANCH):
            self.repository.commit({"review.txt": f"{self.edits}\n"}, branch=BRANCH)

    def forge_comes_or_goes(self) -> None:
        forge = self.controller.forge
        forge.error = None if forge.error is not None else Retry("away", reason=Reason.SERVICE_UNREACHABLE)

    # Machines.

    async def all_take_a_turn(self) -> None:
        """As they do when nothing goes wrong; each may still be cut off by what comes next."""
        await self.capture()
        await self.controller_works()
        self.controller_passes()

    async def sync(self) -> None:
        """The agent's sync: it reads its metadata, and syncs the commit that it names."""
        await self.capturing.told(self.controller.published.get(GATEWAY))
        try:
            async with self.capturing.lock:
                self.capturing.passed(await self.folder_sync.sync(SyncOptions(commit=self.controller.commit)))
        except StokerError as error:
            self.log.append(f"  {error.reason}: {error.message}")

    async def capture(self, *, dies: bool = False) -> None:
        await self.capturing.told(self.controller.published.get(GATEWAY))
        try:
            await self.capturing.check_sent()
            async with self.capturing.lock:
                step = await self.capturing.step(ChangedPaths(everything=True))
            if dies:
                self._start_agent()
            elif step.parcel is not None:
                await self.capturing.post(step.parcel)
                self.log.append(f"  {step.parcel.id}")
        except StokerError as error:
            self.log.append(f"  {error.reason}: {error.message}")

    async def controller_works(self) -> None:
        self.controller.look()
        await working()

    async def controller_is_cut_off(self) -> None:
        self.controller.look()
        await asyncio.sleep(self.chance.random() * 0.08)
        await self.controller.restart(forgetful=self.chance.random() < 0.5)

    def controller_passes(self) -> None:
        self.controller.publish()
        self.controller.empty()

    async def controller_dies_while_it_passes(self) -> None:
        self.controller.publish()
        await self.controller.restart(forgetful=self.chance.random() < 0.5)

    def agent_restarts(self) -> None:
        self._start_agent()

    async def agent_dies_before_it_sends(self) -> None:
        await self.capture(dies=True)

    def _start_agent(self) -> None:
        controller = self.controller
        remote = Remote(
            GitRunner(self.folder / "agent-git"), controller.source.url, fixed_access(RepoAccess())
        )
        cache = self.folder / "agent-cache"
        job = SyncJob(controller.source, controller.files, controller.values, self.data, cache)
        self.folder_sync = FolderSync(job, GitSource(remote, cache), clock=self.clock)
        self.capturing = ChangeCapture(
            controller.policy,
            self.folder_sync,
            DictSender(controller),
            OutboxAddress(GATEWAY, GATEWAY),
            self.clock,
            tell=lambda changes: None,
        )
        self.folder_sync.add_hook(self.capturing)

    # What must hold.

    def check(self) -> None:
        """Every edit is on the gateway, or was pushed."""
        self._harvest()
        for path, tokens in self.expected.items():
            place = self.data / path
            live = frozenset(TOKEN.findall(place.read_text())) if place.exists() else None
            if live == tokens:
                continue
            if tokens is None:
                assert path in self.absent, self.with_log(f"the deletion of {path} was lost")
            else:
                lost = tokens - (live or frozenset()) - self.tokens
                assert not lost, self.with_log(f"{sorted(lost)} of {path} are lost")

    async def peace(self) -> None:
        """All decide, all is delivered."""
        controller, forge = self.controller, self.controller.forge
        forge.error = None
        for number in range(14):
            self.log.append(f"peace {number}")
            await self.clock.advance(700)
            await controller.rounds(2)
            for request in forge.open:
                forge.merge(request.number, squash=self.chance.random() < 0.5)
                self.reachable.clear()
            await controller.rounds(2)
            await self.sync()
            await self.capture()
            self.check()
            if number > 1 and not forge.open and not self._waiting() and self._agree():
                break
        assert self._agree(), self.with_log(f"gateway {self._live()} git {self._wanted()}")
        assert not forge.open, self.with_log("a request is still open")
        assert not self._waiting(), self.with_log("something is still on its way")
        assert not controller.published.get(GATEWAY) or not controller.published[GATEWAY].holds
        made = len(forge.requests)
        for _ in range(2):
            await self.capture()
            await controller.rounds(2)
            await self.sync()
        assert len(forge.requests) == made, self.with_log("it is proposed again")
        assert not self._waiting(), self.with_log("it is captured again")
        assert self._agree(), self.with_log("it was at peace before")

    def _waiting(self) -> bool:
        return any(self.controller.maps.values())

    def _agree(self) -> bool:
        return self._live() == self._wanted()

    def _live(self) -> dict[str, bytes]:
        return {
            str(place.relative_to(self.data)): place.read_bytes()
            for place in sorted((self.data / "projects").rglob("*"))
            if place.is_file()
        }

    def _wanted(self) -> dict[str, bytes]:
        files = self.repository.files()
        inside = {path: content for path, content in files.items() if path.startswith(f"{FOLDER}/")}
        return {path.removeprefix(f"{FOLDER}/"): content for path, content in sorted(inside.items())}

    def _harvest(self) -> None:
        commits = self.repository.git("rev-list", "--all").decode().split()
        gone = self.reachable - set(commits)
        assert not gone, self.with_log(f"{sorted(gone)} are on no branch any more, and no person did that")
        self.reachable = set(commits)
        for commit in [each for each in commits if each not in self.known_commits]:
            self.known_commits.add(commit)
            result = self.repository.git(
                "log", "-1", "--format=%B", "-p", "--first-parent", "-m", commit
            ).decode()
            self.tokens.update(TOKEN.findall(result))
            for line in result.splitlines():
                if line.startswith("deleted") and f": {FOLDER}/" in line:
                    self.absent.add(line.partition(f": {FOLDER}/")[2])

    def with_log(self, what: str) -> str:
        return f"seed {self.seed} ({self.controller.policy.conflicts}): {what}\n" + "\n".join(self.log)

    def _lines(self) -> str:
        return "".join(f"line {number}\n" for number in range(6))


async def check_histories(seeds: Sequence[int], folder: Path) -> None:
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        history = History(seed, place)
        try:
            await history.play()
        finally:
            await history.controller.acceptor.close()


@pytest.mark.slow
async def test_some_histories_converge_and_lose_nothing(tmp_path: Path) -> None:
    await check_histories(SAMPLE, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seeds", histories(), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
async def test_every_history_converges_and_loses_nothing(seeds: Sequence[int], tmp_path: Path) -> None:
    await check_histories(seeds, tmp_path)
