"""Laws of plans, on a real disk: scan, plan and apply are the product's own.

A disk with arbitrary content, an earlier pass, arbitrary changes in between, and a
new desired state. Whatever they are: applying gives the desired files, planning
again gives nothing to do, nothing outside the managed folder changes by a bit, and
only files that an earlier pass wrote are ever deleted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from stoker.domain.intent.files import DeletionPolicy, FilesIntent, Mapping
from stoker.domain.intent.values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.engine.mapping import Desired, map_tree
from stoker.engine.objects import Blob, BlobId, FileVersion, Tree, TreeEntry, blob_of
from stoker.engine.planning import plan
from stoker.engine.plans import Plan
from stoker.fs import ledger as ledgers
from stoker.fs.applying import Applied, Stopped, apply
from stoker.fs.confined import DataFolder
from stoker.fs.scanning import scan

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
    """Without the files that would lie below another file."""
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
    """Somebody else's files, where there is room for them."""
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


def wanted(files: Files) -> Desired:
    """These files and one more: a source that gives nothing at all is another story."""
    entries = [TreeEntry(RelPath(f"s/{path}"), version) for path, version in versions(files).items()]
    always = TreeEntry(RelPath("s/z/always"), FileVersion(blob_of(ALWAYS)))
    return map_tree(FilesIntent((Mapping("s", MANAGED),)), TemplateValues(), Tree((*entries, always)))


def read(ids: Sequence[BlobId]) -> Iterator[Blob]:
    return (Blob(blob, len(KNOWN[blob]), iter([KNOWN[blob]])) for blob in ids)


def pass_over(
    folder: DataFolder, desired: Desired, stopped: Callable[[], bool] = lambda: False
) -> tuple[Plan, Applied]:
    ledger = ledgers.load(folder).ledger
    compared = desired.files.keys() | (ledger.paths if ledger is not None else frozenset())
    made = plan(desired, scan(folder, desired.managed, compared, digits=40), ledger, DeletionPolicy())
    return made, apply(folder, made, ledger, read, stopped)


@laws
@example(
    strangers={},
    first={"a": (b"", False), "resource.json/a": (b"", False)},
    meddling={"b/a": (b"", False)},
    second={"b": (b"", False)},
)
@given(trees, trees, trees, trees)
def test_laws_of_a_pass(strangers: Files, first: Files, meddling: Files, second: Files) -> None:
    with data_folder() as folder:
        lay(folder, strangers)
        before = snapshot(folder)
        desired = wanted(first)
        check(folder, before, desired, *pass_over(folder, desired), ours=set())

        ours = set(desired.files) & set(snapshot(folder))
        lay(folder, meddling)
        before = snapshot(folder)
        desired = wanted(second)
        made, applied = pass_over(folder, desired)
        event(f"{bool(made.deletions)=} {bool(made.clearings)=} {bool(made.conflicts)=}")
        check(folder, before, desired, made, applied, ours=ours)


def check(
    folder: DataFolder, before: Files, desired: Desired, made: Plan, applied: Applied, *, ours: set[RelPath]
) -> None:
    after = snapshot(folder)
    assert not applied.errors
    refused = {note.path for note in made.conflicts}
    delivered = {path: version for path, version in desired.files.items() if path not in refused}
    assert {path: version for path, version in versions(after).items() if path in delivered} == delivered

    gone = before.keys() - after.keys()
    assert gone <= ours
    assert gone == set(applied.deleted) - after.keys()
    untouched = before.keys() - delivered.keys() - gone
    assert {path: after[path] for path in untouched} == {path: before[path] for path in untouched}
    assert after.keys() - before.keys() <= delivered.keys()

    manifests = [write.path.name == "resource.json" for write in made.writes]
    assert manifests == sorted(manifests), "a resource.json was planned before data"
    again, _ = pass_over(folder, desired)
    assert not again.actions
    assert not (folder.place / ".sync-staging").exists()


@laws
@given(trees, trees, trees, st.integers(min_value=0, max_value=16))
def test_a_pass_after_a_kill_reaches_its_goal_whatever_was_done_before(
    first: Files, killed: Files, last: Files, moment: int
) -> None:
    """After the stop the ledger is put back as it was at that moment: that is what a kill leaves."""
    with data_folder() as folder:
        pass_over(folder, wanted(first))
        manifest = folder.place / ledgers.MANIFEST
        at_the_kill: list[bytes] = []

        def kill() -> bool:
            at_the_kill.append(manifest.read_bytes())
            return len(at_the_kill) > moment

        with suppress(Stopped):
            pass_over(folder, wanted(killed), kill)
        if len(at_the_kill) > moment:
            event("killed in the middle")
            manifest.write_bytes(at_the_kill[-1])
            put(folder.place / ".sync-staging" / "0", b"half a fi")

        made, applied = pass_over(folder, wanted(last))
        assert not made.conflicts
        assert not applied.errors
        assert versions(snapshot(folder)) == dict(wanted(last).files) | {
            path: FileVersion(blob_of(content)) for path, content in OUTSIDE.items()
        }
