"""The stage of the stories: started once, with every step timed on the terminal."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.environments.operator_environment import GatewaySite
from stoker_testkit.node.operator_cluster import OperatorCluster, open_stage
from stoker_testkit.node.unshare import STATE
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

# Processes of one machine share one network, which cannot be divided.
collect_ignore = [] if os.environ.get(STATE) else ["test_network_policies.py"]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorCluster]:
    with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def site(stage: OperatorCluster, tmp_path: Path) -> Iterator[GatewaySite]:
    """A namespace of its own, which goes with the story: agents at rest take their share of a node."""
    site = stage.site(f"site-{uuid.uuid4().hex[:8]}", tmp_path)
    yield site
    stage.cluster.keep_objects()
    stage.cluster.kubectl("delete", "namespace", site.namespace, "--wait=false")


@pytest.fixture
def git_server(stage: OperatorCluster, repositories: Path) -> Iterator[GitHttpServer]:
    """A git server that pods can reach."""
    with GitHttpServer.start(repositories, host=stage.address) as server:
        yield server


@pytest.fixture
def plant_repository(repositories: Path) -> Repository:
    return Repository.create(repositories / "plant.git")
