"""Tables of the documentation match the code: versions, fields, secrets, packages, libraries.

Commands and manifests of pages are tried by `tests/docs`; here are the tables that
no reader would notice to be out of date.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.api.codegen.crd import schema_for
from stoker.api.registry import KINDS, CustomResourceKind

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "stoker"

# Page, and a heading or word that only the finished page has.
ASKED_FOR = {
    "charts/stoker/README.md": "**Never commit `.resources/`.**",
    "docs/ignition.md": "`.resources` in any folder",
    "docs/storage.md": "## Storage classes that can be mounted by many",
    "docs/capacity.md": "## What to turn, by size",
    "docs/runbook.md": "## Emergency stop",
    "docs/secrets.md": "## Git login",
    "docs/architecture.md": "pictures/layers.svg",
    "docs/api-versions.md": "## What you can rely on",
    "docs/migration.md": "git-sync",
    "docs/decision-matrix.md": "git-sync",
}


@pytest.mark.parametrize("page", ASKED_FOR)
def test_the_documents_that_were_asked_for_are_there(page: str) -> None:
    assert ASKED_FOR[page] in (ROOT / page).read_text()


def test_known_gaps_of_the_threat_model_are_documented() -> None:
    assert "**The agent shares its pod's service account**" in (ROOT / "charts/stoker/README.md").read_text()
    held = (ROOT / "docs" / "threat-model.md").read_text().split("## What is not held")[1]
    assert "An agent shares its pod's service account with the gateway" in held


def test_the_emergency_stop_comes_first() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert headings[0] == "Emergency stop"


def test_the_changelog_knows_the_version_and_its_sections() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text.index("## [Unreleased]") > 0
    assert stoker.__version__ in text
    sections = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_library_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[^\w-]", one)[0] for one in project["dependencies"]}
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"^\| `([\w-]+)` \|", text.split("## Dependencies")[1], re.MULTILINE))
    assert named == needed
    assert all(f"`{extra}` (" in text for extra in project["optional-dependencies"])


def test_nothing_loads_code_of_others() -> None:
    """Modules are named in the source: no entry points, no plug-ins, nothing that is compiled from text."""
    known = {
        "agent/sidecar/memory_release.py",
        "cli/commands.py",
    }  # load modules of the product's own, of its libraries and of the testkit
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        called = {_name_of(node.func) for node in ast.walk(_tree(file)) if isinstance(node, ast.Call)}
        assert not called & {"entry_points", "exec", "eval", "__import__", "compile_command"}, place
        assert "import_module" not in called or place in known, place


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_of_a_kind_has_its_promise(kind: CustomResourceKind) -> None:
    text = (ROOT / "docs" / "api-versions.md").read_text()
    (row,) = re.findall(rf"^\| {kind.name} \|(.*)\|(.*)\|(.*)\|$", text, re.MULTILINE)
    names = {
        name: note
        for note, cell in zip(("Stable: ", "", "Experimental: "), row, strict=True)
        for name in re.findall(r"`(\w+)`", cell)
    }
    schema: Any = schema_for(kind)
    fields = schema["properties"]["spec"]["properties"]
    assert names.keys() == fields.keys()
    for name, field in fields.items():
        lines = [note for note in ("Stable: ", "Experimental: ") if note in field.get("description", "")]
        assert lines == ([names[name]] if names[name] else []), name


def test_every_secret_that_a_resource_can_name_is_on_the_page() -> None:
    text = (ROOT / "docs" / "secrets.md").read_text()
    named: dict[str, set[str]] = {}
    for kind in KINDS:
        schema: Any = schema_for(kind)
        named[kind.name] = set(_secrets_in(schema["properties"]["spec"]))
    assert "git.auth.token.secretRef" in named["Stoker"]
    missing = {path for paths in named.values() for path in paths if f"`{path}`" not in text}
    assert missing == set()


def test_every_package_is_in_the_picture_and_on_its_page() -> None:
    packages = {place.name for place in SOURCE.iterdir() if (place / "__init__.py").is_file()}
    page = (ROOT / "docs" / "architecture.md").read_text()
    picture = (ROOT / "docs" / "pictures" / "layers.svg").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page.split("## What runs where")[0], re.MULTILINE)) == packages
    assert {package for package in packages if f">{package}</text>" not in picture} == set()
    assert "prefers-color-scheme: dark" in picture


def _secrets_in(schema: Mapping[str, Any], *above: str) -> Iterator[str]:
    for name, field in (schema.get("properties") or {}).items():
        inner = field.get("items", field)
        if name.endswith(("SecretRef", "secretRef")):
            yield ".".join((*above, name))
        else:
            yield from _secrets_in(inner, *above, f"{name}[]" if "items" in field else name)


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())
