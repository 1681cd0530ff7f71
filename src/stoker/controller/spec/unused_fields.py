"""Fields that somebody set and that nothing runs for.

A field is never silently ignored (DECISIONS part 0, 18): what is named here
stands in a Warning event and in the message of Ready, until the part of the
product that reads it runs and its name joins `IN_EFFECT`. What only agents read
is in effect here as soon as agents are told of it; they name what they leave out. Of
`storage` only an installation with shared volumes makes something.
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
    """The fields of the spec that are set and have no effect, as they are written in a manifest."""
    spec = msgspec.to_builtins(resource).get("spec", {})
    return tuple(sorted(name for name, value in spec.items() if value is not None and name not in in_effect))
