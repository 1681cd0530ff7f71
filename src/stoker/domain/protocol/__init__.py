"""What controller and agents say to each other, in ConfigMaps and nowhere else.

    names      which map belongs to which resource, and its labels
    metadata   controller to agents: what to be at, and how
    reports    agent to controller: where one gateway stands
    changes    agent to controller: what somebody changed on a gateway
    signing    whether the metadata is what the controller wrote
    shapes     frozen values to JSON objects and back, checked

Both sides use these values and only these; neither ever builds or reads the
text of a map by itself. Every reader takes what an older or newer counterpart
may have written: unknown keys mean nothing, a newer protocol is refused by name.
"""

from stoker.domain.protocol.changes import (
    CHANGE_MAPS,
    Action,
    ChangedFile,
    ChangesAnswer,
    ChangeSet,
    ChangesResult,
)
from stoker.domain.protocol.metadata import (
    Metadata,
    Mode,
    RollbackRequest,
    StatusKeyMode,
    Target,
    is_digest,
    is_terminating,
)
from stoker.domain.protocol.names import (
    CR_KIND_LABEL,
    CR_NAME_LABEL,
    changes_map,
    labels_of,
    metadata_map,
    status_map,
)
from stoker.domain.protocol.report import (
    MAX_REPORT_BYTES,
    Checksums,
    Diff,
    DriftFound,
    FileChange,
    GatewayReport,
    HeldProject,
    HistoryEntry,
    OwnChanges,
    PendingPlan,
    Quarantine,
    RollbackOutcome,
    SnapshotTaken,
    SyncStatus,
)
from stoker.domain.protocol.signing import check_signature, signature, signed
from stoker.domain.protocol.parse import PROTOCOL_VERSION

__all__ = [
    "CHANGE_MAPS",
    "CR_KIND_LABEL",
    "CR_NAME_LABEL",
    "MAX_REPORT_BYTES",
    "PROTOCOL_VERSION",
    "Action",
    "ChangeSet",
    "ChangedFile",
    "ChangesAnswer",
    "ChangesResult",
    "Checksums",
    "Diff",
    "DriftFound",
    "FileChange",
    "GatewayReport",
    "HeldProject",
    "HistoryEntry",
    "Metadata",
    "Mode",
    "OwnChanges",
    "PendingPlan",
    "Quarantine",
    "RollbackOutcome",
    "RollbackRequest",
    "SnapshotTaken",
    "StatusKeyMode",
    "SyncStatus",
    "Target",
    "changes_map",
    "check_signature",
    "is_digest",
    "is_terminating",
    "labels_of",
    "metadata_map",
    "signature",
    "signed",
    "status_map",
]
