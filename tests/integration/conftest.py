"""Fixtures of the integration tests beyond the servers of all suites: a forge, a place for reversers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.clock import SystemClock, rfc3339
from stoker_testkit.chart.process_release import HOME, ProcessRelease
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.forges.gitea import GiteaServer
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.wait_until import eventually

from .cli.installed_operator import SECRET, InstalledOperator, ResourceSite


@pytest.fixture(scope="session")
def gitea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GiteaServer]:
    """A real forge; tests that use it belong into the group of that name, so that one worker starts it."""
    with GiteaServer.start(tmp_path_factory.mktemp("gitea")) as forge:
        yield forge


@pytest.fixture
def prod(repositories: Path) -> Repository:
    """An empty repository for a reverser to write to."""
    return Repository.create(repositories / "prod.git")


@pytest.fixture
def site(
    kinds: ClusterAccess, namespace: str, tmp_path: Path, prod: Repository, git_http: GitHttpServer
) -> Iterator[ReverserSite]:
    """A namespace in which reversers work."""
    with ReverserSite(kinds, namespace, tmp_path, git_http.url(prod.path.name)) as site:
        yield site


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledOperator]:
    """A cluster with a release of the chart; tests that use it belong into the group `doctor`."""
    values = {"crds": {"conversion": False}, "controller": {"removeFinalizers": {"enabled": False}}}
    with (
        ControlPlane.start(tmp_path_factory.mktemp("plane")) as plane,
        ProcessRelease(plane, tmp_path_factory.mktemp("release"), values) as release,
    ):
        plane.create_namespace(HOME)
        release.install()
        release.start("webhook", "controller")
        found = InstalledOperator(plane, release)
        found.until_led()
        yield found


@pytest.fixture
def resource_site(installed: InstalledOperator, tmp_path: Path, git_http: GitHttpServer) -> ResourceSite:
    """A namespace with one resource, its Secrets, and a gateway that is synced."""
    repository = Repository.create(git_http.root / "plant.git")
    repository.commit({"services/site/projects/P/project.json": "{}"})
    git_http.users["x-access-token"] = SECRET
    namespace = f"plant-{uuid.uuid4().hex[:8]}"
    installed.cluster.create_namespace(namespace)
    resource_site = ResourceSite(installed.cluster, namespace, tmp_path, installed=installed)
    resource_site.secret("git-credentials", token=SECRET)
    resource_site.secret("ignition-api-key", apiKey=f"stoker:{SECRET}")
    auth = {"token": {"secretRef": {"name": "git-credentials", "key": "token"}}}
    git = {"repo": git_http.url("plant.git"), "ref": "main", "auth": auth}
    key = {"name": "ignition-api-key", "key": "apiKey"}
    head = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "metadata": {"name": "line-1"}}
    spec = {"git": git, "gateway": {"apiKeySecretRef": key}}
    resource_site.post("/apis/stoker.io/v1alpha1", "stokers", {**head, "spec": spec})
    pod = resource_site.pod("filler-0", "line-1", gateway="filler")
    resource_site.until_metadata("line-1", commit=repository.tip())
    pod.report(str(repository.tip()), heartbeat_at=rfc3339(SystemClock().now()))
    eventually(
        lambda: resource_site.ready() == "True", 30.0, lambda: str(resource_site.status("Stoker", "line-1"))
    )
    return resource_site
