"""The GitHub Actions workflows of the pages: every step is read, and the one that checks files is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_testkit.docs_checks.command_check import CommandCheck
from stoker_testkit.docs_checks.markdown_page import Page, all_pages, read_page
from stoker_testkit.docs_checks.yaml_fences import file_name
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.sample_ignition_repository import plant

pytestmark = pytest.mark.xdist_group("documents")

FOLDER = ".github/workflows/"
CHECK = f"{FOLDER}check.yaml"


def workflows(pages: list[Page]) -> dict[str, Any]:
    found = {file_name(fence.text): fence.text for page in pages for fence in page.fences}
    return {
        name: yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it makes texts, and leaves `on` a word
        for name, text in found.items()
        if name is not None and name.startswith(FOLDER)
    }


def steps(workflow: dict[str, Any]) -> Iterator[str]:
    for job in workflow["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


WORKFLOWS = workflows(all_pages())


def test_there_are_workflows() -> None:
    assert CHECK in WORKFLOWS
    assert all({"name", "on", "permissions", "jobs"} <= one.keys() for one in WORKFLOWS.values())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_step_of_a_workflow_is_a_command(name: str, examiner: CommandCheck) -> None:
    text = "\n".join(steps(WORKFLOWS[name])).replace("${{ matrix.gateway }}", "filler")
    page = read_page(f"# Page\n\n```sh\n{text}\n```\n", "docs/page.md")
    assert [str(one) for one in examiner.page(page)] == []


@pytest.mark.parametrize(
    ("broken", "code", "message"),
    [(False, 0, "projects/filler/project.json"), (True, 3, "ConfigSyntaxError")],
)
def test_a_pull_request_is_checked(tmp_path: Path, broken: bool, code: int, message: str) -> None:
    """In a shallow clone without a branch, as the action checks it out."""
    files = dict(plant())
    if broken:
        files["services/filler/projects/filler/project.json"] = "{"
    repository = Repository.create(tmp_path / "origin.git")
    repository.commit(files)
    workspace = tmp_path / "workspace"
    for argv in (
        ["clone", "--quiet", "--depth=1", f"file://{repository.path}", str(workspace)],
        ["-C", str(workspace), "checkout", "--quiet", "--detach"],
    ):
        subprocess.run(["git", *argv], check=True, timeout=30)
    (step,) = (one for one in steps(WORKFLOWS[CHECK]) if "stoker sync" in one)
    done = subprocess.run(
        ["bash", "-e", "-c", step.replace("${{ matrix.gateway }}", "filler")],
        cwd=workspace,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert message in done.stdout
