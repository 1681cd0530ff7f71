"""The chart of a release: packaged with its image, pushed to a real registry and rendered from there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from stoker import __version__
from stoker_testkit.chart.helm import Helm
from stoker_testkit.services.oci_registry import Registry

ROOT = Path(__file__).parents[3]
IMAGE = "registry.example.com/plant/stoker"

pytestmark = pytest.mark.services


def test_the_chart_in_a_registry_installs_the_image_of_its_release_without_any_value(tmp_path: Path) -> None:
    script("package-chart", tmp_path, IMAGE)
    with Registry.start(tmp_path / "registry") as registry:
        script("push-chart", tmp_path, f"{registry.host}/charts", "--plain-http")
        rendered = Helm(tmp_path).run(
            "template",
            "stoker",
            f"oci://{registry.host}/charts/stoker",
            "--plain-http",
            f"--version={__version__}",
        )
    objects = [one for one in yaml.safe_load_all(rendered.stdout) if one]
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] in ("Deployment", "Job")]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {
        f"{IMAGE}:{__version__}"
    }


def test_a_chart_from_a_checkout_names_the_value_that_it_needs(tmp_path: Path) -> None:
    refused = Helm(tmp_path).run("template", "stoker", ROOT / "charts/stoker", check=False)
    assert refused.returncode == 1
    assert "image.repository is empty: install the chart of a release" in refused.stderr


@pytest.mark.parametrize("image", ["registry.example.com/stoker:1", "registry.example.com/stoker@sha256:0"])
def test_the_tag_of_the_image_is_the_version_of_the_chart(image: str, tmp_path: Path) -> None:
    refused = script("package-chart", tmp_path, image, check=False)
    assert (refused.returncode, list(tmp_path.glob("*.tgz"))) == (2, [])
    assert f"{image} has a tag or a digest" in refused.stderr


def script(name: str, dist: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return subprocess.run(
        [ROOT / "scripts" / name, *arguments],
        env=kept | {"DIST": str(dist)},
        check=check,
        capture_output=True,
        text=True,
        timeout=120,
    )
