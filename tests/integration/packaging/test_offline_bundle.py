"""The bundle for machines without a network: made from the lock file, installed without an index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker import __version__
from stoker_image.archives import Identity, join_archives, write_archive
from stoker_image.trees import Tree
from stoker_image.wheels import own_architecture

ROOT = Path(__file__).parents[3]
NAME = f"stoker-offline-{__version__}"
WHEN = 1_700_000_000

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("offline bundle")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked, for this interpreter and processor; the image in it is a small one."""
    dist = tmp_path_factory.mktemp("dist")
    uv = Path(sys.executable).with_name("uv")
    run(uv, "build", "--wheel", "--all-packages", "--quiet", "--out-dir", dist)
    run(ROOT / "scripts/package-chart", "registry.example.com/stoker", env={"DIST": str(dist)})
    tree = Tree()
    tree.file("etc/x", "x")
    write_archive(dist / "part.tar", tree.tar(WHEN), Identity(__version__, "0" * 40, WHEN, "amd64"))
    join_archives(dist / "stoker-image.tar", [dist / "part.tar"], WHEN)
    only = {"PYTHONS": f"{sys.version_info.major}.{sys.version_info.minor}", "ARCHS": own_architecture()}
    run(ROOT / "scripts/offline-bundle", env={"DIST": str(dist), "PYTHON": sys.executable, **only})
    run("tar", "-xf", dist / f"{NAME}.tar", "-C", dist)
    return dist / NAME


def test_it_installs_without_an_index_or_a_network(bundle: Path, tmp_path: Path) -> None:
    done = install(bundle, tmp_path / "stoker")
    assert f"stoker {__version__} is installed: {tmp_path}/stoker/bin/stoker" in done.stdout
    stoker = tmp_path / "stoker/bin/stoker"
    assert run(stoker, "sync", "--help").returncode == 0
    assert "--key-file" in run(stoker, "testing", "gateway", "--help").stdout, "the test gateway comes along"
    assert {path.name for path in bundle.iterdir()} == {
        "LICENSE",
        "README.txt",
        "SHA256SUMS",
        "install.sh",
        f"stoker-{__version__}.tgz",
        "stoker-image.tar",
        "wheels",
    }


def test_a_file_that_was_damaged_on_the_way_installs_nothing(bundle: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(bundle, tmp_path / "copied")
    with (damaged / "stoker-image.tar").open("ab") as file:
        file.write(b"x")
    done = install(damaged, tmp_path / "stoker", check=False)
    assert done.returncode == 1
    assert "files differ from SHA256SUMS" in done.stderr
    assert not (tmp_path / "stoker").exists()


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    done = run(ROOT / "scripts/offline-bundle", check=False, env={"DIST": str(tmp_path)})
    assert done.returncode == 1
    assert f"{tmp_path}/stoker-{__version__}-py3-none-any.whl is missing; run make image-all" in done.stderr


def install(bundle: Path, prefix: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    nowhere = "http://127.0.0.1:9"  # a request to an index would fail
    offline = {"PIP_INDEX_URL": nowhere, "http_proxy": nowhere, "https_proxy": nowhere}
    return run(bundle / "install.sh", prefix, check=check, env={"PYTHON": sys.executable, **offline})


def run(
    *command: str | Path, check: bool = True, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | (env or {}),
        check=check,
        capture_output=True,
        text=True,
        timeout=600,
    )
