"""Fixtures of the telemetry tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def heard_as_before() -> Iterator[None]:
    """`logs.configure` is for the whole process: what a test sets there must not reach the next one."""
    before, root = structlog.get_config(), logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    structlog.configure(**before)
    root.setLevel(level)
    for handler in [each for each in root.handlers if each not in handlers]:
        if type(handler).__module__ == "stoker.telemetry.logs":
            root.removeHandler(handler)
