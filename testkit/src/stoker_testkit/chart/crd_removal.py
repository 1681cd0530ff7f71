"""The kinds of the chart taken away, with all that is of them."""

from __future__ import annotations

import time

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually

_OURS = ("crd", "--selector=app.kubernetes.io/part-of=stoker")
_PATIENCE = 120.0


def take_kinds_away(plane: ClusterAccess) -> None:
    """As `kubectl delete`, which may wait for minutes where a kind has just come.

    What its storage refuses while it starts makes the API server pause ever longer before
    it tries again; a change of the definition has it try at once.
    """
    plane.kubectl("delete", *_OURS, "--wait=false")
    eventually(lambda: not _left(plane), _PATIENCE, "the kinds go", interval=2.0)


def _left(plane: ClusterAccess) -> list[str]:
    names = plane.kubectl("get", *_OURS, "--output=name").stdout.split()
    for name in names:
        plane.kubectl("annotate", name, f"asked-again={time.time_ns()}", "--overwrite", check=False)
    return names
