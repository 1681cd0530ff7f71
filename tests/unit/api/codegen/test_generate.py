"""Generated files cannot fall behind the types unnoticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from stoker.api.codegen.crd import crd_for
from stoker.api.codegen.generate import main, stale_files
from stoker.api.codegen.reference_page import GENERATED
from stoker.api.registry import KINDS

ROOT = Path(__file__).parents[4]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert main(["--root", str(tmp_path)]) == 0
    return tmp_path


def test_what_is_in_the_repository_is_up_to_date() -> None:
    assert stale_files(ROOT) == []


def test_check_is_content_after_generating(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(project), "--check"]) == 0
    assert capsys.readouterr().err == ""


def test_check_names_files_that_were_edited_are_missing_or_belong_to_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = project / "config" / "crd" / "stoker.io_stokers.yaml"
    edited.write_text(edited.read_text().replace("Namespaced", "Cluster"))
    (project / "docs" / "spec" / "watchrule.md").unlink()
    (project / "config" / "crd" / "stoker.io_furnaces.yaml").write_text(f"# {GENERATED}\n")
    (project / "docs" / "spec" / "index.md").write_text("Written by hand.\n")
    assert main(["--root", str(project), "--check"]) == 1
    printed = capsys.readouterr().err
    assert [line.split(" is out of date")[0] for line in printed.splitlines()] == [
        "config/crd/stoker.io_furnaces.yaml",
        "config/crd/stoker.io_stokers.yaml",
        "docs/spec/watchrule.md",
    ]
    assert edited.read_text().count("scope: Cluster") == 1, "a check writes nothing"


def test_check_notices_a_changed_example(project: Path) -> None:
    example = project / "examples" / "stoker-minimal.yaml"
    example.write_text(example.read_text() + "  paused: true\n")
    assert stale_files(project) == [project / "docs" / "spec" / "stoker.md"]


def test_a_crd_file_holds_the_crd(project: Path) -> None:
    assert (project / "config" / "crd" / "sync.ignition.io_ignitionsyncs.yaml").is_file()
    for kind in KINDS:
        file = project / "config" / "crd" / f"{kind.group}_{kind.plural}.yaml"
        assert yaml.safe_load(file.read_text()) == crd_for(kind)


def test_a_page_has_the_examples_every_field_and_the_rules(project: Path) -> None:
    page = (project / "docs" / "spec" / "gitdestination.md").read_text()
    for words in (
        "# GitDestination",
        (project / "examples" / "gitdestination.yaml").read_text().strip(),
        "| **`baseFolder`** | text |",
        "| `prune` | text | `Always` | `Always`, `Never`, `OnEvent` |",
        "| `batch.maxWait` | text | `20s` |",
        "| `orphansKept` | number |",
        "| SecretsInClear | Secrets are written without encryption. |",
        "- `spec.encryption`: encryption.recipients must be given when secretPolicy is Encrypt",
    ):
        assert words in page
