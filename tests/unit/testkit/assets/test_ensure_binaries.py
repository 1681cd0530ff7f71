"""The sources of the cluster's binaries, in their order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from stoker.domain.errors import Misconfigured, Stalled
from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.assets import third_party_crds
from stoker_testkit.assets.cache import cache_folder, missing, tool_folder
from stoker_testkit.assets.go_build import Recipe

SAYS = {
    "etcd": "etcd Version: 3.6.16",
    "kube-apiserver": "Kubernetes v1.36.3",
    "kube-controller-manager": "Kubernetes v1.36.3",
    "kubectl": "Client Version: v1.36.3",
}


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an empty cache and nothing chosen."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


def put(folder: Path, says: dict[str, str]) -> Path:
    """A folder of programs that say their version."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in says.items():
        (folder / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_chosen_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache_folder(), SAYS)
    chosen = put(tmp_path / "chosen", SAYS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(chosen))
    assert assets.ensure() == chosen


def test_a_chosen_folder_without_a_needed_binary_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = {name: text for name, text in SAYS.items() if name != "kube-controller-manager"}
    chosen = put(tmp_path / "chosen", three)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(chosen))
    put(cache_folder(), SAYS)
    assert assets.ensure(assets.CONTROL_PLANE) == chosen
    assert assets.ensure() == cache_folder()


def test_the_cache_comes_before_the_path(tmp_path: Path) -> None:
    put(tmp_path / "path", SAYS)
    assert assets.find(assets.ALL) == tmp_path / "path"
    put(cache_folder(), SAYS)
    assert assets.find(assets.ALL) == cache_folder()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kube-apiserver", "Kubernetes v1.33.9"),
        ("etcd", "etcd Version: 3.5.12"),
        ("kubectl", "no version at all"),
    ],
)
def test_old_binaries_on_the_path_do_not_count(tmp_path: Path, name: str, text: str) -> None:
    put(tmp_path / "path", SAYS | {name: text})
    assert assets.find(assets.ALL) is None


def test_a_program_that_cannot_be_run_does_not_count(tmp_path: Path) -> None:
    folder = put(tmp_path / "path", SAYS)
    (folder / "etcd").write_bytes(b"\x7fnot a program")
    assert assets.find(assets.ALL) is None
    (folder / "etcd").chmod(0o644)
    assert missing(assets.ALL, folder) == ("etcd",)


def test_the_command_prints_the_folder_last(tmp_path: Path) -> None:
    put(cache_folder(), SAYS)
    put(tool_folder("gitea"), {"gitea": "gitea version 1.26.0"})
    put(tool_folder("versitygw"), {"versitygw": "v1.8.0"})
    put(tool_folder("registry"), {"registry": "v3.1.2"})
    kinds = [PurePosixPath(file).name for files in third_party_crds.FILES.values() for file in files]
    put(tool_folder(third_party_crds.PINS), dict.fromkeys(kinds, "kind: CustomResourceDefinition"))
    done = subprocess.run(
        [sys.executable, "-m", "stoker_testkit.assets.ensure_binaries"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == str(cache_folder())


def test_helm_of_the_development_dependencies_comes_before_the_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "path", {"helm": "v3.19.0+gabcdef0"})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    assert assets.helm() == tmp_path / "path/helm"
    put(tmp_path / "venv", {"helm": "v3.17.3+ge4da497"})
    assert assets.helm() == tmp_path / "venv/helm"


def test_without_a_helm_that_is_new_enough_the_version_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "path", {"helm": "v3.16.9"})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    with pytest.raises(Stalled, match=r"helm 3\.17\.0 or newer"):
        assets.helm()


@pytest.mark.parametrize("asked", [assets.ensure, assets.versitygw, assets.registry, assets.node])
def test_nothing_is_built_where_that_is_forbidden(
    asked: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_BUILD", "never")
    with pytest.raises(Misconfigured, match="run: make assets"):
        asked()


def test_versions_are_read_from_the_pins_and_stamped_into_the_binaries() -> None:
    recipe = Recipe.of("kube-apiserver")
    assert recipe.package == "k8s.io/kubernetes/cmd/kube-apiserver"
    assert f"version.gitVersion={recipe.version}" in recipe.linker_flags
    assert "gitMajor=1 " in recipe.linker_flags
    assert Recipe.of("etcd").version.startswith("v3.6.")
    assert Recipe.of("versitygw").version.startswith("v1.8.")
    assert Recipe.of("registry").version.startswith("v3.1.")
