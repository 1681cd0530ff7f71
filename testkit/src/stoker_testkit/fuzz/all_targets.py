"""All fuzz targets."""

from __future__ import annotations

from stoker_testkit.fuzz import cluster_targets, source_targets
from stoker_testkit.fuzz.target import FuzzTarget

TARGETS: tuple[FuzzTarget, ...] = (*cluster_targets.TARGETS, *source_targets.TARGETS)
