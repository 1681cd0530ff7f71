"""An API server that goes away and comes back: how soon everybody is at work again.

One that has just been started refuses everybody until it has read who may do what, calls
every version too old and says that its storage is being read. None of that may be taken
for what a human must fix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

AWAY_SECONDS = 20.0
"""Long enough for pauses to have grown, and longer than the lease."""
SOON_SECONDS = 8.0
"""A busy machine needs most of it for itself."""
CRDS = Path(__file__).parents[3] / "config" / "crd"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    with ControlPlane.start(tmp_path / "plane") as running:
        running.kubectl("apply", "--server-side", "-f", str(CRDS))
        running.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        yield running


@pytest.mark.long
def test_a_change_is_seen_as_soon_as_the_server_is_back(
    plane: ControlPlane, tmp_path: Path, repositories: Path, git_http: GitHttpServer
) -> None:
    plant = Repository.create(repositories / "plant.git")
    first = plant.commit({"services/site/projects/site/project.json": "{}"})
    plane.create_namespace("plant")
    with Site.prepare(plane, "plant", tmp_path) as site:
        site.start()
        line = {"repo": git_http.url("plant.git")}
        site.apply("Stoker", "line", git={**line, "ref": "main"}, gateway={"filesOnly": True})
        site.until_metadata("line", commit=first)
        plane.stop_apiserver()
        began = time.monotonic()
        plant.tag("v2", plant.commit({"services/site/projects/site/project.json": "{ }"}))
        eventually(lambda: time.monotonic() - began > AWAY_SECONDS, AWAY_SECONDS + 10.0, "it was away")
        plane.start_apiserver()
        site.apply("Stoker", "line", git={**line, "ref": "v2"}, gateway={"filesOnly": True})
        site.until_metadata("line", patience=SOON_SECONDS, ref="v2", commit=plant.tip())
