"""A scene whose processes have a folder of their own for what is temporary."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.testing.cluster.cluster_access import ClusterAccess
from stoker.testing.sites.canary_scene import Scene


@pytest.fixture
def scene(kinds: ClusterAccess, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return Scene(kinds, namespace, tmp_path)
