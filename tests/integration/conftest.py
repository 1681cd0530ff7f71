"""What integration tests share beyond the servers of all suites: a forge, a place for reversers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.testing.cluster.cluster_access import ClusterAccess
from stoker.testing.forges.gitea import Gitea
from stoker.testing.repositories.bare import Repository
from stoker.testing.repositories.git_http import GitHttpServer
from stoker.testing.reverser.site import ReverserSite


@pytest.fixture(scope="session")
def gitea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gitea]:
    """A real forge; tests that use it belong into the group of that name, so that one worker starts it."""
    with Gitea.start(tmp_path_factory.mktemp("gitea")) as forge:
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
