"""Finds or builds the cluster's binaries.

Nothing that Python, npm or Debian packages ship holds a `kube-apiserver`, so a
set of binaries is looked for, in this order, and built where none is found:

    1. the folder that `KUBEBUILDER_ASSETS` names
    2. our cache folder, `~/.cache/stoker/cluster/<digest of the pinned go.mod and go.sum files>`
    3. a folder on PATH, if its binaries are new enough
    4. the archive that `setup-envtest` downloads, which holds no kube-controller-manager
    5. a build from the Go modules pinned in `stoker_testkit/binaries`, into the cache folder

A set counts only if one folder holds all of it: an API server and a controller
manager of different origin cause errors that are hard to find. The download
is tried only when it has all that is missing: the binaries share most of their
packages, so building the controller manager costs as much as building the set.

helm comes with the development dependencies. versitygw, an object store, and a registry of
OCI artifacts are built in the same way; Gitea, a forge, has a build of its own
(`stoker_testkit.assets.gitea_build`). CRDs of other projects are fetched, and not built
(`stoker_testkit.assets.third_party_crds`).

With `STOKER_BUILD=never` nothing is downloaded or built: what is missing is an error. `make test`
sets it.

What runs pods on a real node (kubelet, containerd, network plug-ins, policies) is a set of its own
that only `node` makes sure of.

`python -m stoker_testkit.assets.ensure_binaries` makes sure of all the rest and prints the folder of
the cluster's binaries as the last line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from stoker.domain.errors import Stalled, StokerError
from stoker_testkit.assets import envtest_download, gitea_build, go_build, third_party_crds
from stoker_testkit.assets.cache import cache_folder, missing, node_folder, tool_folder
from stoker_testkit.assets.go_toolchain import refuse_when_never

CONTROL_PLANE = ("etcd", "kube-apiserver", "kubectl")
ALL = (*CONTROL_PLANE, "kube-controller-manager")
NODE = (*go_build.KUBELET, *go_build.CONTAINERD, *go_build.CNI, go_build.POLICIES)
"""The programs that run pods, beside `ALL`; built only for a real node."""

OLDEST_KUBERNETES = (1, 34, 0)
OLDEST_ETCD = (3, 5, 13)
"""Before this one, etcd cannot tell the API server how far a watch is, and streaming lists fail."""
OLDEST_HELM = (3, 17, 0)
"""The first that can take over CRDs which another client has applied (`--take-ownership`)."""


def ensure(names: Collection[str] = ALL) -> Path:
    """A folder that holds all the named binaries; made if there is none, which may take minutes."""
    chosen = os.environ.get("KUBEBUILDER_ASSETS")
    lacking = missing(names, Path(chosen)) if chosen else ()
    if lacking:
        sys.stderr.write(
            f"KUBEBUILDER_ASSETS names {chosen}, which lacks {', '.join(lacking)}: passed over\n"
        )
    found = find(names)
    if found is not None:
        return found
    refuse_when_never()
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not envtest_download.fetch(names, folder):
        go_build.build(names, folder)
    return folder


def find(names: Collection[str]) -> Path | None:
    """A folder that holds all of them already, or nothing; never touches the network."""
    chosen = os.environ.get("KUBEBUILDER_ASSETS")
    if chosen and not missing(names, Path(chosen)):
        return Path(chosen)
    if not missing(names, cache_folder()):
        return cache_folder()
    for folder in map(Path, os.get_exec_path()):
        if not missing(names, folder) and all(_new_enough(folder / name) for name in names):
            return folder
    return None


def node() -> Path:
    """The folder of what runs pods on a real node; made if there is none, which takes minutes."""
    folder = node_folder()
    if missing(NODE, folder):
        folder.mkdir(parents=True, exist_ok=True)
        go_build.build(NODE, folder)
    return folder


def helm() -> Path:
    """The helm to test the chart with: of the development dependencies, or the machine's own."""
    beside = Path(sys.executable).with_name("helm")
    own = shutil.which("helm")
    for program in (beside, *([Path(own)] if own is not None else [])):
        if os.access(program, os.X_OK) and _new_enough(program):
            return program
    oldest = ".".join(map(str, OLDEST_HELM))
    raise Stalled(f"helm {oldest} or newer was not found beside {sys.executable} nor on PATH; install it")


def versitygw() -> Path:
    """The server that is the object store; built if there is none, which takes a minute."""
    return _tool("versitygw")


def registry() -> Path:
    """The server that is the registry of artifacts; built if there is none, which takes a minute."""
    return _tool("registry")


def _tool(name: str) -> Path:
    folder = tool_folder(name)
    if missing((name,), folder):
        folder.mkdir(parents=True, exist_ok=True)
        go_build.build((name,), folder)
    return folder / name


def _new_enough(binary: Path) -> bool:
    oldest = {"etcd": OLDEST_ETCD, "helm": OLDEST_HELM}.get(binary.name, OLDEST_KUBERNETES)
    flags = {"kubectl": ("version", "--client"), "helm": ("version", "--short")}.get(
        binary.name, ("--version",)
    )
    try:
        text = subprocess.run([binary, *flags], capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.search(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return version is not None and tuple(map(int, version.groups())) >= oldest


def main() -> int:
    try:
        folder = ensure()
        gitea_build.ensure()
        versitygw()
        registry()
        third_party_crds.ensure()
    except StokerError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
