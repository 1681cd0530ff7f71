"""What is shaped on its way, and what belongs to others: a real repository, a real folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from stoker.agent.jobs import SyncJob, Wish
from stoker.agent.keeping import Keeper
from stoker.agent.opening import open_keeper
from stoker.agent.reporting import SyncReport
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.files import (
    DeletionPolicy,
    FieldTemplate,
    FilePatch,
    FilesIntent,
    Mapping,
    Orphans,
    Transforms,
    WhenMissing,
)
from stoker.domain.intent.source import Source
from stoker.domain.intent.values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.testing.repositories import WHEN, Repository

VALUES = TemplateValues(gateway_name="filler", vars={"line": "3"})
ONE = FilesIntent((Mapping("s", "p"),))


class Plant:
    def __init__(self, tmp_path: Path) -> None:
        self.repository = Repository.create(tmp_path / "plant.git")
        self.data = tmp_path / "data"
        self.data.mkdir()
        self.cache = tmp_path / "cache"

    def keeper(self, files: FilesIntent = ONE, values: TemplateValues = VALUES) -> Keeper:
        source = Source(RepoUrl(self.repository.path.as_uri()), GitRef("main"))
        return open_keeper(SyncJob(source, files, values, self.data, self.cache))

    async def sync(self, files: FilesIntent = ONE, **wish: bool | frozenset[str]) -> SyncReport:
        return await self.keeper(files).sync(Wish(**wish))  # type: ignore[arg-type]

    def files(self) -> dict[str, str]:
        """All but our own state; bytes as they are, line ends too."""
        found = {str(path.relative_to(self.data)): path for path in self.data.rglob("*") if path.is_file()}
        return {
            name: path.read_bytes().decode() for name, path in found.items() if not name.startswith(".sync-")
        }


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    return Plant(tmp_path)


async def test_json_that_nothing_delivers_stops_nobody(plant: Plant) -> None:
    plant.repository.commit({"s/a.json": "{}", "other/broken.json": "{"})
    await plant.sync()
    assert plant.files() == {"p/a.json": "{}"}


async def test_every_config_json_at_any_depth_gets_its_system_name_and_keeps_its_bytes(plant: Plant) -> None:
    before = '{\n\t"x" : 1.0,"systemName":\t"dev" }\r\n'
    plant.repository.commit(
        {"s/config.json": before, "s/a/b/c/config.json": before, "s/a/other.json": before}
    )
    files = dataclasses.replace(ONE, transforms=Transforms("plant-{{.GatewayName}}"))
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
        (Mapping("s", "p", template=True),),
        Transforms(
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
    files = FilesIntent((Mapping("s", "p", template=True),))
    await plant.sync(files)
    assert plant.files() == {"p/when": str(WHEN)}
    assert not (await plant.sync(files)).plan.actions


async def test_a_value_that_is_missing_stops_the_pass_and_names_the_file(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1", "s/b": "{{.Vars.nope}}"})
    with pytest.raises(InvalidValue, match=r"p/b: line 1 asks for \.Vars\.nope"):
        await plant.sync(FilesIntent((Mapping("s", "p", template=True),)))
    assert plant.files() == {}


@pytest.mark.parametrize(
    ("orphans", "left"), [(Orphans.MIRROR, {"p/a"}), (Orphans.OWNED, {"p/a", "p/later"})]
)
async def test_what_others_put_beside_ours_later_goes_unless_only_ours_may(
    plant: Plant, orphans: Orphans, left: set[str]
) -> None:
    files = dataclasses.replace(ONE, deletion=DeletionPolicy(orphans))
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


async def test_what_this_version_does_not_run_is_refused_by_name(plant: Plant) -> None:
    plant.repository.commit({"s/a": "1"})
    asked = FilesIntent((Mapping("s", "p", when_missing=WhenMissing.CONFIG_MODE),))
    with pytest.raises(Stalled, match=r"mappings\[0\]") as stopped:
        plant.keeper(asked)
    assert stopped.value.reason is Reason.FEATURE_NOT_RUNNING


async def test_a_pass_goes_to_the_commit_that_it_is_told_wherever_the_ref_is_by_now(plant: Plant) -> None:
    told = plant.repository.commit({"s/a": "1"})
    plant.repository.commit({"s/a": "2"})
    report = await plant.keeper().sync(Wish(commit=told))
    assert report.commit == told
    assert plant.files() == {"p/a": "1"}
