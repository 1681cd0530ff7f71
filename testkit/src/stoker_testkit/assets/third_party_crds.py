"""Definitions of kinds of others, of which pages and chart have objects: Argo CD's, Flux's, Kyverno's.

They are files of Go modules, pinned beside the binaries (`stoker_testkit/binaries/kinds`),
whose versions and digests are there and nowhere else. A module is downloaded by the
ordinary Go client into a folder that goes away again; only the files that `FILES` names
are kept. Nothing of a module is built or run.

Kargo is not among them: the registry of Go modules did not hand its module out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from stoker.domain.errors import Stalled
from stoker_testkit.assets.cache import cache_root, pin, tool_folder
from stoker_testkit.assets.go_toolchain import go_command
from stoker_testkit.file_lock import locked
from stoker_testkit.progress import TerminalProgress

PINS = "kinds"
LARGEST = 4 << 20
"""More than a definition may have: an API server takes no object above three megabytes."""

_MONITORING = "example/prometheus-operator-crd/monitoring.coreos.com_"
FILES: Mapping[str, tuple[str, ...]] = {
    "github.com/argoproj/argo-cd/v3": ("manifests/crds/application-crd.yaml",),
    "github.com/cert-manager/cert-manager": (
        "deploy/crds/cert-manager.io_certificates.yaml",
        "deploy/crds/cert-manager.io_issuers.yaml",
    ),
    "github.com/external-secrets/external-secrets": (
        "config/crds/bases/external-secrets.io_externalsecrets.yaml",
    ),
    "github.com/fluxcd/helm-controller": ("config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",),
    "github.com/fluxcd/kustomize-controller": (
        "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
    ),
    "github.com/fluxcd/source-controller": (
        "config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",
    ),
    "github.com/kyverno/kyverno": (
        "config/crds/policies.kyverno.io/policies.kyverno.io_mutatingpolicies.yaml",
        "config/crds/policies.kyverno.io/policies.kyverno.io_validatingpolicies.yaml",
    ),
    "github.com/open-policy-agent/gatekeeper/v3": (
        "config/crd/bases/constrainttemplate-customresourcedefinition.yaml",
        "config/crd/bases/match.gatekeeper.sh_matchcrd.yaml",
    ),
    "github.com/prometheus-operator/prometheus-operator": (
        f"{_MONITORING}podmonitors.yaml",
        f"{_MONITORING}prometheusrules.yaml",
        f"{_MONITORING}servicemonitors.yaml",
    ),
}

_SECONDS = 300.0


def ensure() -> Path:
    """The folder with all of the files; what is not there is downloaded, which takes half a minute."""
    folder = tool_folder(PINS)
    folder.mkdir(parents=True, exist_ok=True)
    if _lacking(folder):
        with locked(folder / ".lock"):
            lacking = _lacking(folder)  # another process may have fetched them while we waited
            if lacking:
                _fetch(lacking, folder)
    return folder


def _lacking(folder: Path) -> tuple[str, ...]:
    """The modules of which a file is missing."""
    return tuple(
        module
        for module, files in FILES.items()
        if not all((folder / PurePosixPath(file).name).is_file() for file in files)
    )


def _fetch(modules: tuple[str, ...], folder: Path) -> None:
    go = go_command(cache_root())
    for number, module in enumerate(modules, start=1):
        version, digest = pinned(module)
        progress = TerminalProgress(f"[{number}/{len(modules)}] fetching definitions of {module} {version}")
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            source = _download(go, module, version, digest, Path(scratch))
            for file in FILES[module]:
                _keep(source / file, Path(scratch), folder)
        progress.done()


def pinned(module: str) -> tuple[str, str]:
    """Its version and the digest of its content."""
    required = dict(re.findall(r"^\t(\S+) (v\S+)$", pin(PINS, "go.mod").decode(), re.MULTILINE))
    for line in pin(PINS, "go.sum").decode().splitlines():
        name, version, digest = line.split()
        if name == module and version == required.get(module):
            return version, digest
    raise Stalled(f"no version of {module} is pinned")


def _download(go: Path, module: str, version: str, digest: str, scratch: Path) -> Path:
    """The folder of the module's files, once their digest is the pinned one."""
    # Without requirements: Go would otherwise ask for what all of them need in turn.
    (scratch / "go.mod").write_text("module stoker.io/testing/fetching\n")
    (scratch / "go.sum").write_bytes(pin(PINS, "go.sum"))
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{module}@{version}"],
        cwd=scratch,
        env=_environment(scratch / "modules"),
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    downloaded = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if done.returncode or downloaded.get("Sum") != digest:
        why = downloaded.get("Error") or done.stderr.strip() or "its digest is not the pinned one"
        raise Stalled(f"{module} {version} could not be downloaded: {why}")
    return Path(downloaded["Dir"])


def _keep(file: Path, scratch: Path, folder: Path) -> None:
    if file.stat().st_size > LARGEST:
        raise Stalled(f"{file.name} is larger than any definition may be")
    whole = scratch / "whole"
    whole.write_bytes(file.read_bytes())
    whole.rename(folder / file.name)


def _environment(modules: Path) -> dict[str, str]:
    own = {"GOFLAGS": "-modcacherw", "GOMODCACHE": str(modules), "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **own}
