"""Laws of snapshots: whatever is written, taken and deleted, what is kept restores every byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.errors import Stalled
from stoker.snapshots import retention as snapshot_retention
from stoker.snapshots.manifest import SealedManifest
from stoker_testkit.environments.snapshot_environment import SnapshotFiles, SnapshotSite

PATHS = st.sampled_from(["a", "b/c", "b/d", "e f/g.json", "ü/ß"])
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda seed, size: bytes([seed]) * size, st.integers(0, 255), st.integers(0, 5_000)),
    st.sampled_from([b"shared" * 900, bytes(range(256)) * 20]),
)
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS, st.booleans()),
    st.tuples(st.just("delete"), PATHS),
    st.tuples(st.just("take"), st.booleans()),
    st.tuples(st.just("prune"), st.integers(1, 4)),
    st.tuples(
        st.just("leave"), st.sampled_from(["site-20200101-000000.pack", "site-20200101-000000.pack.part"])
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from([0, 3_000, snapshot_retention.SMALL]))
def test_every_kept_snapshot_gives_back_what_was_there(steps: list[tuple[object, ...]], small: int) -> None:
    now = [1_770_890_400.0]
    before, snapshot_retention.SMALL = snapshot_retention.SMALL, small
    try:
        with tempfile.TemporaryDirectory() as folder:
            site = SnapshotSite(Path(folder), clock=lambda: now[0])
            expected: dict[str, SnapshotFiles] = {}
            for step in steps:
                now[0] += 0.4
                _do(site, step, expected)
                assert [one.id for one in site.snapshots.listed()] == list(reversed(expected))
                for snapshot_id, files in expected.items():
                    site.snapshots.verify(snapshot_id)
                    assert site.restored(snapshot_id) == files
    finally:
        snapshot_retention.SMALL = before


def _do(site: SnapshotSite, step: tuple[object, ...], expected: dict[str, SnapshotFiles]) -> None:
    match step:
        case ("write", str(path), bytes(content), bool(executable)):
            site.write(path, content, 0o755 if executable else 0o644)
        case ("delete", str(path)):
            (site.data / path).unlink(missing_ok=True)
        case ("take", True) if expected:
            newest = site.snapshots.open(next(reversed(expected))).manifest.files
            current = site.files()
            known = {
                path: kept
                for path, kept in newest.items()
                if path in current and current[path][0] == expected[next(reversed(expected))][path][0]
            }
            expected[site.take(known).id] = site.files()
        case ("take", _):
            expected[site.take().id] = site.files()
        case ("prune", int(retention)):
            gone = site.snapshots.prune(retention)
            assert set(gone) == set(list(expected)[: max(0, len(expected) - retention)])
            for snapshot_id in gone:
                del expected[snapshot_id]
        case ("leave", str(name)):
            site.store.mkdir(exist_ok=True)
            (site.store / name).write_bytes(b"left by a crash")


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reading_of_a_manifest(data: bytes) -> None:
    try:
        SealedManifest("site-20260212-100000", data).manifest()
    except Stalled:
        return
    raise AssertionError("a manifest is not hit by chance")
