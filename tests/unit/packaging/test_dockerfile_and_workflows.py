"""The Dockerfile and the workflows: what cannot be run here is at least held to what the rest says."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker import __version__
from stoker_image.archives import ENVIRONMENT, LICENCE
from stoker_image.assembling import find_uv
from stoker_image.contents import EXTRAS
from stoker_image.settling import USER
from stoker_image.wheels import requirements

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
_TARGET = re.compile(r"^([a-z0-9 -]+):", re.M)


def instructions(stage: str = DOCKERFILE) -> list[tuple[str, str]]:
    lines = [line.strip() for line in stage.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def last_stage() -> list[tuple[str, str]]:
    return instructions(DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :])


def test_the_dockerfile_describes_the_same_container_as_the_archive() -> None:
    fields = dict(last_stage())
    assert dict(pair.split("=", 1) for pair in fields["ENV"].split()) == ENVIRONMENT
    assert fields["USER"] == f"{USER}:{USER}"
    assert fields["ENTRYPOINT"] == '["stoker"]'


def test_every_part_that_is_shipped_names_the_licence() -> None:
    assert (ROOT / "LICENSE").read_text().split()[:4] == ["Apache", "License", "Version", "2.0,"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    testkit = tomllib.loads((ROOT / "testkit/pyproject.toml").read_text())["project"]
    assert (testkit["license"], testkit["license-files"]) == ("Apache-2.0", ["LICENSE"])
    chart = yaml.safe_load((ROOT / "charts/stoker/Chart.yaml").read_text())
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in DOCKERFILE
    assert LICENCE == "Apache-2.0"


def test_the_testkit_has_the_version_of_the_product_and_asks_for_it() -> None:
    """It uses modules of the product that are no public interface."""
    testkit = tomllib.loads((ROOT / "testkit/pyproject.toml").read_text())["project"]
    assert testkit["version"] == __version__
    assert testkit["dependencies"] == [f"stoker=={__version__}"]


def test_wheel_image_and_chart_have_one_version_and_one_tag() -> None:
    chart = yaml.safe_load((ROOT / "charts/stoker/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    check = ROOT / "scripts/release-version"
    assert subprocess.run([check, f"v{__version__}"], check=False).returncode == 0
    other = subprocess.run([check, "v9.9.9"], check=False, capture_output=True, text=True)
    assert (other.returncode, other.stderr) == (
        1,
        f"release-version: the source is {__version__}, the tag v9.9.9\n",
    )
    # The chart's tag is its version, without a `v`; the release pushes the image under the same.
    assert 'make push-image IMAGE="$IMAGE:${TAG#v}"' in (ROOT / ".github/workflows/release.yaml").read_text()


def test_the_image_has_no_testkit() -> None:
    assert "demo" not in EXTRAS
    locked = requirements(ROOT, find_uv())
    assert "\naiohttp==" in locked
    assert "testkit" not in locked


def test_nothing_is_run_or_installed_in_the_last_stage() -> None:
    words = [word for word, _ in last_stage()]
    assert "RUN" not in words
    assert last_stage()[0] == ("FROM", "scratch")


def test_the_base_is_slim_and_its_digest_is_an_argument() -> None:
    assert ("ARG", "BASE=debian:12-slim") in instructions()
    assert ("ARG", "BASE_DIGEST") in instructions()
    assert "${BASE}${BASE_DIGEST:+@${BASE_DIGEST}} AS assembled" in DOCKERFILE


def test_what_the_dockerfile_copies_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    def reaches(path: str) -> bool:
        kept = True
        for rule in ignored:
            pattern = rule.lstrip("!")
            if (
                rule
                and not rule.startswith("#")
                and any(fnmatch.fnmatch(path, p) for p in (pattern, f"{pattern}/*"))
            ):
                kept = rule.startswith("!")
        return kept

    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    names = [name for names in copied for name in names]
    assert "packaging" in names
    assert all(reaches(name) for name in names), names
    assert not reaches("src/stoker/__init__.py")
    assert not reaches(".git/config")


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request: pytest.FixtureRequest) -> Any:
    return yaml.safe_load(request.param.read_text())


def test_the_workflows_are_there() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yaml", "release.yaml", "scan.yaml"]


def test_a_job_has_an_end_and_no_right_that_is_not_named(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert "write-all" not in str(job.get("permissions"))


def test_each_action_is_held_to_a_version_or_a_commit(workflow: dict[str, Any]) -> None:
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w./-]+@(?:v?\d+(?:\.\d+)*|[0-9a-f]{40})", step["uses"]), step[
                "uses"
            ]


def test_each_make_target_of_a_workflow_exists(workflow: dict[str, Any]) -> None:
    targets = {name for line in _TARGET.findall((ROOT / "Makefile").read_text()) for name in line.split()}
    names = {
        name
        for step in steps(workflow)
        for name in re.findall(r"\bmake ([a-z-]+)\b", step.get("run", ""))
        if name
    }
    assert names <= targets


def test_every_action_is_pinned_by_the_hash_of_a_commit(workflow: dict[str, Any]) -> None:
    """A tag can be moved to other code, which would then run with the rights of a release."""
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    pinned = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
    assert [one for one in used if not (one.startswith("./") or pinned.fullmatch(one))] == []


def test_no_expression_of_an_event_is_put_into_a_script(workflow: dict[str, Any]) -> None:
    """The author of a branch's or a tag's name would otherwise write a line of the script."""
    assert not [step for step in steps(workflow) if "${{" in step.get("run", "")]


def test_a_release_is_signed_listed_and_traced() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    script = "\n".join(step.get("run", "") for step in steps(release))
    assert re.findall(r"make ([a-z-]+)", script) == [
        "release-version",
        "image-all",
        "push-image",
        "package-chart",
        "push-chart",
        "offline-bundle",
        "sign-image",
        "publish-release",
    ]
    signs = (ROOT / "scripts/sign-image").read_text()
    assert "cosign sign --yes" in signs
    assert "cosign attest --yes --type spdxjson" in signs
    assert any("attest-build-provenance" in step.get("uses", "") for step in steps(release))


def test_a_release_resolves_no_base_image() -> None:
    """It pushes the archives that were built from the lock files, byte for byte."""
    text = (ROOT / ".github/workflows/release.yaml").read_text()
    assert not re.search(r"buildx|build-push-action|imagetools|docker build|docker pull|debian:", text)
    assert "--preserve-digests" in (ROOT / "scripts/push-image").read_text()


def test_a_release_runs_only_make_targets() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    lines = [line for step in steps(release) for line in step.get("run", "").splitlines()]
    assert [line for line in lines if not line.startswith(("make ", "echo "))] == []


def test_the_image_is_scanned_each_week() -> None:
    scan = yaml.safe_load((ROOT / ".github/workflows/scan.yaml").read_text())
    minute, hour, day, month, weekday = scan[True]["schedule"][0]["cron"].split()  # YAML reads `on` as true
    assert (day, month) == ("*", "*")
    assert all(word.isdigit() for word in (minute, hour, weekday))
    assert sum("trivy-action" in step.get("uses", "") for step in steps(scan)) >= 2
