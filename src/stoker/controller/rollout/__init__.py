"""Rollout: decides which gateways apply a commit now, and which wait.

    approval           a person approved exactly these plans
    stages             one group of gateways after the other, with a health check
    dependency_order   weights and dependencies in one graph
    sync_concurrency   how many gateways at once, how many a minute

The decision is pure: `decide.decide_release` makes a `RolloutDecision` from `RolloutInputs`. State is kept in
the resource's status or in the metadata ConfigMap, so that a new leader continues where the last leader
stopped.
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
