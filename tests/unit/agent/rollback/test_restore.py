"""Putting a snapshot back: what it may touch, and whose it is afterwards."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from stoker.agent.rollback.ledger_facts import encode_facts
from stoker.agent.rollback.restore import RestoreResult, restore_snapshot
from stoker.agent.sync.jobs import SyncJob
from stoker.domain.errors import Stalled
from stoker.domain.git_objects import Blob, FileVersion, blob_of
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.plan import LedgerFacts, SyncPlan
from stoker.fs.apply_plan import apply_plan
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import LedgerStore
from stoker_testkit.environments.snapshot_environment import SnapshotSite

OWNER = "a/Stoker/plant"


class Site(SnapshotSite):
    """A data folder with a ledger that says what we wrote there."""

    def copy(self, *, foreign: tuple[str, ...] = (), owner: str = "", **said: frozenset[str]) -> str:
        return self.take(extra=encode_facts(Ledger(**said), foreign, owner)).id  # type: ignore[arg-type]

    def remember(self, *paths: str, gone: Collection[str] = (), **facts: frozenset[str]) -> None:
        """The files that are there now are ours."""
        files = {path: FileVersion(blob_of((self.data / path).read_bytes())) for path in paths}
        plan = SyncPlan(
            remembered={path: encode_record(version) for path, version in files.items()},
            forgotten=frozenset(gone),
            facts=LedgerFacts(**facts),  # type: ignore[arg-type]
        )
        with DataFolder.opened(self.data) as folder:
            apply_plan(folder, plan, LedgerStore.load(folder), lambda ids: iter(list[Blob]()))

    @property
    def ledger(self) -> Ledger:
        with DataFolder.opened(self.data) as folder:
            ledger = LedgerStore.load(folder).ledger
        assert ledger is not None
        return ledger

    @property
    def texts(self) -> dict[str, str]:
        return {
            path: content.decode()
            for path, (content, _) in self.files().items()
            if not path.startswith(".sync-state/")
        }

    async def back(self, snapshot: str, *, whole: bool = True, owner: str = "") -> RestoreResult:
        source = SourceIntent(RepoUrl("file:///nowhere"), GitRef("main"))
        job = SyncJob(source, FilesIntent(()), TemplateValues(), self.data, self.data)
        return await restore_snapshot(job, self.snapshots, snapshot, (), whole=whole, owner=owner)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    for name in ("ours", "taken away", "theirs"):
        site.write(f"d/{name}", b"then")
    return site


D = frozenset({"d"})


@pytest.mark.parametrize("whole", [True, False])
async def test_what_was_ours_is_so_again_and_what_came_since_is_gone(site: Site, whole: bool) -> None:
    snapshot = site.copy(foreign=("d/theirs",), folders=D)
    site.write("d/ours", b"now")
    site.write("d/new", b"now")
    (site.data / "d/taken away").unlink()
    site.remember("d/ours", "d/new", folders=D)
    await site.back(snapshot, whole=whole)
    assert site.texts == dict.fromkeys(("d/ours", "d/taken away", "d/theirs"), "then")
    assert set(site.ledger.files) == {"d/ours", "d/taken away"}
    assert not site.ledger.complete, "the next sync looks at everything once"


@pytest.mark.parametrize(("whole", "text"), [(True, "then"), (False, "edited")])
async def test_a_file_of_others_that_no_sync_can_have_changed_goes_back_only_with_the_whole(
    site: Site, whole: bool, text: str
) -> None:
    snapshot = site.copy(foreign=("d/theirs",), folders=D)
    site.write("d/theirs", b"edited")
    site.remember("d/ours", "d/taken away", folders=D)
    await site.back(snapshot, whole=whole)
    assert site.texts["d/theirs"] == text
    assert "d/theirs" not in site.ledger.files


@pytest.mark.parametrize("taken", [True, False], ids=["as ours", "away"])
async def test_a_file_of_others_that_a_sync_took_is_given_back(site: Site, taken: bool) -> None:
    site.write("elsewhere/theirs", b"then")
    snapshot = site.copy(foreign=("d/theirs", "elsewhere/theirs"), folders=D)
    (site.data / "elsewhere/theirs").unlink()
    if taken:
        site.write("d/theirs", b"from git")
        site.remember("d/ours", "d/taken away", "d/theirs", folders=D)
    else:
        (site.data / "d/theirs").unlink()
        site.remember("d/ours", "d/taken away", folders=D)
    await site.back(snapshot, whole=False)
    assert site.texts["d/theirs"] == "then"
    assert "d/theirs" not in site.ledger.files
    assert "elsewhere/theirs" not in site.texts, "no sync ever wrote there"


async def test_what_is_safe_by_now_stays_as_safe_as_it_is(site: Site) -> None:
    """A folder that was `owned` since, or that holds one that was, may be full of files that were welcome."""
    said = frozenset({"d", "e", "f", "g"})
    snapshot = site.copy(folders=said, mirrored=said, kept=frozenset({"d/before"}))
    since = frozenset({"d", "e", "f", "f/welcome", "fx"})
    site.remember("d/ours", folders=since, mirrored=frozenset({"d", "f"}), kept=frozenset({"d/ours to be"}))
    await site.back(snapshot)
    assert site.ledger.mirrored == D
    assert site.ledger.kept == {"d/before", "d/ours to be"}
    assert site.ledger.folders == said


async def test_a_snapshot_that_holds_the_gateways_own_is_refused_with_nothing_changed(site: Site) -> None:
    site.write("db/config.idb", b"then")
    snapshot = site.copy(folders=D)
    for path in ("db/config.idb", "d/ours"):
        site.write(path, b"now")
    with pytest.raises(Stalled, match="reserved for the gateway") as refused:
        await site.back(snapshot)
    assert refused.value.reason is Reason.SNAPSHOT_CORRUPT
    assert (site.texts["db/config.idb"], site.texts["d/ours"]) == ("now", "now")


@pytest.mark.parametrize(("said", "asked"), [(OWNER, OWNER), ("", OWNER), ("", "")])
async def test_a_snapshot_goes_back_to_its_own_gateway(site: Site, said: str, asked: str) -> None:
    snapshot = site.copy(owner=said)
    site.write("d/ours", b"now")
    await site.back(snapshot, owner=asked)
    assert site.texts["d/ours"] == "then"


@pytest.mark.parametrize("asked", ["", "b/Stoker/plant"])
async def test_a_snapshot_of_another_gateway_is_refused_with_nothing_changed(site: Site, asked: str) -> None:
    snapshot = site.copy(owner=OWNER)
    site.write("d/ours", b"now")
    with pytest.raises(Stalled, match=f"belongs to {OWNER}, not to this gateway") as refused:
        await site.back(snapshot, owner=asked)
    assert refused.value.reason is Reason.ROLLBACK_FAILED
    assert site.texts["d/ours"] == "now"


async def test_something_in_the_way_keeps_all_of_it_as_it_is(site: Site) -> None:
    snapshot = site.copy(folders=D)
    site.write("d/ours", b"now")
    (site.data / "d/theirs").unlink()
    (site.data / "d/theirs").symlink_to("ours")
    with pytest.raises(Stalled, match="d/theirs") as refused:
        await site.back(snapshot)
    assert refused.value.reason is Reason.ROLLBACK_FAILED
    assert site.texts["d/ours"] == "now"


async def test_files_have_the_modes_that_they_had(site: Site) -> None:
    (site.data / "d/theirs").chmod(0o640)
    (site.data / "d/ours").chmod(0o755)
    snapshot, before = site.copy(foreign=("d/theirs",), folders=D), site.files()
    site.write("d/theirs", b"now", 0o600)
    (site.data / "d/ours").chmod(0o644)
    await site.back(snapshot)
    assert {path: kept for path, kept in site.files().items() if path in before} == before
