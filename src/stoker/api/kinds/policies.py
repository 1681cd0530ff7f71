"""The part of a spec that a base can supply to many resources.

None of these fields has a default in the schema: the API server would write it
into every resource, and then nothing could be inherited.
"""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, describe, describe_nullable
from stoker.api.scalars import GlobList
from stoker.api.spec.bidirectional import BidirectionalSpec
from stoker.api.spec.content import NormalizeSpec
from stoker.api.spec.delivery import SnapshotSpec
from stoker.api.spec.gateway import AgentContainerSpec, GatewaySpec, IgnitionSpec
from stoker.api.spec.policies import (
    AlertingSpec,
    ApprovalSpec,
    DeletionBudgetSpec,
    DriftSpec,
    MaintenanceWindowList,
    RateLimitSpec,
    ValidationSpec,
)
from stoker.api.spec.triggers import PollingSpec, WebhookSpec


class InheritableSpec(Block):
    """How gateways are kept in sync, apart from where the content comes from."""

    gateway: Annotated[
        GatewaySpec | None,
        describe(
            "How agents reach their gateways; annotations on a pod win for that gateway.", stability="stable"
        ),
    ] = None
    polling: Annotated[
        PollingSpec | None, describe("How often the ref is looked at without being asked.")
    ] = None
    webhook: Annotated[WebhookSpec | None, describe("Who may ask for a sync over HTTP.")] = None
    exclude_patterns: Annotated[
        GlobList | None,
        describe(
            "Files that are never synced, as globs; a trailing / means the folder and everything below it."
        ),
    ] = None
    orphans: Annotated[
        Literal["mirror", "owned"] | None,
        describe(
            "Which files that git does not have are deleted below managed paths. owned: only those that a "
            "sync wrote; what others put there stays and counts as drift. mirror: all of them. A mapping can "
            "say it for its destination."
        ),
    ] = None
    deletion_budget: Annotated[
        DeletionBudgetSpec | None,
        describe(
            "How much one sync may delete. Above either limit it stalls until its plan is approved; up to 10 "
            "files the percentage is not looked at."
        ),
    ] = None
    normalize: Annotated[NormalizeSpec | None, describe("Values that differ per gateway.")] = None
    validation: Annotated[ValidationSpec | None, describe("Checks before anything is written.")] = None
    ignition: Annotated[
        IgnitionSpec | None, describe("Behaviour towards people and peers on the gateway.")
    ] = None
    drift: Annotated[
        DriftSpec | None, describe("What happens when another process or user changes synced files.")
    ] = None
    maintenance_windows: Annotated[
        MaintenanceWindowList | None, describe("When gateways may be changed. None: at any time.")
    ] = None
    snapshots: Annotated[
        SnapshotSpec | None,
        describe_nullable("Copies of the files before each sync.", stability="experimental"),
    ] = None
    bidirectional: Annotated[
        BidirectionalSpec | None,
        describe_nullable("Changes on gateways that flow back to git.", stability="experimental"),
    ] = None
    rate_limit: Annotated[RateLimitSpec | None, describe("How many gateways sync at once and how fast.")] = (
        None
    )
    approval: Annotated[ApprovalSpec | None, describe("Whether a person has to agree to a new commit.")] = (
        None
    )
    alerting: Annotated[AlertingSpec | None, describe("Services that get alerts.")] = None
    agent: Annotated[
        AgentContainerSpec | None, describe("The container that is put beside each gateway.")
    ] = None
