"""What integration tests share beyond the servers: our kinds, installed in the control plane."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from stoker.api.registry import KINDS
from stoker.testing.cluster_access import ClusterAccess
from stoker.testing.waiting import eventually

CRDS = Path(__file__).parents[2] / "config" / "crd"


@pytest.fixture(scope="session")
def kinds(control_plane: ClusterAccess) -> ClusterAccess:
    """The control plane with all CRDs served; the workers of a run install them one after another."""
    with (control_plane.folder / "crds.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        eventually(lambda: _published(control_plane), 30.0, "schemas of all kinds for kubectl explain")
        eventually(lambda: _discovered(control_plane), 30.0, "all kinds among the API server's resources")
    return control_plane


def _published(cluster: ClusterAccess) -> bool:
    """Whether the API server shows the schemas; it does so some time after a CRD is established."""
    return all(
        f'"kind":"{kind.name}"'.encode()
        in cluster.request("GET", f"/openapi/v3/apis/{kind.api_version}").body
        for kind in KINDS
    )


def _discovered(cluster: ClusterAccess) -> bool:
    """Whether kubectl knows the kinds; asking it also renews what it remembers between two calls."""
    names = cluster.kubectl("api-resources", "--cached=false", "-o", "name").stdout.split()
    return {f"{kind.plural}.{kind.group}" for kind in KINDS} <= set(names)
