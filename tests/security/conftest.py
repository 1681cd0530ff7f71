"""A scene whose processes have a folder of their own for what is temporary."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.secret_leaks.namespace_scan import LeakScanNamespace


@pytest.fixture
def scene(
    kinds: ClusterAccess, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LeakScanNamespace:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return LeakScanNamespace(kinds, namespace, tmp_path)


@pytest.fixture(autouse=True)
def asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxies of a scene are for its programs: urllib would remember them for all tests that follow."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    monkeypatch.setattr(urllib.request, "_opener", direct)
