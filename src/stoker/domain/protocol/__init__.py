"""The protocol between controller and agents, carried by ConfigMaps alone.

    names      which ConfigMap belongs to which resource, and its labels
    metadata   controller to agents: the desired commit and options
    report     agent to controller: the state of one gateway
    changes    agent to controller: change sets of bidirectional sync
    signature  whether the metadata is what the controller wrote last
    json, parse   frozen values to JSON objects and back, checked

Both sides use these values only; neither builds or reads the text of a ConfigMap
itself. Every reader accepts what an older or newer counterpart wrote: unknown keys
are ignored, a newer protocol version is refused by name.
"""

from stoker.domain.protocol.changes import (
    CHANGE_MAPS,
    ChangeAction,
    ChangedFile,
    ChangeSet,
    ChangeSetReply,
    ChangeSetResult,
)
from stoker.domain.protocol.metadata import (
    AgentMetadata,
    GatewayTarget,
    RollbackRequest,
    StatusKeyMode,
    SyncMode,
    is_digest,
    is_terminating,
)
from stoker.domain.protocol.names import (
    CR_KIND_LABEL,
    CR_NAME_LABEL,
    changes_map_name,
    metadata_map_name,
    resource_labels,
    status_map_name,
)
from stoker.domain.protocol.parse import PROTOCOL_VERSION
from stoker.domain.protocol.report import (
    MAX_REPORT_BYTES,
    ChecksumReport,
    DiffReport,
    DriftReport,
    DriftRestoreReport,
    FileChangeReport,
    GatewayChangesReport,
    GatewayReport,
    HeldProjectReport,
    HistoryEntryReport,
    PendingPlanReport,
    QuarantineReport,
    RollbackReport,
    SnapshotReport,
    SyncState,
)
from stoker.domain.protocol.signature import (
    check_order,
    check_signature,
    compute_signature,
    sign_data,
    strip_signature,
)

__all__ = [
    "CHANGE_MAPS",
    "CR_KIND_LABEL",
    "CR_NAME_LABEL",
    "MAX_REPORT_BYTES",
    "PROTOCOL_VERSION",
    "AgentMetadata",
    "ChangeAction",
    "ChangeSet",
    "ChangeSetReply",
    "ChangeSetResult",
    "ChangedFile",
    "ChecksumReport",
    "DiffReport",
    "DriftReport",
    "DriftRestoreReport",
    "FileChangeReport",
    "GatewayChangesReport",
    "GatewayReport",
    "GatewayTarget",
    "HeldProjectReport",
    "HistoryEntryReport",
    "PendingPlanReport",
    "QuarantineReport",
    "RollbackReport",
    "RollbackRequest",
    "SnapshotReport",
    "StatusKeyMode",
    "SyncMode",
    "SyncState",
    "changes_map_name",
    "check_order",
    "check_signature",
    "compute_signature",
    "is_digest",
    "is_terminating",
    "metadata_map_name",
    "resource_labels",
    "sign_data",
    "status_map_name",
    "strip_signature",
]
