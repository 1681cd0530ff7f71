"""The part of a spec that a base can supply to many resources.

None of these fields has a default in the schema: the API server would write it
into every resource and nothing could be inherited any more (C-128, C-129).
"""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, about, nullable
from stoker.api.scalars import Globs
from stoker.api.spec.bidirectional import Bidirectional
from stoker.api.spec.content import Normalize
from stoker.api.spec.delivery import Snapshots
from stoker.api.spec.gateway import Agent, Gateway, Ignition
from stoker.api.spec.policies import (
    Alerting,
    Approval,
    DeletionBudget,
    Drift,
    MaintenanceWindows,
    RateLimit,
    Validation,
)
from stoker.api.spec.triggers import Polling, Webhook


class Policies(Block):
    """How gateways are kept in sync, apart from where the content comes from."""

    gateway: Annotated[
        Gateway | None,
        about(
            "How agents reach their gateways; annotations on a pod win for that gateway.", stability="stable"
        ),
    ] = None
    polling: Annotated[Polling | None, about("How often the ref is looked at without being asked.")] = None
    webhook: Annotated[Webhook | None, about("Who may ask for a sync over HTTP.")] = None
    exclude_patterns: Annotated[
        Globs | None,
        about(
            "Files that are never synced, as globs; a trailing / means the folder and everything below it."
        ),
    ] = None
    orphans: Annotated[
        Literal["mirror", "owned"] | None,
        about(
            "Which files that git does not have are deleted below managed paths. owned: only those that a "
            "sync wrote; what others put there stays and counts as drift. mirror: all of them. A mapping can "
            "say it for its destination."
        ),
    ] = None
    deletion_budget: Annotated[
        DeletionBudget | None,
        about(
            "How much one sync may delete. Above either limit it stalls until its plan is approved; up to 10 "
            "files the percentage is not looked at."
        ),
    ] = None
    normalize: Annotated[Normalize | None, about("Values that differ per gateway.")] = None
    validation: Annotated[Validation | None, about("Checks before anything is written.")] = None
    ignition: Annotated[Ignition | None, about("Behaviour towards people and peers on the gateway.")] = None
    drift: Annotated[Drift | None, about("What happens when somebody else changes synced files.")] = None
    maintenance_windows: Annotated[
        MaintenanceWindows | None, about("When gateways may be changed. None: at any time.")
    ] = None
    snapshots: Annotated[
        Snapshots | None, nullable("Copies of the files before each sync.", stability="experimental")
    ] = None
    bidirectional: Annotated[
        Bidirectional | None, nullable("Changes on gateways that flow back to git.", stability="experimental")
    ] = None
    rate_limit: Annotated[RateLimit | None, about("How many gateways sync at once and how fast.")] = None
    approval: Annotated[Approval | None, about("Whether a person has to agree to a new commit.")] = None
    alerting: Annotated[Alerting | None, about("Who is told about what goes wrong.")] = None
    agent: Annotated[Agent | None, about("The container that is put beside each gateway.")] = None
