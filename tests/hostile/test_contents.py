"""Contents made to harm: too large, too many, too deep, or not what their name says.

What is bounded is refused by name and in time; nothing is written, and nothing is left.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.reasons import Reason
from stoker.git.remote.fetch import FetchLimits
from stoker_testkit.repositories.malicious_repository import FOLDER, REGULAR, Attack

MB = 1 << 20


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


def left(attack: Attack) -> list[str]:
    """Files in cache and data folder that a refused sync should have removed."""
    packs = [path.name for path in attack.cache.rglob("tmp_*")]
    return packs + [path.name for path in attack.data.glob(".sync-staging/*")]


# JSON.

BROKEN = {
    "nothing": b"",
    "not a number": b'{"a": NaN}',
    "infinity": b"[Infinity, -Infinity]",
    "half of it": b'{"a": [1',
    "a comment": b"// c\n{}",
    "two of it": b"{} {}",
    "conflict marks": b"<<<<<<< HEAD\n{}\n=======\n[]\n>>>>>>> other\n",
    "half of a character": b'["\xc3"]',
    "half of a pair": b'["\\ud800"]',
    "other encoding": '{"a": 1}'.encode("utf-16"),
    "a hundred thousand lists": b"[" * 100_000 + b"]" * 100_000,
    "a million objects": b'{"a":' * 1_000_000,
    "ten megabytes of one number": b"[" + b"9" * (10 * MB) + b"x",
    "python": b"!!python/object/apply:os.system ['touch canary']",
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_file_named_json_with_other_content_stops_the_sync_by_name(attack: Attack, what: str) -> None:
    attack.repository.commit({"s/r/resource.json": "{}", "s/r/code.py": "1"})
    await attack.sync()
    attack.repository.commit({"s/r/code.py": "2", "s/bad/view.json": BROKEN[what], "s/new": "1"})
    with pytest.raises(Stalled, match=r"projects/P/bad/view\.json") as stalled:
        await attack.sync()
    assert stalled.value.reason is Reason.CONFIG_SYNTAX_ERROR
    assert len(stalled.value.message) < 500
    assert attack.delivered() == {"r/resource.json": b"{}", "r/code.py": b"1"}
    assert left(attack) == []


async def test_a_json_of_great_size_is_delivered_or_refused_and_never_cut(attack: Attack) -> None:
    large = b"[" + b"9" * (10 * MB) + b"]"
    attack.repository.commit({"s/n.json": large, "s/twice.json": b'{"a": 1, "a": 2}'})
    await attack.sync()
    assert attack.delivered() == {"n.json": large, "twice.json": b'{"a": 1, "a": 2}'}


# Sizes.


async def test_more_than_one_answer_may_hold_is_refused_and_nothing_is_left(attack: Attack) -> None:
    attack.source((REGULAR, b"large", attack.blob(os.urandom(4 * MB))))
    with pytest.raises(StokerError, match="more than the 1048576 bytes") as failed:
        await attack.sync(folder_sync=attack.bounded(FetchLimits(fetch=MB)))
    assert failed.value.reason is Reason.SOURCE_TOO_LARGE
    assert attack.delivered() == {}
    assert left(attack) == []
    assert sum(path.stat().st_size for path in attack.cache.rglob("*") if path.is_file()) < MB


PASS = """
import asyncio, resource, sys
from pathlib import Path
from stoker_testkit.repositories.malicious_repository import INTENT
from stoker.agent.sync.jobs import SyncJob
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import StokerError
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
url, data, cache = sys.argv[1:]
job = SyncJob(SourceIntent(RepoUrl(url), GitRef("main")), INTENT, TemplateValues(), Path(data), Path(cache))
try:
    asyncio.run(open_keeper(job).sync())
    print("done")
except StokerError as error:
    print(error.reason)
# The other count begins with what the process that started this one held.
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def measured(attack: Attack) -> tuple[str, int, int]:
    """How a pass of its own process ended, and the most memory that it and any git of it held."""
    command = [sys.executable, "-c", PASS, str(attack.url), str(attack.data), str(attack.cache)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    how, own, gits = output.stdout.split()
    return how, int(own), int(gits)


def zeros(attack: Attack, size: int) -> None:
    """A file that is small in a pack and large on disk."""
    place = attack.outside.parent / "zeros"
    with place.open("wb") as file:
        file.truncate(size)
    blob = attack.repository.git("hash-object", "-w", str(place)).decode().strip()
    place.unlink()
    attack.source((REGULAR, b"zeros", blob))


@pytest.mark.parametrize("size", [64 * MB, pytest.param(1 << 30, marks=[pytest.mark.long])])
def test_a_large_file_is_delivered_in_bounded_memory(attack: Attack, size: int) -> None:
    zeros(attack, size)
    how, own, gits = measured(attack)
    assert how == "done"
    assert (attack.data / "projects/P/zeros").stat().st_size == size
    assert own < 100 * MB
    assert gits < 256 * MB


@pytest.mark.long
@pytest.mark.parametrize("depth", [6, 12])
def test_a_million_files_and_more_are_refused_in_bounded_memory(attack: Attack, depth: int) -> None:
    attack.source((FOLDER, b"bomb", attack.bomb(width=10, depth=depth)))
    how, own, gits = measured(attack)
    assert how == Reason.SOURCE_TOO_LARGE
    assert not (attack.data / "projects/P").exists()
    assert own < 1024 * MB
    assert gits < 256 * MB


async def test_many_files_in_one_folder_are_delivered(attack: Attack) -> None:
    blob = attack.blob(b"x")
    attack.source(*((REGULAR, b"a%05d" % n, blob) for n in range(5000)))
    await attack.sync()
    assert len(attack.delivered()) == 5001


# Modes and owners.


@pytest.mark.parametrize(("umask", "plain", "program"), [(0, 0o644, 0o755), (0o027, 0o640, 0o750)])
async def test_files_have_the_modes_that_are_declared_whatever_the_processs_own_mask_is(
    attack: Attack, umask: int, plain: int, program: int
) -> None:
    attack.source(("104755", b"setuid", attack.blob(b"1")), ("100666", b"open", attack.blob(b"2")))
    job = attack.job()._replace(umask=umask)
    before = os.umask(0o077)
    try:
        await attack.sync(folder_sync=open_keeper(job))
    finally:
        os.umask(before)
    place = attack.data / "projects/P"
    assert {stat.S_IMODE((place / name).stat().st_mode) for name in ("open", "good")} == {plain}
    assert stat.S_IMODE((place / "setuid").stat().st_mode) == program
    assert stat.S_IMODE(place.stat().st_mode) == 0o755 & ~umask


async def test_files_get_the_owner_of_the_data_folder(attack: Attack) -> None:
    ours = os.geteuid()
    if ours == 0:
        ours = 4711
        os.chown(attack.data, ours, ours)
    attack.repository.commit({"s/a/b/f": "1", "s/good": "1"})
    await attack.sync()
    found = [path.lstat().st_uid for path in (attack.data / "projects/P").rglob("*")]
    assert {*found} == {ours}
    assert len(found) == 4


# Names.


async def test_every_byte_that_a_name_can_hold_is_canonical_or_refused(attack: Attack) -> None:
    blob = attack.blob(b"x")
    names = [bytes([n]) for n in range(1, 256) if n != ord("/")]
    names += [
        b"..a",
        b"...",
        b"a..",
        b". ",
        b"CON",
        b"nul.txt",
        b"a:b",
        b"\xe2\x80\xae",
        b"\xed\xa0\x80",
    ]
    attack.source(*((REGULAR, name, blob) for name in names))
    report = await attack.sync()
    shown = [note.path for note in (*report.errors, *report.plan.conflicts, *report.plan.skipped)]
    delivered = {path.encode() for path in attack.delivered()}
    assert delivered <= {*names, b"good"}
    assert len(delivered) + len(shown) == len(names) + 1
    assert all(path.isprintable() for path in shown)
    assert not delivered & {b".", b"..", b"\\", b"\n", b"\x1b", b"\xff", b"a ", b"a.."}


async def test_a_file_and_a_folder_of_one_name_give_neither(attack: Attack) -> None:
    inside = attack.tree((REGULAR, b"f", attack.blob(b"1")))
    attack.source((REGULAR, b"a", attack.blob(b"2")), (FOLDER, b"a", inside))
    report = await attack.sync()
    assert attack.delivered().keys() <= {"good", "a/f", "a"}
    assert report.partial


async def test_two_mappings_to_one_path_are_applied_consistently(attack: Attack) -> None:
    attack.repository.commit({"s/View/f": "1", "t/view/f": "2", "s/good": "good"})
    intent = FilesIntent((FileMapping("s", "projects/P"), FileMapping("t", "projects/P")))
    report = await attack.sync(intent)
    assert attack.delivered() == {"good": b"good"}
    assert len(report.plan.conflicts) == 2
