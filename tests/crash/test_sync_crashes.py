"""The whole command, killed or let down by its disk at every place at which it changes something.

Each cell is a real process on a real repository. It ends at a failpoint; then it is run
again as if nothing had happened. At any time a reader sees whole files, and no
`resource.json` that is younger than its data; in the end the folder is exactly what the
commit says, nothing of others was touched, nothing is left lying about, and one run
more changes nothing. `make test` holds each failpoint once, `make test-crash` all of it.
"""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker.domain import failpoints
from stoker.domain.reasons import Reason
from stoker_testkit.command_fork_server import CommandResult, Commands
from stoker_testkit.gateway.torn_reads.known_content_reader import KnownContentReader
from stoker_testkit.repositories.bare_repository import Repository, executable
from stoker_testkit.repositories.malicious_repository import fingerprint

MEMORY = Path("/dev/shm")  # noqa: S108 - a kill loses nothing that the kernel has, so durability may be cheap
DESTINATION = "projects/P"


def text(word: str, size: int = 1) -> bytes:
    return json.dumps(word * size).encode()


ONE = {
    "v/resource.json": text("one"),
    "v/view.json": text("one", 20_000),
    "v/code.py": b"one",
    "swap": b"one",
    "back/file": b"one",
    "run.sh": b"same",
    "old/deep/resource.json": text("one"),
    "old/deep/code.py": b"one",
    "same/resource.json": text("same"),
    "same/config.json": b'{"a": 1, "systemName": "git", "b": "one"}',
}
TWO = {
    "v/resource.json": text("two"),
    "v/view.json": text("two", 20_000),
    "v/code.py": b"two",
    "swap/now/a/folder": b"two",
    "back": b"two",
    "run.sh": b"same",
    "new/x/resource.json": text("two"),
    "new/x/view.json": text("two"),
    "same/resource.json": text("same"),
    "same/config.json": b'{"a": 1, "systemName": "git", "b": "two"}',
}
KEPT = {"mine.txt": b"theirs", ".resources/cache": b"the gateway's"}
STRAYS = {"v/stray.py": b"theirs", "strays/a": b"theirs", "strays/deep/b": b"theirs"}
ELSEWHERE = {".uuid": b"gateway", "db/x": b"theirs", "projects/other/x": b"theirs", "projects/y": b"theirs"}
MIRROR = ("--orphans=mirror",)
RESOURCES = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line}
spec:
  git: {repo: "URL", ref: main}
  gateway: {apiKeySecretRef: {name: none, key: none}}
  normalize: {systemName: true}
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: gateway-7}
spec:
  mappings: [{source: s, destination: projects/P, required: true}]
"""


def put(place: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)


def normalized(tree: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: content.replace(b'"git"', b'"gateway-7"') for path, content in tree.items()}


@dataclass
class SyncSite:
    """A repository, a data folder with files of others in it, and the way to bring both together."""

    place: Path
    commands: Commands
    trees: list[dict[str, bytes]] = field(default_factory=list)
    """What the destination held, one after the other, and what it is to hold in the end."""
    wanted: dict[str, int] = field(default_factory=dict)
    """The modes of it."""
    left_alone: dict[str, bytes] = field(default_factory=lambda: dict(KEPT))
    goes: dict[str, bytes] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    approves: bool = False
    normalizes: bool = False

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def repository(self) -> Repository:
        return Repository(self.place.parent / f"{self.place.name.partition('.')[0]}.git")

    def copied(self, to: Path) -> SyncSite:
        shutil.copytree(self.place, to)
        return SyncSite(**{**self.__dict__, "place": to})

    def furnish(self, **more: bytes) -> None:
        put(self.data, ELSEWHERE)
        put(self.data / DESTINATION, {**KEPT, **self.goes, **more})
        Repository.create(self.repository.path)

    def commit(self, tree: Mapping[str, bytes], *programs: str) -> None:
        files = {
            f"s/{path}": executable(content) if path in programs else content
            for path, content in tree.items()
        }
        self.repository.commit({**files, "elsewhere": "x"}, replace=True)
        self.trees.append(normalized(tree) if self.normalizes else dict(tree))
        self.wanted = {path: 0o755 if path in programs else 0o644 for path in tree}

    def arguments(self, *options: str) -> list[str]:
        where = [f"--data-dir={self.data}", f"--cache-dir={self.place / 'cache'}", "--output=json"]
        url = self.repository.path.as_uri()
        if self.normalizes:
            (self.place / "resources.yaml").write_text(RESOURCES.replace("URL", url))
            what = ["-f", str(self.place / "resources.yaml"), "--files-only"]
        else:
            what = [f"--repo={url}", "--ref=main", f"--map=s:{DESTINATION}"]
        return ["sync", *what, *where, *self.options, *options]

    def sync(self, *failures: str) -> CommandResult:
        return self.commands.run(*self.arguments(), failures=failures)

    def approval(self) -> tuple[str, ...]:
        """With what a person allows that all that is kept may go."""
        result = self.commands.run(*self.arguments("--dry-run")).document
        return (f"--approve-plan={result['planDigest']}",) if result["planDigest"] else ()

    @contextmanager
    def watched(self) -> Iterator[None]:
        onlooker = KnownContentReader(self.data / DESTINATION, self.trees, self.left_alone | self.goes)
        with onlooker:
            yield
        onlooker.look()
        assert onlooker.trouble == []
        assert onlooker.looks > 1

    def elsewhere(self) -> dict[str, tuple[int, int, int, int, str]]:
        own = (".sync-state", ".sync-staging", Path(DESTINATION).name)
        return fingerprint(self.data, lambda path: path.name in own)

    def all_but_the_writer(self) -> dict[str, tuple[int, int, int, int, str]]:
        """Everything, without the file that says which process writes."""
        return {path: it for path, it in fingerprint(self.data).items() if Path(path).name != "writer"}

    def assert_arrived(self) -> None:
        place = self.data / DESTINATION
        found = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
        assert {path: it.read_bytes() for path, it in found.items()} == self.trees[-1] | self.left_alone
        assert {path: found[path].stat().st_mode & 0o7777 for path in self.wanted} == self.wanted
        folders = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_dir()}
        assert folders == {str(above) for path in found for above in Path(path).parents} - {"."}
        assert not (self.data / ".sync-staging").exists()
        assert {path.name for path in (self.data / ".sync-state").iterdir()} <= {
            "manifest",
            "writer",
            "scan-owed",
            "journal",
            "lock",
            "audit.jsonl",
            "diffs",
        }


def first(site: SyncSite) -> None:
    """Nothing was ever synced here, but a ledger was, whose manifest is gone."""
    site.furnish()
    put(site.data, {".sync-state/journal": b"of another life"})
    site.commit(ONE)


def bare(site: SyncSite) -> None:
    """Nothing was ever synced here."""
    site.furnish()
    site.commit(ONE)


def change(site: SyncSite) -> None:
    """Files are added, modified, deleted, made executable, become folders, and folders files."""
    site.furnish()
    site.commit(ONE)
    assert site.sync().code == 0
    site.commit(TWO, "run.sh")


def healed(site: SyncSite) -> None:
    """The same with a mirror that is damaged."""
    change(site)
    (shallow,) = (site.place / "cache").rglob("shallow")
    shallow.write_text("nonsense\n")


def orphans(site: SyncSite) -> None:
    """What others have put there before us goes, because a person has approved it."""
    site.goes = dict(STRAYS)
    site.options = MIRROR
    site.furnish()
    site.commit(ONE)
    assert site.sync().code == 0
    site.commit(TWO, "run.sh")
    site.left_alone = {path: content for path, content in KEPT.items() if path.startswith(".")}
    site.goes = {**STRAYS, "mine.txt": KEPT["mine.txt"]}
    site.approves = True


def derived(site: SyncSite) -> None:
    """Contents are shaped on their way, so git does not have what is delivered."""
    site.normalizes = True
    site.options = ("--gateway-name=gateway-7",)
    change(site)


SCENARIOS: dict[str, Callable[[SyncSite], None]] = {
    one.__name__: one for one in (first, bare, change, healed, orphans, derived)
}
# All others are reached on the way from one commit to the next.
REACHED_IN = {
    "mirror.make": "first",
    "mirror.swap": "healed",
    "state.mkdir": "bare",
    "journal.unlink": "first",
    "base.write": "first",
    "base.sync": "first",
    "base.rename": "first",
    "base.flush": "first",
}


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.ready() as commands:
        yield commands


class SyncSites:
    """Each scenario is prepared once and copied for every cell."""

    def __init__(self, place: Path, commands: Commands) -> None:
        self._place = place
        self._commands = commands
        self._ready: dict[str, SyncSite] = {}
        self._numbers = itertools.count()

    @contextmanager
    def new(self, scenario: str) -> Iterator[SyncSite]:
        if scenario not in self._ready:
            site = SyncSite(self._place / scenario, self._commands)
            SCENARIOS[scenario](site)
            self._ready[scenario] = site
        copy = self._ready[scenario].copied(self._place / f"{scenario}.{next(self._numbers)}")
        yield copy
        shutil.rmtree(copy.place)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[SyncSites]:
    above = MEMORY if MEMORY.is_dir() else tmp_path_factory.mktemp("worlds")
    with tempfile.TemporaryDirectory(dir=above) as place:
        yield SyncSites(Path(place), commands)


def finish(site: SyncSite) -> None:
    """The next run converges, and the one after it has nothing to do."""
    with site.watched():
        if site.approves:  # the killed pass left another plan behind
            site.options = MIRROR
            site.options += site.approval()
        ended = site.sync()
        if site.approves:
            site.options = MIRROR
    assert ended.code == 0, ended
    site.assert_arrived()
    before = site.all_but_the_writer()
    ended = site.sync()
    assert (ended.code, ended.changed) == (0, [])
    assert site.all_but_the_writer() == before


def killed(site: SyncSite, failure: str) -> bool:
    """One cell; False if the process did not come that far."""
    outside = site.elsewhere()
    if site.approves:
        site.options += site.approval()
    with site.watched():
        ended = site.sync(failure)
    if ended.code != -signal.SIGKILL:
        assert ended.code == 0, ended
        site.assert_arrived()
        return False
    assert site.elsewhere() == outside
    finish(site)
    assert site.elsewhere() == outside
    return True


@pytest.mark.parametrize("name", failpoints.ALL_FAILPOINTS)
def test_after_a_kill_the_next_run_converges_and_no_reader_saw_half_a_file(
    sites: SyncSites, name: str
) -> None:
    with sites.new(REACHED_IN.get(name.rpartition(".")[0], "change")) as site:
        assert killed(site, name), f"{name} is never reached"


def turns(sites: SyncSites, scenario: str, name: str) -> int:
    """How often the process comes there: as often as it was killed there, and recovered."""
    for turn in itertools.count():
        with sites.new(scenario) as site:
            if not killed(site, f"{name}:{turn + 1}"):
                break
    return turn


# Where a kill has left something behind before.
ALWAYS = ("carry.before", "stage.write.before", "rename.after", "flush.after")
SPOTS = [("orphans", "unlink.after"), ("orphans", "rmdir.before"), ("derived", "rename.after")]


@pytest.mark.parametrize(("scenario", "name"), SPOTS)
def test_it_does_so_at_every_turn_of_some(sites: SyncSites, scenario: str, name: str) -> None:
    assert turns(sites, scenario, name) > 3


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", failpoints.ALL_FAILPOINTS)
def test_it_does_so_at_every_turn_of_every_failpoint(sites: SyncSites, scenario: str, name: str) -> None:
    assert turns(sites, scenario, name) or name not in ALWAYS


@pytest.mark.parametrize("scenario", ["bare", "change"])
@pytest.mark.parametrize("name", ["rename.after:2", "folder.rename.after", "flush.before", "flush.after"])
def test_what_a_killed_sync_wrote_is_known_as_ours_when_the_repository_has_moved_on(
    sites: SyncSites, scenario: str, name: str
) -> None:
    """Without its word of what it was about to write it would be a stranger's, and stay."""
    later = {path: ONE[path] for path in ("v/resource.json", "v/view.json", "v/code.py")}
    with sites.new(scenario) as site:
        assert site.sync(name).code == -signal.SIGKILL
        site.repository.commit({f"s/{path}": it for path, it in later.items()}, branch="later", replace=True)
        site.options = ("--ref=later",)
        site.trees, site.wanted = [*site.trees, later], dict.fromkeys(later, 0o644)
        finish(site)


def test_the_command_from_its_very_start_dies_and_recovers_in_the_same_way(sites: SyncSites) -> None:
    with sites.new("change") as site:
        command = [sys.executable, "-m", "stoker_testkit.faults.failpoints", "rename.after:3", "--"]
        with site.watched():
            done = subprocess.run([*command, *site.arguments()], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        finish(site)


def check_failing_disk(site: SyncSite, failure: str) -> bool:
    """A disk that fails from here on: reported by name, nothing lost, and all well when it is repaired."""
    outside = site.elsewhere()
    if site.approves:
        site.options = site.approval()
    with site.watched():
        ended = site.sync(failure)
    assert "Traceback" not in ended.err, ended.err
    assert ended.code in range(5), ended
    if ended.code:
        assert ended.document.get("reason") in (*Reason,) or ended.document["errors"], ended
    assert site.elsewhere() == outside
    finish(site)
    return ended.code != 0


# A mirror is built anew within the pass, and what is left in staging goes with the next one.
HARMLESS = ("mirror.swap.", "staging.clear.")
# A folder that was emptied and cannot be removed stays, and nobody is told: there is nothing in it.
BREAKABLE = [
    name for name in (*failpoints.CACHE, *failpoints.DATA_FAILPOINTS) if not name.startswith("rmdir.")
]
ERRORS = ("enospc", "eio", "erofs")


@pytest.mark.parametrize(("name", "error"), list(zip(BREAKABLE, itertools.cycle(ERRORS), strict=False)))
def test_a_disk_that_fails_is_named_and_nothing_is_lost(sites: SyncSites, name: str, error: str) -> None:
    with sites.new(REACHED_IN.get(name.rpartition(".")[0], "change")) as site:
        assert check_failing_disk(site, f"{name}={error}") or name.startswith(HARMLESS), (
            "no error was reported"
        )


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", BREAKABLE)
def test_it_is_so_with_every_error_at_every_place(sites: SyncSites, scenario: str, name: str) -> None:
    for error, turn in itertools.product(ERRORS, (1, 2, 3, 5)):
        with sites.new(scenario) as site:
            check_failing_disk(site, f"{name}:{turn}={error}")
