"""Transforms and orphans with a real repository and a real folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import (
    DeletionPolicy,
    FieldTemplate,
    FileMapping,
    FilePatch,
    FilesIntent,
    MissingSourcePolicy,
    OrphanPolicy,
    TagProviderName,
    TransformPolicy,
)
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.ignition.content.tags import TAG_TYPES, without_inherited_types, without_providers
from stoker_testkit.repositories.bare_repository import WHEN, Repository

VALUES = TemplateValues(gateway_name="filler", vars={"line": "3"})
ONE = FilesIntent((FileMapping("s", "p"),))


class Plant:
    def __init__(self, tmp_path: Path) -> None:
        self.repository = Repository.create(tmp_path / "plant.git")
        self.data = tmp_path / "data"
        self.data.mkdir()
        self.cache = tmp_path / "cache"

    def folder_sync(self, files: FilesIntent = ONE, values: TemplateValues = VALUES) -> FolderSync:
        source = SourceIntent(RepoUrl(self.repository.path.as_uri()), GitRef("main"))
        return open_keeper(SyncJob(source, files, values, self.data, self.cache))

    async def sync(self, files: FilesIntent = ONE, **options: bool | frozenset[PlanApproval]) -> SyncReport:
        return await self.folder_sync(files).sync(SyncOptions(**options))  # type: ignore[arg-type]

    def files(self) -> dict[str, str]:
        """All but our own state; bytes as they are, line ends too."""
        found = {str(path.relative_to(self.data)): path for path in self.data.rglob("*") if path.is_file()}
        return {
            name: path.read_bytes().decode() for name, path in found.items() if not name.startswith(".sync-")
        }


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


async def test_invalid_json_that_no_mapping_delivers_stops_no_sync(plant: Plant) -> None:
    plant.repository.commit({"s/a.json": "{}", "other/broken.json": "{"})
    await plant.sync()
    assert plant.files() == {"p/a.json": "{}"}


async def test_every_config_json_at_any_depth_gets_its_system_name_and_keeps_its_bytes(plant: Plant) -> None:
    before = '{\n\t"x" : 1.0,"systemName":\t"dev" }\r\n'
    plant.repository.commit(
        {"s/config.json": before, "s/a/b/c/config.json": before, "s/a/other.json": before}
    )
    files = ONE._replace(transforms=TransformPolicy("plant-{{.GatewayName}}"))
    await plant.sync(files)
    after = before.replace('"dev"', '"plant-filler"')
    assert plant.files() == {"p/config.json": after, "p/a/b/c/config.json": after, "p/a/other.json": before}
    assert not (await plant.sync(files)).plan.actions


async def test_templates_fields_and_patches_shape_json_and_yaml(plant: Plant) -> None:
    plant.repository.commit(
        {
            "s/config.json": '{"locale": "en", "gateways": [{"hostname": "x"}]}',
            "s/config.yaml": "locale: en # spoken here\n",
            "s/greeting.txt": "line {{.Vars.line}}\n",
        }
    )
    files = FilesIntent(
        (FileMapping("s", "p", template=True),),
        TransformPolicy(
            fields=(
                FieldTemplate(".locale", "de"),
                FieldTemplate(".gateways[0].hostname", "{{.GatewayName}}.plant.example"),
            ),
            patches=(FilePatch("p/config.json", ((".port", "8088"),)),),
        ),
    )
    await plant.sync(files)
    assert plant.files() == {
        "p/config.json": '{"locale": "de", "gateways": [{"hostname": "filler.plant.example"}], "port": 8088}',
        "p/config.yaml": "locale: de # spoken here\n",
        "p/greeting.txt": "line 3\n",
    }
    (plant.data / "p/greeting.txt").write_text("by hand")
    assert [str(action) for action in (await plant.sync(files)).plan.actions] == ["modify p/greeting.txt"]


async def test_the_time_of_a_template_is_that_of_the_commit(plant: Plant) -> None:
    plant.repository.commit({"s/when": "{{.Timestamp}}"})
    files = FilesIntent((FileMapping("s", "p", template=True),))
    await plant.sync(files)
    assert plant.files() == {"p/when": str(WHEN)}
    assert not (await plant.sync(files)).plan.actions


async def test_a_missing_value_stops_the_sync_and_names_the_file(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/b": "{{.Vars.nope}}"})
    with pytest.raises(InvalidValue, match=r"p/b: line 1 asks for \.Vars\.nope"):
        await plant.sync(FilesIntent((FileMapping("s", "p", template=True),)))
    assert plant.files() == {}


@pytest.mark.parametrize(
    ("orphans", "left"), [(OrphanPolicy.MIRROR, {"p/a"}), (OrphanPolicy.OWNED, {"p/a", "p/later"})]
)
async def test_what_others_put_beside_ours_later_goes_unless_only_ours_may(
    plant: Plant, orphans: OrphanPolicy, left: set[str]
) -> None:
    files = ONE._replace(deletion=DeletionPolicy(orphans))
    plant.repository.commit({"s/a": "1"})
    await plant.sync(files)
    (plant.data / "p/later").write_text("theirs")
    await plant.sync(files)
    assert plant.files().keys() == left


async def test_first_contact_can_be_asked_for_although_there_is_a_ledger(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/b": "1"})
    await plant.sync()
    plant.repository.commit({"s/b": None})
    report = await plant.sync(first_contact=True)
    assert not report.plan.removals
    assert plant.files().keys() == {"p/a", "p/b"}


MISSING = FilesIntent(
    (FileMapping("s", "p"), FileMapping("ext", "external", when_missing=MissingSourcePolicy.CONFIG_MODE))
)


async def test_a_missing_collection_gets_its_one_file_until_its_source_is_there(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    await plant.sync(MISSING)
    assert plant.files() == {"p/a": "1", "external/config-mode.json": "{}\n"}
    assert not (await plant.sync(MISSING)).plan.actions
    plant.repository.commit({"s/a": "2"})
    await plant.sync(MISSING)
    plant.repository.commit({"ext/x": "1"})
    await plant.sync(MISSING)
    assert plant.files() == {"p/a": "2", "external/x": "1"}


async def test_a_manual_edit_of_a_placeholder_is_restored(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    await plant.sync(MISSING)
    (plant.data / "external/config-mode.json").write_text('{"title": "mine"}')
    (plant.data / "external/theirs").write_text("stays")
    report = await plant.sync(MISSING)
    assert report.drift.modified == ("external/config-mode.json",)
    assert plant.files() == {"p/a": "1", "external/config-mode.json": "{}\n", "external/theirs": "stays"}


async def test_a_source_that_vanished_stalls_and_gets_no_placeholder_unasked(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "ext/x": "1"})
    await plant.sync(MISSING)
    plant.repository.commit({"ext/x": None})
    with pytest.raises(Stalled, match="ext -> external gave files before") as stopped:
        await plant.sync(MISSING)
    assert stopped.value.reason is Reason.SOURCE_EMPTY
    assert plant.files() == {"p/a": "1", "external/x": "1"}
    would = await plant.sync(MISSING, dry_run=True)
    await plant.sync(MISSING, approved=frozenset({PlanApproval(would.plan.digest)}))
    assert plant.files() == {"p/a": "1", "external/config-mode.json": "{}\n"}


async def test_a_misspelt_source_gets_no_placeholder_where_files_were_delivered(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "ext/x": "1"})
    await plant.sync(MISSING)
    typo = MISSING.mappings[1]._replace(source="etx")
    with pytest.raises(Stalled, match="external/x with what else was delivered there"):
        await plant.sync(FilesIntent((MISSING.mappings[0], typo)))
    assert plant.files() == {"p/a": "1", "external/x": "1"}


async def test_a_placeholder_can_be_patched(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    titled = TransformPolicy(patches=(FilePatch("external/config-mode.json", ((".title", "External"),)),))
    await plant.sync(MISSING._replace(transforms=titled))
    assert plant.files()["external/config-mode.json"] == '{"title": "External"}\n'


async def test_a_gateway_gets_only_the_leaves_of_the_tag_hierarchy_under_its_own_names(plant: Plant) -> None:
    edge = f"{TAG_TYPES}/edge"
    plant.repository.commit(
        {
            "udts/Pumps/udts.json": '[\n {"name": "Gear"},\n {"name": "Screw"}\n]\n',
            "udts/Pumps/unary-resource.json": '{"files": ["udts.json"]}\n',
            "mqtt/udts.json": "[]",
            "core/x/config.json": '{"tagProvider": "default", "path": "[default]A"}\n',
        }
    )
    mappings = (
        FileMapping("udts", edge),
        FileMapping("mqtt", f"{TAG_TYPES}/MQTT Engine"),
        FileMapping("core", "config/resources/core"),
    )
    files = FilesIntent(mappings, TransformPolicy(tag_provider=TagProviderName("default", "edge")))
    files = without_providers(
        without_inherited_types(files, "edge", {"Pumps/Gear", "Motor"}), {"MQTT Engine"}
    )
    await plant.sync(files)
    expected = {
        f"{edge}/Pumps/udts.json": '[\n {"name": "Screw"}\n]\n',
        f"{edge}/Pumps/unary-resource.json": '{"files": ["udts.json"]}\n',
        "config/resources/core/x/config.json": '{"tagProvider": "edge", "path": "[edge]A"}\n',
    }
    assert plant.files() == expected
    assert not (await plant.sync(files)).plan.actions
    (plant.data / edge / "Pumps/udts.json").write_text("[]")
    await plant.sync(files)
    assert plant.files() == expected
    plant.repository.commit({"udts/Pumps/udts.json": '[{"name": "Gear"}]\n'})
    await plant.sync(files)
    assert plant.files()[f"{edge}/Pumps/udts.json"] == "[]\n"


async def test_the_file_that_makes_a_mode_a_collection_does_not_replace_that_of_core(plant: Plant) -> None:
    plant.repository.commit(
        {"core/config-mode.json": "{}", "core/x": "1", "prod/config-mode.json": '{"parent": "core"}'}
    )
    over = FileMapping("prod", "core", when_missing=MissingSourcePolicy.FAIL, gives_way=("config-mode.json",))
    files = FilesIntent((FileMapping("core", "core"), over))
    await plant.sync(files)
    assert plant.files() == {"core/config-mode.json": "{}", "core/x": "1"}
    plant.repository.commit({"prod/x": "2", "prod/config-mode.json": "[]", "core/config-mode.json": "{ }"})
    await plant.sync(files)
    assert plant.files() == {"core/config-mode.json": "{ }", "core/x": "2"}


async def test_a_sync_goes_to_the_commit_of_its_metadata_wherever_the_ref_is_by_now(plant: Plant) -> None:
    wanted_commit = plant.repository.commit({"s/a": "1"})
    plant.repository.commit({"s/a": "2"})
    report = await plant.folder_sync().sync(SyncOptions(commit=wanted_commit))
    assert report.commit == wanted_commit
    assert plant.files() == {"p/a": "1"}
