"""A service path that the commit does not have stalls, whatever else the mappings give."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import CommitTree, FileVersion, RefusedEntry, RefusedEntryKind, blob_of
from stoker.domain.intent.files import ExcludePolicy, FileMapping, FilesIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.desired_files import DesiredFiles
from stoker.engine.layout.layout import Layout

REPOSITORY = ("services/filler/projects/p/a", "services/packer/projects/p/a", "shared/scripts/s.py")


def mapped(service_path: str, *files: str, refused: tuple[RefusedEntry, ...] = ()) -> DesiredFiles:
    mappings = (
        FileMapping(f"{service_path}/projects", "projects", service_path=service_path),
        FileMapping(f"{service_path}/config", "config", service_path=service_path),
        FileMapping("shared/scripts", "projects/p/scripts"),
    )
    intent = FilesIntent(mappings, excludes=ExcludePolicy(("**/*.bak",)))
    values = TemplateValues(vars={"line": "filler"})
    version = FileVersion(blob_of(b"1"))
    return Layout(intent, values).map(CommitTree(dict.fromkeys(files or REPOSITORY, version), refused))


def test_shared_content_alone_is_no_sync_of_a_misspelt_service() -> None:
    with pytest.raises(Stalled) as stalled:
        mapped("services/fller")
    assert stalled.value.reason is Reason.SOURCE_EMPTY
    assert stalled.value.message == (
        "service path 'services/fller' does not exist at this commit; 'services' has 'filler'; "
        "nothing was changed. Correct the service path of the gateway (annotation service-path), "
        "or the repository"
    )


@pytest.mark.parametrize(
    ("service_path", "hint"),
    [
        ("servces/filler", "the root of the repository has 'services'"),
        ("services/x", "'services' has 'filler', 'packer'"),
        ("services/filler/proj/ects", "'services/filler' has 'projects'"),
        ("services", "no 'services/projects' or 'services/config'; it has 'filler', 'packer'"),
        ("services/filler/projects", "it has 'p'"),
    ],
)
def test_the_message_names_what_the_repository_has(service_path: str, hint: str) -> None:
    with pytest.raises(Stalled) as stalled:
        mapped(service_path)
    assert hint in stalled.value.message


@pytest.mark.parametrize(
    "files",
    [
        ("services/filler/projects/p/a",),
        ("services/filler/config/a",),
        ("services/filler/config/a.bak", "shared/scripts/s.py"),
    ],
    ids=["projects", "config alone", "all of it excluded"],
)
def test_one_part_of_the_layout_is_enough(files: tuple[str, ...]) -> None:
    mapped("services/filler", *files)


def test_a_symlink_in_place_of_a_part_is_a_part() -> None:
    link = RefusedEntry(
        "services/filler/projects", RelPath("services/filler/projects"), RefusedEntryKind.SYMLINK
    )
    desired = mapped("services/filler", "shared/scripts/s.py", refused=(link,))
    assert "services/filler/projects" in {note.path for note in desired.skipped}


def test_the_service_path_may_be_a_template() -> None:
    assert "projects/p/a" in mapped("services/{{.Vars.line}}").files
    with pytest.raises(Stalled, match="'services/fillerx' does not exist"):
        mapped("services/{{.Vars.line}}x")
