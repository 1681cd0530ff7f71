"""What integration tests share beyond the servers of all suites: a forge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.testing.gitea import Gitea


@pytest.fixture(scope="session")
def gitea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gitea]:
    """A real forge; tests that use it belong into the group of that name, so that one worker starts it."""
    with Gitea.start(tmp_path_factory.mktemp("gitea")) as forge:
        yield forge
