"""The real helm, against a control plane of ours.

Its caches and settings are in the control plane's folder, so that nothing of a person's
own helm is read or written.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.cluster.cluster_access import ClusterAccess, CommandFailed

CHART = Path(__file__).parents[4] / "charts" / "stoker"
IMAGE = "stoker"
SECONDS = 120.0
# The one in Python takes seconds for our CRDs.
_HelmYamlLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Helm:
    """One chart; on a cluster where one is given."""

    def __init__(self, folder: Path, cluster: ClusterAccess | None = None, chart: Path = CHART) -> None:
        self._folder = folder
        self._cluster = cluster
        self.chart = chart
        self._program = assets.helm()

    def run(self, *args: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it as the administrator; a failure raises with its words unless `check` is off."""
        homes = {
            f"HELM_{name}_HOME": str(self._folder / f"helm-{name}") for name in ("CACHE", "CONFIG", "DATA")
        }
        own = {} if self._cluster is None else {"KUBECONFIG": str(self._cluster.kubeconfig())}
        # A proxy that the environment names for the wide world knows no server on this machine.
        kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        done = subprocess.run(
            [self._program, *args],
            env={**kept, **homes, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        if check and done.returncode:
            raise CommandFailed(f"helm {' '.join(map(str, args))}: {done.stderr.strip()}")
        return done

    def lint(self, values: Mapping[str, object] | None = None) -> str:
        return self.run("lint", "--strict", self.chart, *self._values(values)).stdout

    def template(
        self,
        values: Mapping[str, object] | None = None,
        *flags: str,
        name: str = "stoker",
        namespace: str = "stoker-system",
    ) -> list[dict[str, Any]]:
        """The rendered objects."""
        result = self.run(
            "template", name, self.chart, f"--namespace={namespace}", *self._values(values), *flags
        )
        objects = yaml.load_all(result.stdout, Loader=_HelmYamlLoader)
        return [one for one in objects if one is not None]

    def refused(self, values: Mapping[str, object]) -> str:
        """Helm's error for values with which nothing is rendered."""
        done = self.run("template", "stoker", self.chart, *self._values(values), check=False)
        if not done.returncode:
            raise CommandFailed(f"helm renders with {values}")
        return done.stderr

    def install(
        self, name: str, namespace: str, values: Mapping[str, object] | None = None, *flags: str
    ) -> str:
        return self._release("install", name, namespace, values, *flags)

    def upgrade(
        self, name: str, namespace: str, values: Mapping[str, object] | None = None, *flags: str
    ) -> str:
        return self._release("upgrade", name, namespace, values, *flags)

    def uninstall(self, name: str, namespace: str, *flags: str) -> None:
        self.run("uninstall", name, f"--namespace={namespace}", *flags)

    def _release(
        self, verb: str, name: str, namespace: str, values: Mapping[str, object] | None, *flags: str
    ) -> str:
        return self.run(
            verb, name, self.chart, f"--namespace={namespace}", *self._values(values), *flags
        ).stdout

    def _values(self, values: Mapping[str, object] | None) -> list[str]:
        """The image first, which a chart of a checkout does not name; then what the caller gives."""
        paths = []
        for part in ({"image": {"repository": IMAGE}}, values or {}):
            paths.append(self._folder / f"values-{abs(hash(repr(part))):x}.yaml")
            paths[-1].write_text(yaml.safe_dump(dict(part)))
        return [f"--values={path}" for path in paths]
