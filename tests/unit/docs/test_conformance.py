"""The references of docs/conformance exist: files, symbols, tests, and the cases of tests.

A row is `| id | what it says | where | shown by |`. In the third column each part
between semicolons is a file, below `src/stoker` or from the root, and symbols in it.
Every requirement has exactly one row; what is not built says why, and no page
promises it.
Whether a row tells the truth is for its reader; that it is not out of date is
for these tests.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "stoker"
PAGES = sorted(page for page in (ROOT / "docs" / "conformance").glob("*.md") if page.stem != "README")

# Every requirement that was asked for, one id on a line.
REQUIREMENTS = (ROOT / "tests" / "data" / "requirements.txt").read_text().split()

# What is left out on purpose. Each says why in its own row, and no page may promise it.
LEFT_OUT = {
    "R-API-161",
    "R-CHART-12",
    "R-CHART-22",
    "R-CHART-23",
    "R-CHART-30",
    "R-CHART-32",
    "R-CHART-33",
    "R-CM-24",
    "R-CTRL-24",
    "R-GIT-13",
    "R-INJ-31",
    "R-INTEG-08",
    "R-INTEG-09",
    "R-REV-17",
    "R-REV-37",
    "R-REV-50",
    "R-REV-60",
    "R-ROADMAP-02",
    "R-ROADMAP-09",
    "R-SCALE-06",
    "R-SCALE-09",
    "R-SEC-19",
}
# Words that mean it. They may be used where something is denied, and nowhere else.
NEVER_PROMISED = (
    "includeMappingsFrom",
    "condition.podLabel",
    "gatewayOverrides",
    "IgnitionSyncFederation",
    "federation",
    "OperatorHub",
    "ignition-stack",
    "accessPolicy",
    "agent_role.yaml",
    "charts/gitops-reverser",
    "NATS",
    "AWS SNS",
)
MAY_DENY = ("docs/api-versions.md", "docs/comparison.md", "docs/decision-matrix.md", "docs/conformance/")

# A page is called after its area, or by its whole name.
NAMES = {
    "BIDI": "bidirectional",
    "CTRL": "controller",
    "ENG": "engine",
    "HOOK": "receiver",
    "IGN": "ignition",
    "INJ": "injection",
    "INTEG": "integration",
    "OBS": "observability",
    "REV": "reverser",
    "SAFE": "safety",
    "SEC": "security",
    "STOR": "storage",
}

NOTHING = "none"
REASON = "Not built: "

_QUOTED = re.compile(r"`([^`]+)`")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(\[[^`]*\])?`")


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    says: str
    where: str
    shown_by: str


def page_of(area: str) -> Path:
    return ROOT / "docs" / "conformance" / f"{NAMES.get(area, area.lower())}.md"


def area_of(page: Path) -> str:
    return next((area for area, name in NAMES.items() if name == page.stem), page.stem.upper())


def rows_of(page: Path) -> list[Row]:
    lines = [line for line in page.read_text().splitlines() if line.startswith("| R-")]
    return [Row(*(cell.strip() for cell in line.strip().strip("|").split("|"))) for line in lines]


def named_tests(page: Path) -> list[tuple[str, str, str]]:
    """File, function and case of every test that the page names, in its rows or above them."""
    return [(match[1], match[2], match[3] or "") for match in _TEST.finditer(page.read_text())]


@functools.cache
def names_in(file: Path) -> frozenset[str]:
    """What a module defines at its top, and what its classes define, as `Class.name`."""
    module = ast.parse(file.read_text())
    names = set(_defined(module.body))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for name in _defined(node.body)}
    return frozenset(names)


def _defined(body: list[ast.stmt]) -> list[str]:
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return found


by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@by_page
def test_a_page_has_rows_of_its_own_area(page: Path) -> None:
    ids = [row.id for row in rows_of(page)]
    assert ids
    assert all(re.fullmatch(rf"R-{area_of(page)}-\d{{2,3}}", id_) for id_ in ids)
    assert ids == sorted(ids)


def test_no_requirement_is_listed_twice() -> None:
    ids = [row.id for page in PAGES for row in rows_of(page)]
    assert {id_ for id_ in ids if ids.count(id_) > 1} == set()


def test_every_requirement_has_its_row_and_there_is_no_other() -> None:
    assert len(REQUIREMENTS) == len(set(REQUIREMENTS)) == 697
    assert {row.id for page in PAGES for row in rows_of(page)} == set(REQUIREMENTS)


def test_what_is_left_out_says_why_and_nothing_else_is() -> None:
    rows = {row.id: row for page in PAGES for row in rows_of(page)}
    assert {id_ for id_, row in rows.items() if REASON in row.says} == LEFT_OUT
    short = {id_ for id_ in LEFT_OUT if len(rows[id_].says.split(REASON)[-1].split()) < 15}
    assert short == set()


@pytest.mark.parametrize("word", NEVER_PROMISED)
def test_nothing_promises_what_is_left_out(word: str) -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("charts/**/*.md")]
    found = [page.relative_to(ROOT).as_posix() for page in pages if _says(page, word)]
    assert [page for page in found if not page.startswith(MAY_DENY)] == []


def _says(page: Path, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", page.read_text()) is not None


@by_page
def test_every_place_exists(page: Path) -> None:
    missing = []
    for row in rows_of(page):
        for part in row.where.split(";") if row.where != NOTHING else ():
            file, *symbols = _QUOTED.findall(part)
            path = next((one for one in (SOURCE / file, ROOT / file) if one.is_file()), None)
            if path is None:
                missing.append(f"{row.id}: {file}")
            elif path.suffix == ".py":
                missing += [f"{row.id}: {file} {name}" for name in symbols if name not in names_in(path)]
    assert missing == []


@by_page
def test_every_named_test_exists(page: Path) -> None:
    missing = [
        f"{file}::{name}"
        for file, name, _ in named_tests(page)
        if not (ROOT / file).is_file() or name not in names_in(ROOT / file)
    ]
    assert missing == []


@by_page
def test_a_row_names_a_test_unless_there_is_nothing_to_test(page: Path) -> None:
    for row in rows_of(page):
        assert row.says, row.id
        if row.id in LEFT_OUT and row.where == NOTHING:
            assert row.shown_by == NOTHING, row.id
        else:
            assert row.where != NOTHING, row.id
            assert _TEST.search(row.shown_by), row.id


def test_every_named_case_is_one_that_pytest_runs() -> None:
    named = {one for page in PAGES for one in named_tests(page) if one[2]}
    files = sorted({file for file, _, _ in named})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-o",
        "addopts=--import-mode=importlib",
    ]
    collected = set(_output_of([*command, *files]).splitlines())
    assert len(collected) > len(named) > 0
    assert {f"{file}::{name}{case}" for file, name, case in named} - collected == set()


def test_the_gate_is_style_types_layers_tests_coverage_and_generated_files() -> None:
    gate = (ROOT / ".ci" / "run").read_text()
    targets = re.findall(r"^make ([\w-]+)$", gate, re.MULTILINE)
    assert targets == ["test", "test-all", "verify"]
    planned = _output_of(["make", "--dry-run", *targets])
    steps = ["ruff format --check", "ruff check", "mypy", "lint-imports", "pytest -n 3 --tier=fast"]
    steps += ["pytest -n 4 --tier=rest", "coverage-floor 90", "generate --check"]
    assert [step for step in steps if step not in planned] == []
    assert "--last-failed" not in planned, "no failure is run a second time"


def _output_of(command: list[str]) -> str:
    """What a command prints; it does not learn that it was called by make and pytest."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "MAKE", "MFLAGS"))
    }
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=100)
    return done.stdout
