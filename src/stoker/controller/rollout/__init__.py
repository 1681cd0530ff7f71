"""Rollout: which gateways may take a commit now, and which wait.

    approval           a person approved exactly these plans
    stages             one group of gateways after the other, with a check
    dependency_order   weights and dependencies, one graph
    sync_concurrency   how many at once, how many a minute

All of it is pure: `decide.release` turns a `RolloutInputs` into a `RolloutDecision`. State is
kept in the resource's status or in the metadata ConfigMap, so that a new leader
continues where the last one stopped.
"""

from stoker.controller.rollout.decide import decide_release
from stoker.controller.rollout.dependency_order import dependency_wait_reason, transitive_dependencies
from stoker.controller.rollout.inputs import (
    HeldGateway,
    RolloutDecision,
    RolloutInputs,
    StageHealthCheck,
    StageHealthResult,
)

__all__ = [
    "HeldGateway",
    "RolloutDecision",
    "RolloutInputs",
    "StageHealthCheck",
    "StageHealthResult",
    "decide_release",
    "dependency_wait_reason",
    "transitive_dependencies",
]
