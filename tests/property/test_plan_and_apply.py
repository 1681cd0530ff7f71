"""Laws of plans, on a real disk: scan, plan and apply are the product's own.

A disk with arbitrary content, an earlier pass, arbitrary changes in between, and a
new desired state. Whatever they are: applying gives the desired files, planning
again gives nothing to do, nothing outside the managed folder changes by a bit, and
nothing is ever deleted that lay there before the first pass; with `owned` only what
an earlier pass wrote.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from stoker.domain.git_objects import Blob, BlobId, CommitTree, FileVersion, blob_of
from stoker.domain.intent.files import DeletionPolicy, FileMapping, FilesIntent, OrphanPolicy
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.layout.desired_files import DesiredFiles
from stoker.engine.layout.layout import Layout
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import SyncPlan
from stoker.engine.plan.planner import make_plan
from stoker.fs.apply_plan import ApplyResult, apply_plan
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import JOURNAL, MANIFEST, LedgerStore
from stoker.fs.stop_check import SyncStopped

MANAGED = "projects/P"
OUTSIDE = {"outside": b"o", "projects/other/x": b"o", "projects/P2/x": b"o", ".uuid": b"o", "db/x": b"o"}
ALWAYS = b"always"
MEMORY = Path("/dev/shm")  # noqa: S108 - durability costs nothing there, and the laws are the same

Files = dict[str, tuple[bytes, bool]]

contents = st.tuples(st.sampled_from([b"", b"1", b"2"]), st.booleans())
paths = st.lists(st.sampled_from(["a", "b", "view.json", "resource.json"]), min_size=1, max_size=3).map(
    "/".join
)
KNOWN = {blob_of(content): content for content in (b"", b"1", b"2", ALWAYS)}


def possible(files: Files) -> Files:
    """Without the files that would be below another file."""
    return {
        path: what for path, what in files.items() if not any(path.startswith(f"{other}/") for other in files)
    }


trees = st.dictionaries(paths, contents, max_size=8).map(possible)
laws = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def data_folder() -> Iterator[DataFolder]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        for path, content in OUTSIDE.items():
            put(Path(place) / path, content)
        with DataFolder.opened(Path(place)) as folder:
            yield folder


def put(path: Path, content: bytes, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if executable else 0o644)


def lay(folder: DataFolder, files: Files) -> None:
    """Foreign files, where there is room for them."""
    for path, (content, executable) in files.items():
        target = folder.place / MANAGED / path
        if not target.is_dir() and not any(parent.is_file() for parent in target.parents):
            put(target, content, executable=executable)


def snapshot(folder: DataFolder) -> Files:
    """Every file with its content and mode, but our own state."""
    found = {path.relative_to(folder.place): path for path in folder.place.rglob("*") if path.is_file()}
    return {
        str(name): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for name, path in found.items()
        if not name.parts[0].startswith(".sync-")
    }


def versions(files: Files) -> dict[str, FileVersion]:
    return {path: FileVersion(blob_of(content), executable) for path, (content, executable) in files.items()}


def wanted(files: Files) -> DesiredFiles:
    """These files and one more: a source that gives nothing at all is another story."""
    found = {f"s/{path}": version for path, version in versions(files).items()}
    found["s/z/always"] = FileVersion(blob_of(ALWAYS))
    return Layout(FilesIntent((FileMapping("s", MANAGED),)), TemplateValues()).map(CommitTree(found))


def read(ids: Sequence[BlobId]) -> Iterator[Blob]:
    return (Blob(blob, len(KNOWN[blob]), iter([KNOWN[blob]])) for blob in ids)


def pass_over(
    folder: DataFolder,
    desired: DesiredFiles,
    stopped: Callable[[], bool] = lambda: False,
    *,
    orphans: OrphanPolicy = OrphanPolicy.MIRROR,
) -> tuple[SyncPlan, ApplyResult]:
    book = LedgerStore.load(folder)
    live = scan_folder(
        folder,
        book.ledger or Ledger(),
        managed_folders=desired.managed.folders,
        managed_files=desired.managed.files,
        compared=desired.files.keys() | (book.ledger.intended.keys() if book.ledger is not None else set()),
    )
    made = make_plan(desired, live, book.ledger, DeletionPolicy(orphans=orphans))
    return made, apply_plan(folder, made, book, read, stopped=stopped)


@laws
@example(  # a manifest that the plan clears keeps no other file of its folder
    strangers={"a/a": (b"", False)},
    first={},
    meddling={"a": (b"", False), "b": (b"", False), "resource.json": (b"", False)},
    second={"a": (b"", False), "view.json": (b"", False), "resource.json/a": (b"", False)},
    orphans=OrphanPolicy.MIRROR,
)
@example(
    strangers={},
    first={"a": (b"", False), "resource.json/a": (b"", False)},
    meddling={"b/a": (b"", False)},
    second={"b": (b"", False)},
    orphans=OrphanPolicy.OWNED,
)
@given(trees, trees, trees, trees, st.sampled_from(OrphanPolicy))
def test_laws_of_a_sync(
    strangers: Files, first: Files, meddling: Files, second: Files, orphans: OrphanPolicy
) -> None:
    with data_folder() as folder:
        lay(folder, strangers)
        before = snapshot(folder)
        desired = wanted(first)
        made, applied = pass_over(folder, desired, orphans=orphans)
        check(folder, before, desired, made, applied, orphans, spared=set(before))

        ours = set(desired.files) & set(snapshot(folder))
        spared = set(before) - ours
        lay(folder, meddling)
        before = snapshot(folder)
        if orphans is OrphanPolicy.OWNED:
            spared = set(before) - ours
        desired = wanted(second)
        made, applied = pass_over(folder, desired, orphans=orphans)
        event(f"{bool(made.deletions)=} {bool(made.clearings)=} {bool(made.conflicts)=}")
        check(folder, before, desired, made, applied, orphans, spared=spared)


def check(
    folder: DataFolder,
    before: Files,
    desired: DesiredFiles,
    made: SyncPlan,
    applied: ApplyResult,
    orphans: OrphanPolicy,
    *,
    spared: set[str],
) -> None:
    after = snapshot(folder)
    assert not applied.errors
    refused = {note.path for note in made.conflicts}
    delivered = {path: version for path, version in desired.files.items() if path not in refused}
    assert {path: version for path, version in versions(after).items() if path in delivered} == delivered

    gone = before.keys() - after.keys()
    assert not gone & spared
    assert all(path.startswith(f"{MANAGED}/") for path in gone)
    assert gone == set(applied.deleted) - after.keys()
    untouched = before.keys() - delivered.keys() - gone
    assert {path: after[path] for path in untouched} == {path: before[path] for path in untouched}
    assert after.keys() - before.keys() <= delivered.keys()

    manifests = [write.path.name == "resource.json" for write in made.writes]
    assert manifests == sorted(manifests), "a resource.json was planned before data"
    again, _ = pass_over(folder, desired, orphans=orphans)
    assert not again.actions
    assert not (folder.place / ".sync-staging").exists()


@laws
@given(trees, trees, trees, st.integers(min_value=0, max_value=16))
def test_a_sync_after_a_kill_reaches_its_goal_whatever_was_done_before(
    first: Files, killed: Files, last: Files, moment: int
) -> None:
    """After the stop the ledger is put back as it was at that moment: that is what a kill leaves."""
    with data_folder() as folder:
        pass_over(folder, wanted(first))
        state = [folder.place / MANIFEST, folder.place / JOURNAL]
        at_the_kill: list[list[bytes | None]] = []

        def kill() -> bool:
            at_the_kill.append([file.read_bytes() if file.exists() else None for file in state])
            return len(at_the_kill) > moment

        with suppress(SyncStopped):
            pass_over(folder, wanted(killed), kill)
        if len(at_the_kill) > moment:
            event("killed in the middle")
            for file, content in zip(state, at_the_kill[-1], strict=True):
                if content is None:
                    file.unlink(missing_ok=True)
                else:
                    file.write_bytes(content)
            put(folder.place / ".sync-staging" / "0", b"half a fi")

        made, applied = pass_over(folder, wanted(last))
        assert not made.conflicts
        assert not applied.errors
        assert versions(snapshot(folder)) == dict(wanted(last).files) | {
            path: FileVersion(blob_of(content)) for path, content in OUTSIDE.items()
        }
