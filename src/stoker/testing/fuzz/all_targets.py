"""All fuzz targets."""

from __future__ import annotations

from stoker.testing.fuzz import cluster_targets, source_targets
from stoker.testing.fuzz.target import FuzzTarget

TARGETS: tuple[FuzzTarget, ...] = (*cluster_targets.TARGETS, *source_targets.TARGETS)
