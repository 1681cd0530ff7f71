"""Tests of building and downloading, which the fast tier forbids elsewhere."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def building_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_BUILD", raising=False)
