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
    """Policies of a sync; everything except its source."""

    gateway: Annotated[
        GatewaySpec | None,
        describe(
            "How agents reach their gateways; annotations on a pod take precedence for that gateway.",
            stability="stable",
        ),
    ] = None
    polling: Annotated[PollingSpec | None, describe("How often the controller polls the ref.")] = None
    webhook: Annotated[WebhookSpec | None, describe("Authentication of webhooks that request a sync.")] = None
    exclude_patterns: Annotated[
        GlobList | None,
        describe(
            "Files that are never synced, as globs; a trailing / means the folder and everything below it."
        ),
    ] = None
    orphans: Annotated[
        Literal["mirror", "owned"] | None,
        describe(
            "Which files are deleted below managed paths if they are not in git. owned: only files that a "
            "sync wrote; other files are kept and count as drift. mirror: all of them. A mapping can "
            "override this for its destination."
        ),
    ] = None
    deletion_budget: Annotated[
        DeletionBudgetSpec | None,
        describe(
            "How many files one sync may delete. Above either limit it stalls until its plan is approved; up "
            "to 10 files the percentage is ignored."
        ),
    ] = None
    normalize: Annotated[NormalizeSpec | None, describe("Values that differ per gateway.")] = None
    validation: Annotated[ValidationSpec | None, describe("Checks before anything is written.")] = None
    ignition: Annotated[
        IgnitionSpec | None,
        describe("Behaviour towards open Designers, Perspective sessions and redundant peers."),
    ] = None
    drift: Annotated[
        DriftSpec | None, describe("What happens when another process or user changes synced files.")
    ] = None
    maintenance_windows: Annotated[
        MaintenanceWindowList | None, describe("When gateways may be changed. None: at any time.")
    ] = None
    snapshots: Annotated[
        SnapshotSpec | None,
        describe_nullable("Snapshots of the files before each sync.", stability="experimental"),
    ] = None
    bidirectional: Annotated[
        BidirectionalSpec | None,
        describe_nullable(
            "Bidirectional sync: changes on gateways are proposed to git.", stability="experimental"
        ),
    ] = None
    rate_limit: Annotated[RateLimitSpec | None, describe("Limits on the number and rate of syncs.")] = None
    approval: Annotated[ApprovalSpec | None, describe("Approval of new commits by a user.")] = None
    alerting: Annotated[AlertingSpec | None, describe("Services that receive alerts.")] = None
    agent: Annotated[
        AgentContainerSpec | None, describe("The agent container that is injected into each gateway's pod.")
    ] = None
