"""Builds the cluster's binaries from the Go modules pinned beside this file.

The last resort of `assets.ensure`, and the usual one: minutes the first time,
nothing after. One process builds at a time, each binary appears under its name
only when it is whole, and the modules and compiled packages stay where Go keeps
them, so a build that was cut short goes on where it was.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.errors import Stalled
from stoker_testkit.assets.cache import cache_root, missing, pin
from stoker_testkit.assets.go_toolchain import go_command
from stoker_testkit.file_lock import locked, try_locked
from stoker_testkit.processes import Process
from stoker_testkit.progress import TerminalProgress

KUBELET = ("kubelet", "kube-proxy", "kube-scheduler")
CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
CNI = {"bridge": "main", "loopback": "main", "host-local": "ipam"}
"""The network plug-ins, and the kind that each is of."""
POLICIES = "kube-network-policies"
"""Has a node's kernel heed NetworkPolicies."""

SECONDS = {
    "etcd": 50,
    "kube-apiserver": 250,
    "kubectl": 25,
    "kube-controller-manager": 55,
    "versitygw": 55,
    "registry": 105,
}
"""About how long a first build takes on two cores, in this order: later ones share packages with others."""

_VERSION_PACKAGE = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The build of one binary."""

    module: str
    package: str
    version: str
    linker_flags: str
    tags: str = ""

    @classmethod
    def of(cls, name: str) -> Recipe:
        """The one for a binary of this name; most are commands of Kubernetes."""
        if name == "etcd":
            package = "go.etcd.io/etcd/server/v3"
            return cls("etcd", package, _pinned("etcd", package), "-s -w")
        if name == "versitygw":
            module = "github.com/versity/versitygw"
            return cls(name, f"{module}/cmd/versitygw", _pinned(name, module), "-s -w")
        if name == "registry":
            module = "github.com/distribution/distribution/v3"
            return cls(name, f"{module}/cmd/registry", _pinned(name, module), "-s -w")
        if name in CONTAINERD:
            module = "github.com/containerd/containerd/v2"
            version = _pinned("containerd", module)
            flags = f"-s -w -X {module}/version.Version={version}"
            return cls("containerd", f"{module}/cmd/{name}", version, flags, "no_btrfs")
        if name in CNI:
            module = "github.com/containernetworking/plugins"
            return cls("cni", f"{module}/plugins/{CNI[name]}/{name}", _pinned("cni", module), "-s -w")
        if name == POLICIES:
            module = f"sigs.k8s.io/{name}"
            return cls("policies", f"{module}/cmd", _pinned("policies", module), "-s -w")
        pins = "node" if name in KUBELET else "kubernetes"
        version = _pinned(pins, "k8s.io/kubernetes")
        major, minor, _ = version.removeprefix("v").split(".")
        # Without these the server calls itself v0.0.0 and clients misjudge what it can do.
        stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags = " ".join(f"-X {_VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())
        return cls(pins, f"k8s.io/kubernetes/cmd/{name}", version, f"-s -w {flags}")


def build(names: Collection[str], folder: Path) -> None:
    """Build those of the named binaries that `folder` lacks."""
    with _turn(folder / ".lock"):
        wanted = missing(names, folder)  # another process may have built them while we waited
        if not wanted:
            return
        go = go_command(cache_root())
        _announce(wanted)
        for number, name in enumerate(wanted, start=1):
            recipe = Recipe.of(name)
            label = f"[{number}/{len(wanted)}] building {name} {recipe.version} from Go modules"
            _build_one(go, recipe, folder / name, TerminalProgress(label))


def _announce(names: Collection[str]) -> None:
    """Say what is built and about how long it takes; each binary then has a progress line of its own."""
    if not all(name in SECONDS for name in names):
        return
    minutes = -(-sum(SECONDS[name] for name in names) // 60)
    listed = ", ".join(names)
    sys.stderr.write(f"building {listed} once for this machine: about {minutes} min on two cores\n")


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """Hold the lock, and say so if that means waiting for minutes."""
    with try_locked(lock) as mine:
        if mine:
            yield
            return
    progress = TerminalProgress("waiting for another process that builds the same")
    with locked(lock):
        progress.done()
        yield


def _build_one(go: Path, recipe: Recipe, target: Path, progress: TerminalProgress) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        # The package's own folder may be read-only, and Go wants to be beside its go.mod.
        for file in ("go.mod", "go.sum"):
            Path(scratch, file).write_bytes(pin(recipe.module, file))
        made = Path(scratch, target.name)
        tags = ("-tags", recipe.tags) if recipe.tags else ()
        options = ("-mod=readonly", "-trimpath", *tags, "-ldflags", recipe.linker_flags)
        log = Path(scratch, "build.log")
        argv: list[str | Path] = [go, "build", *options, "-o", made, recipe.package]
        with Process.start(
            f"go build {target.name}", argv, log=log, env=_environment(), cwd=Path(scratch)
        ) as run:
            while not run.wait(progress.interval):
                progress.tick()
            if run.returncode:
                progress.failed()
                raise Stalled(f"{target.name} {recipe.version} could not be built: {run.tail()}")
        made.rename(target)
    progress.done()


def _environment() -> dict[str, str]:
    own = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **own}


def _pinned(module: str, package: str) -> str:
    """The version that the module's go.mod requires; its only source."""
    text = pin(module, "go.mod").decode()
    match = re.search(rf"^\s*(?:require )?{re.escape(package)} (v\S+)", text, re.MULTILINE)
    if match is None:
        raise Stalled(f"the pinned module {module} requires no {package}")
    return match[1]
