"""The permissions of a resource's agents."""

from __future__ import annotations

from typing import Any

from stoker.controller.cache.objects import ResourceKey
from stoker.controller.owned.rbac import rules_for
from stoker.kube.watch.store import ObjectKey

KEY = ResourceKey("Stoker", ObjectKey("line", "plant"))


def _maps(rules: list[dict[str, Any]], verb: str) -> set[str]:
    return {
        name
        for rule in rules
        if rule["resources"] == ["configmaps"] and verb in rule["verbs"]
        for name in rule["resourceNames"]
    }


def test_bidirectional_sync_adds_eight_configmaps_that_can_be_read_and_written_and_not_made() -> None:
    without, with_it = rules_for(KEY, 1), rules_for(KEY, 1, changes=True)
    added = {f"stoker-changes-{number}-plant" for number in range(8)}
    assert _maps(without, "patch") == {"stoker-status-plant", "stoker-statusshard-1-plant"}
    for verb in ("get", "patch"):
        assert _maps(with_it, verb) - _maps(without, verb) == added
    assert {verb for rule in with_it for verb in rule["verbs"]} == {"get", "list", "watch", "patch"}
