"""The parts of a real node that can be looked at without one."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured
from stoker_image.archives import Identity, write_archive
from stoker_image.trees import Tree
from stoker_image.wheels import PLACE
from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.assets.go_build import Recipe
from stoker_testkit.node import cni_network, image_archives, preflight, unshare
from stoker_testkit.node.memory_growth import MIB, Series


def test_every_binary_of_a_node_has_a_pinned_recipe() -> None:
    recipes = {name: Recipe.of(name) for name in assets.NODE}
    assert {one.module for one in recipes.values()} == {"node", "containerd", "cni", "policies"}
    assert recipes["kubelet"].version == Recipe.of("kube-apiserver").version, "one cluster, one version"
    assert recipes["ctr"].package.endswith("/cmd/ctr")
    assert recipes["host-local"].package.endswith("/plugins/ipam/host-local")


def test_the_pause_image_holds_one_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "busybox"
    program.write_bytes(b"a program")
    monkeypatch.setattr(shutil, "which", lambda _: str(program))
    image_archives.write_pause(tmp_path / "pause.tar")
    with tarfile.open(tmp_path / "pause.tar") as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(archive.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        assert manifest["RepoTags"] == [image_archives.PAUSE]
        with tarfile.open(fileobj=archive.extractfile(manifest["Layers"][0])) as layer:
            (only,) = layer.getmembers()
    assert (only.name, only.mode) == ("bin/busybox", 0o755)
    assert config["config"]["Entrypoint"][0] == "/bin/busybox"


def test_the_test_gateway_is_the_products_image_with_the_testkit_in_a_layer_of_its_own(
    tmp_path: Path,
) -> None:
    lowest = Tree()
    lowest.file("usr/local/bin/stoker", "the product")
    identity = Identity("0.1.0", "a commit", 0, "amd64")
    write_archive(tmp_path / "product.tar", lowest.tar(0), identity)
    image_archives.write_test_gateway(tmp_path / "gateway.tar", tmp_path / "product.tar")
    with tarfile.open(tmp_path / "gateway.tar") as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(archive.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        product, testkit = (archive.extractfile(name).read() for name in manifest["Layers"])  # type: ignore[union-attr]
    assert manifest["RepoTags"] == [image_archives.TEST_GATEWAY]
    assert config["config"]["Entrypoint"] == ["stoker"]
    unpacked = [gzip.decompress(product), testkit]
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in unpacked]
    assert config["rootfs"]["diff_ids"] == digests
    with tarfile.open(fileobj=io.BytesIO(testkit)) as layer:
        names = layer.getnames()
    assert f"{PLACE}/stoker_testkit/testing_command.py" in names
    assert all(name.startswith(f"{PLACE}/stoker_testkit/") for name in names)


def test_an_image_that_is_not_there_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(image_archives.ARCHIVE, str(tmp_path / "none.tar"))
    with pytest.raises(Misconfigured, match="`make image` makes it"):
        image_archives.product_archive()
    (tmp_path / "none.tar").touch()
    assert image_archives.product_archive() == tmp_path / "none.tar"


def test_pods_get_addresses_and_a_way_out(tmp_path: Path) -> None:
    cni_network.write_plugins(tmp_path / "plugins", tmp_path / "state")
    (file,) = (tmp_path / "plugins").iterdir()
    bridge, loopback = json.loads(file.read_text())["plugins"]
    assert (bridge["type"], loopback["type"]) == ("bridge", "loopback")
    assert bridge["ipam"]["ranges"] == [[{"subnet": cni_network.PODS}]]


def test_a_machine_without_root_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert preflight.why_not() == "it takes root"


def test_a_machine_that_cannot_runs_the_command_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    # A shell: a program that measures its coverage would say more than one line in such a test.
    command = ["sh", "-c", f'echo "${{{unshare.STATE}-none}}"; exit 3']
    monkeypatch.setattr(sys, "argv", ["enclosing", *command])
    monkeypatch.setattr(unshare, "missing", lambda *_: ())
    assert unshare.main() == 3
    printed = capfd.readouterr()
    assert printed.out == "none\n"
    assert printed.err == "no real node on this machine, so a kubelet without containers: it takes root\n"


def test_the_line_through_samples_distinguishes_growth_from_noise() -> None:
    grows = Series("a", [(60.0 * minute, (100 + minute) * MIB) for minute in range(31)])
    assert grows.slope() == pytest.approx(60.0)
    assert grows.growth() == pytest.approx(30.0)
    assert grows.since(900.0).growth() == pytest.approx(15.0)
    noise = Series("b", [(60.0 * minute, (100 + minute % 2) * MIB) for minute in range(31)])
    assert abs(noise.slope()) < 1.0
    assert Series("c", [(0.0, MIB)]).slope() == 0.0
