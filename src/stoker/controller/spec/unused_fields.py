"""Finds spec fields that are set and have no effect.

The controller never ignores a field silently. It names each of these fields in a Warning event and in the
message of Ready. When a part of the product starts to read a field, the field joins `IN_EFFECT`. A field that
only agents read is in effect as soon as the metadata ConfigMap carries it; agents name the fields that they
leave out. `storage` has an effect only in an installation with shared volumes.
"""

from __future__ import annotations

import msgspec

from stoker.api.kinds.resource import CustomResource as Model

IN_EFFECT = frozenset(
    {
        "additionalFiles",
        "agent",
        "alerting",
        "approval",
        "autoRollback",
        "bidirectional",
        "deletionBudget",
        "deployment",
        "drift",
        "excludePatterns",
        "gateway",
        "git",
        "ignition",
        "inheritsFrom",
        "maintenanceWindows",
        "normalize",
        "orphans",
        "paused",
        "polling",
        "rateLimit",
        "rollback",
        "shared",
        "siteNumber",
        "snapshots",
        "validation",
        "webhook",
        "webhookNamespaces",
    }
)


def fields_without_effect(resource: Model, in_effect: frozenset[str] = IN_EFFECT) -> tuple[str, ...]:
    """The fields of the spec that are set and have no effect, named as in a manifest."""
    spec = msgspec.to_builtins(resource).get("spec", {})
    return tuple(sorted(name for name, value in spec.items() if value is not None and name not in in_effect))
