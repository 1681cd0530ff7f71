"""The registry of kinds: what the API server and `kubectl` need to know about each, and its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stoker.api.kinds import destinations, ignitionsync, stoker, watchrules
from stoker.api.kinds.resource import CustomResource
from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import ConditionType as Type

VERSION = "v1alpha1"

# Not `stoker`: kubectl expands a category before it checks singular names, and
# `kubectl get stoker NAME` would request NAME of all eight kinds.
CATEGORY = "stoker-all"


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: Literal["string", "integer", "date", "boolean"] = "string"
    description: str = ""
    wide: bool = False
    """Shown only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class CustomResourceKind:
    """A kind of custom resource."""

    model: type[CustomResource]
    group: str
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[PrinterColumn, ...]
    conditions: Mapping[str, str]
    """Condition types that its status may carry, and the meaning of each when it is True."""
    annotations: Mapping[str, str]
    """Annotations with a meaning on the resource, written by people or by the product."""
    namespaced: bool = True
    version: str = VERSION
    notes: str = ""
    """A paragraph for the reference page."""

    @property
    def name(self) -> str:
        return self.model.__name__

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def has_status(self) -> bool:
        return "status" in self.model.__struct_fields__


def _condition(type_: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


_READY = PrinterColumn("Ready", _condition("Ready", "status"), description="Status of the condition Ready")
_REASON = PrinterColumn(
    "Reason", _condition("Ready", "reason"), description="Reason of the condition Ready", wide=True
)
_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date", "Time since creation")

_SYNC_COLUMNS = (
    PrinterColumn("Ref", ".spec.git.ref", description="Branch, tag or commit that the resource follows"),
    PrinterColumn(
        "Gateways",
        _condition("AllGatewaysSynced", "message"),
        description="Gateway sync status, such as '4 of 5 gateways synced'",
    ),
    PrinterColumn(
        "Synced", _condition("AllGatewaysSynced", "status"), description="Whether every gateway is synced"
    ),
    PrinterColumn("LastSync", ".status.lastSyncTime", "date", "Time since a gateway was last synced"),
    _READY,
    _AGE,
)

_SYNC_CONDITIONS: dict[str, str] = {
    Type.READY: "All other conditions are good.",
    Type.STALLED: "A user must act; Ready is False with the same reason.",
    Type.RECONCILING: "A reconciliation is in progress.",
    Type.REPO_CLONED: "The repository was read and the ref resolved to a commit.",
    Type.WEBHOOK_READY: "The webhook receiver accepts requests for this resource.",
    Type.ALL_GATEWAYS_SYNCED: "Every gateway has the commit; the message begins with N of M gateways synced.",
    Type.VERIFIED: "The gateways confirmed that they loaded the written files.",
    Type.AGENT_READY: "Every gateway has an agent with a current heartbeat.",
    Type.SIDECAR_INJECTED: "Every pod that requests an agent has one.",
    Type.REF_SKEW: "A gateway follows another ref than the resource.",
    Type.DRIFT_DETECTED: "Another process or user changed synced files.",
    Type.PENDING_APPROVAL: "A commit or a plan is waiting for approval.",
    Type.CANARY_STAGE_FAILED: "A stage failed and later stages were not started.",
    Type.AUTO_ROLLBACK_PERFORMED: "A failed sync was rolled back.",
    Type.BIDIRECTIONAL_READY: "Bidirectional sync: gateway changes are proposed to git.",
    Type.CONFLICT_DETECTED: "A file was changed both on a gateway and in git.",
    Type.DEPENDENCIES_MET: "All dependencies of this resource are met.",
}


def _sync_annotations(prefix: str) -> dict[str, str]:
    return {
        f"{prefix}/requested-ref": "Ref that a webhook requested; followed until spec.git.ref changes.",
        f"{prefix}/requested-at": "Time of that request.",
        f"{prefix}/requested-by": "Requester of that ref: webhook.",
        f"{prefix}/requested-source": "Type of the caller, such as github or argocd.",
        f"{prefix}/nudged-at": "When a webhook, or a user of the dashboard, last requested a sync.",
        f"{prefix}/nudged-source": "Type of the caller, such as github or dashboard.",
        f"{prefix}/traceparent": "Trace context of the last webhook, if tracing is enabled.",
        f"{prefix}/approved-by": "User who approved the pending commit.",
        f"{prefix}/approved-at": "Time of the approval; must be later than requested-at.",
        f"{prefix}/approved-ref": "Ref that was approved.",
        f"{prefix}/approved-plan": "Digest of a held plan (status, pendingPlan) approved for one run.",
    }


_RULE_CONDITIONS: dict[str, str] = {
    Type.READY: "The selected objects are watched and written.",
    Type.STALLED: "A user must act; Ready is False with the same reason.",
    Type.RECONCILING: "A reconciliation is in progress.",
    Type.ACCESS_DENIED: "Its destination or repository is in another namespace and does not allow this one.",
    Type.WATCH_ERRORED: "A watch failed and is retried.",
    Type.DISCOVERY_DEGRADED: "API discovery failed for some of the selected resources.",
    Type.REPO_PUSH_FAILED: "The last push failed and is retried.",
}
_RULE_COLUMNS = (
    PrinterColumn(
        "Destination", ".spec.destinationRef.name", description="GitDestination that the rule writes to"
    ),
    _READY,
    _REASON,
    _AGE,
)

KINDS: tuple[CustomResourceKind, ...] = (
    CustomResourceKind(
        model=ignitionsync.IgnitionSync,
        group=ignitionsync.GROUP,
        plural="ignitionsyncs",
        short_names=("igs",),
        columns=_SYNC_COLUMNS,
        conditions=_SYNC_CONDITIONS,
        annotations=_sync_annotations(ignitionsync.GROUP),
    ),
    CustomResourceKind(
        model=ignitionsync.IgnitionSyncBase,
        group=ignitionsync.GROUP,
        plural="ignitionsyncbases",
        short_names=("igsb",),
        columns=(_AGE,),
        conditions={},
        annotations={
            ignitionsync.ALLOWED_NAMESPACES: (
                "Namespaces whose resources may inherit from this base, separated by commas, or *. Without "
                "it only resources of the base's own namespace may."
            )
        },
        notes=(
            "A resource names its base in spec.inheritsFrom. Values of the resource take precedence; lists "
            "are joined and maps merged, except git.auth, which is taken as a whole from one of them. Fields "
            "that neither sets come from the chart's defaults and then from the built-in values below. As an "
            "alternative to a base, examples/policies does the same with the API server's "
            "MutatingAdmissionPolicy and with a Gatekeeper constraint."
        ),
    ),
    CustomResourceKind(
        model=stoker.Stoker,
        group=stoker.GROUP,
        plural="stokers",
        short_names=("stk",),
        columns=_SYNC_COLUMNS,
        conditions=_SYNC_CONDITIONS,
        annotations=_sync_annotations(stoker.GROUP),
    ),
    CustomResourceKind(
        model=stoker.SyncProfile,
        group=stoker.GROUP,
        plural="syncprofiles",
        short_names=("sp",),
        columns=(
            PrinterColumn("Gateways", ".status.gatewayCount", "integer", "Gateways that name this profile"),
            PrinterColumn("Paused", ".spec.paused", "boolean", "Whether its gateways are paused", wide=True),
            _READY,
            _REASON,
            _AGE,
        ),
        conditions={
            Type.READY: "The mappings are valid and the dependencies have no cycle.",
            Type.STALLED: "A user must act; Ready is False with the same reason.",
            Type.DEPENDENCIES_MET: "The gateways of every profile in dependsOn are synced.",
        },
        annotations={},
    ),
    CustomResourceKind(
        model=destinations.GitRepoConfig,
        group=destinations.GROUP,
        plural="gitrepoconfigs",
        short_names=("grc",),
        columns=(PrinterColumn("URL", ".spec.repoUrl", description="The repository"), _READY, _REASON, _AGE),
        conditions={
            Type.READY: "The repository can be reached with the credentials.",
            Type.STALLED: "A user must act; Ready is False with the same reason.",
            Type.RECONCILING: "A reconciliation is in progress.",
            Type.ACCESS_DENIED: "A policy forbids the repository; reserved.",
        },
        annotations={},
    ),
    CustomResourceKind(
        model=destinations.GitDestination,
        group=destinations.GROUP,
        plural="gitdestinations",
        short_names=("gd",),
        columns=(
            PrinterColumn("Repo", ".spec.repoRef.name", description="GitRepoConfig of the repository"),
            PrinterColumn("Branch", ".spec.branch", description="Branch that the destination writes to"),
            PrinterColumn("Folder", ".spec.baseFolder", description="Folder that the destination owns"),
            PrinterColumn("Secrets", ".spec.secretPolicy", description="How Secrets are written", wide=True),
            PrinterColumn("Prune", ".spec.prune", description="When files are deleted", wide=True),
            _READY,
            _REASON,
            _AGE,
        ),
        conditions={
            Type.READY: "This installation owns the folder and can write to it.",
            Type.STALLED: "A user must act; Ready is False with the same reason.",
            Type.RECONCILING: "A reconciliation is in progress.",
            Type.OWNERSHIP_CONFLICT: "The folder belongs to another cluster or installation.",
            Type.LEASE_NOT_ACQUIRED: "Another replica, or no replica, holds the Lease of this branch.",
            Type.MARKER_CONFLICT: "The ownership marker differs or could not be written.",
            Type.SECRETS_IN_CLEAR: "Secrets are written without encryption.",
            Type.SECRETS_EXCLUDED: "Secrets are not written, by spec.secretPolicy or reverser options.",
        },
        annotations={
            f"{destinations.GROUP}/approved-plan": "Digest of held deletions (status, heldDeletions) that "
            "are approved; separate several with commas.",
        },
    ),
    CustomResourceKind(
        model=watchrules.WatchRule,
        group=destinations.GROUP,
        plural="watchrules",
        short_names=("wr",),
        columns=_RULE_COLUMNS,
        conditions=_RULE_CONDITIONS,
        annotations={},
    ),
    CustomResourceKind(
        model=watchrules.ClusterWatchRule,
        group=destinations.GROUP,
        plural="clusterwatchrules",
        short_names=("cwr",),
        columns=_RULE_COLUMNS,
        conditions=_RULE_CONDITIONS,
        annotations={},
        namespaced=False,
    ),
)

_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


def kind_for(api_version: str, name: str) -> CustomResourceKind:
    """Return the kind that a manifest names in its header."""
    kind = _BY_NAME.get((api_version, name))
    if kind is None:
        known = ", ".join(f"{one.name} ({one.api_version})" for one in KINDS)
        raise InvalidValue(f"kind {name!r} of {api_version!r} is not a kind of Stoker: {known}")
    return kind
