"""The kstatus of an object, by its published rules.

kubectl plugins, Flux's health checks, `kpt` and Config Sync compute it like this for a
kind that they do not know (sigs.k8s.io/cli-utils, `kstatus/status`): the generic
properties first, then a Ready condition, and whatever says nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

CURRENT = "Current"
IN_PROGRESS = "InProgress"
FAILED = "Failed"
TERMINATING = "Terminating"


class Computed(NamedTuple):
    """The status and why."""

    status: str
    why: str = ""


def kstatus(found: Mapping[str, Any]) -> Computed:
    """The rules, in their order."""
    metadata, status = found.get("metadata", {}), found.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return Computed(TERMINATING, "Resource scheduled for deletion")
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata.get("generation"):
        return Computed(IN_PROGRESS, f"generation is {metadata.get('generation')}, observed is {observed}")
    conditions = status.get("conditions") or []
    for one in conditions:
        if one["type"] == "Reconciling" and one["status"] == "True":
            return Computed(IN_PROGRESS, one["message"])
        if one["type"] == "Stalled" and one["status"] == "True":
            return Computed(FAILED, one["message"])
    ready = next((one for one in conditions if one["type"] == "Ready"), None)
    if ready is not None and ready["status"] != "True":
        return Computed(IN_PROGRESS, ready["message"])
    return Computed(CURRENT, "Resource is Ready" if ready is not None else "Resource is current")


def contradictions(found: Mapping[str, Any]) -> list[str]:
    """Contradictions in a status, as a reader of kstatus sees it."""
    status = found.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or []}
    by_type = {type_: one["status"] for type_, one in conditions.items()}
    wrong = [
        f"{type_} is {by_type[type_]}: it is there only while it is True"
        for type_ in ("Reconciling", "Stalled")
        if by_type.get(type_, "True") != "True"
    ]
    if {"Reconciling", "Stalled"} <= by_type.keys():
        wrong.append("it is on its way and stalled")
    if by_type.get("Ready") == "True" and by_type.keys() & {"Reconciling", "Stalled"}:
        wrong.append("it is ready and not done")
    if "Stalled" in by_type and conditions["Stalled"]["reason"] != conditions["Ready"]["reason"]:
        wrong.append("Ready has another reason than Stalled")
    if conditions and "observedGeneration" not in status:
        wrong.append("observedGeneration is missing")
    return wrong
