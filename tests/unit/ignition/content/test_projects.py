"""Projects: what a plan touches of a gateway, and what a data folder should show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.paths import RelPath
from stoker.engine.plan.plan import DeleteFile, SetFileMode, SyncPlan, WriteFile
from stoker.ignition.content.projects import (
    AffectedContent,
    is_module,
    tag_provider_folders,
    with_inheriting_projects,
)
from stoker.ignition.sync.scans import MAX_HOLD_SECONDS, lock_seconds

VERSION = FileVersion(blob_of(b"x"))
PROVIDER = "config/resources/core/ignition/tag-provider"


def write(path: str, *, replaces: bool = True) -> WriteFile:
    return WriteFile(RelPath(path), VERSION, replaces)


def delete(path: str) -> DeleteFile:
    return DeleteFile(RelPath(path))


def test_projects_are_distinguished_from_everything_else() -> None:
    plan = SyncPlan(
        writes=(write("projects/A/x/view.json"), write("projects/readme.txt")),
        modes=(SetFileMode(RelPath("projects/B/run.sh"), VERSION),),
        deletions=(delete("projects/C/x"),),
        clearings=(delete("projects/D"),),
    )
    touched = AffectedContent.by(plan)
    assert touched.projects == {"A", "B", "C"}
    assert touched.elsewhere, "files beside the projects belong to none"
    assert not touched.config
    assert not AffectedContent.by(SyncPlan(writes=(write("projects/A/x"),))).elsewhere


def test_configuration_is_seen() -> None:
    touched = AffectedContent.by(SyncPlan(writes=(write("config/resources/core/a/resource.json"),)))
    assert touched.config
    assert touched.elsewhere
    assert touched.projects == frozenset()


def test_what_ends_is_named_by_its_place() -> None:
    plan = SyncPlan(
        deletions=(
            delete("projects/A/project.json"),
            delete("projects/B/views/project.json"),
            delete("projects/C/project.json"),
            delete(f"{PROVIDER}/old/resource.json"),
            delete(f"{PROVIDER}/kept/config.json"),
            delete("config/resources/local/ignition/tag-provider/x/resource.json"),
        ),
        writes=(write("projects/C/project.json"),),
    )
    assert AffectedContent.by(plan).gone == {"projects/A", f"{PROVIDER}/old"}


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("user-lib/modules/x.modl", True),
        ("user-lib/modules/X.MODL", True),
        ("user-lib/modules/x.jar", True),
        ("user-lib/modules/readme.txt", False),
        ("user-lib/modules/old/x.modl", False),
        ("projects/A/x.modl", False),
    ],
)
def test_modules(path: str, *, answer: bool) -> None:
    assert is_module(path) is answer


def test_tag_providers_of_both_collections_are_expected(tmp_path: Path) -> None:
    for place in (f"{PROVIDER}/plant", "config/resources/external/ignition/tag-provider/hq"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "resource.json").write_text("{}")
    (tmp_path / PROVIDER / "no-resource").mkdir()
    (tmp_path / PROVIDER / "linked").symlink_to(tmp_path / PROVIDER / "plant")
    assert tag_provider_folders(tmp_path) == {
        "plant": f"{PROVIDER}/plant",
        "hq": "config/resources/external/ignition/tag-provider/hq",
    }
    assert tag_provider_folders(tmp_path / "nowhere") == {}


def test_a_change_of_a_parent_changes_its_heirs(tmp_path: Path) -> None:
    parents = {"base": "", "line": "base", "cell": "line", "other": "", "circle": "circle", "odd": 7}
    for name, parent in parents.items():
        folder = tmp_path / "projects" / name
        folder.mkdir(parents=True)
        (folder / "project.json").write_text(json.dumps({"parent": parent}))
    (tmp_path / "projects" / "odd" / "project.json").write_text("{")
    assert with_inheriting_projects(tmp_path, frozenset({"base"})) == {"base", "line", "cell"}
    assert with_inheriting_projects(tmp_path, frozenset({"circle", "odd", "new"})) == {"circle", "odd", "new"}


def test_a_lock_is_held_as_long_as_the_plan_is_long_and_not_for_ever() -> None:
    assert lock_seconds(1) == 60
    assert lock_seconds(5000, 20.0) == 180
    assert lock_seconds(10_000_000) == MAX_HOLD_SECONDS == 600
