"""The words that stand in conditions, events, metrics and log lines.

One word per cause, spelt once, so that a person who searches for what
`kubectl describe` showed finds the log line, the alert and the page of
`docs/troubleshooting.md` with it.
"""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """Condition types of all kinds (DECISIONS C-139 and the reverser's paper)."""

    READY = "Ready"
    STALLED = "Stalled"
    RECONCILING = "Reconciling"
    REPO_CLONED = "RepoCloned"
    WEBHOOK_READY = "WebhookReady"
    ALL_GATEWAYS_SYNCED = "AllGatewaysSynced"
    BIDIRECTIONAL_READY = "BidirectionalReady"
    AGENT_READY = "AgentReady"
    REF_SKEW = "RefSkew"
    PENDING_APPROVAL = "PendingApproval"
    DRIFT_DETECTED = "DriftDetected"
    SIDECAR_INJECTED = "SidecarInjected"
    CANARY_STAGE_FAILED = "CanaryStageFailed"
    AUTO_ROLLBACK_PERFORMED = "AutoRollbackPerformed"
    VERIFIED = "Verified"
    DEPENDENCIES_MET = "DependenciesMet"
    OWNERSHIP_CONFLICT = "OwnershipConflict"
    MARKER_CONFLICT = "MarkerConflict"
    LEASE_NOT_ACQUIRED = "LeaseNotAcquired"
    ACCESS_DENIED = "AccessDenied"
    WATCH_ERRORED = "WatchErrored"
    DISCOVERY_DEGRADED = "DiscoveryDegraded"
    REPO_PUSH_FAILED = "RepoPushFailed"
    SECRETS_IN_CLEAR = "SecretsInClear"


class Reason(StrEnum):
    """Why something is as it is."""

    # The consequences of the error tree, where nothing more exact is known.
    INTERNAL_ERROR = "InternalError"
    STALLED = "Stalled"
    WAITING = "Waiting"
    TRANSIENT_ERROR = "TransientError"
    PASS_INTERRUPTED = "PassInterrupted"

    # Input.
    INVALID_VALUE = "InvalidValue"
    INVALID_SPEC = "InvalidSpec"
    MISCONFIGURED = "Misconfigured"
    NO_MAPPINGS = "NoMappings"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    BASE_NOT_FOUND = "BaseNotFound"
    BASE_NOT_ALLOWED = "BaseNotAllowed"
    BASE_UNRESTRICTED = "BaseUnrestricted"
    DEPENDENCY_CYCLE = "DependencyCycle"
    SECRET_NOT_FOUND = "SecretNotFound"
    FEATURE_NOT_RUNNING = "FeatureNotRunning"
    FIELD_IGNORED = "FieldIgnored"
    ANNOTATION_IGNORED = "AnnotationIgnored"
    LEGACY_ANNOTATION = "LegacyAnnotation"
    UNKNOWN_ANNOTATION = "UnknownAnnotation"
    SECRET_IN_SPEC = "SecretInSpec"
    PORT_WITHOUT_TLS = "PortWithoutTLS"
    RUNTIME_FILES_NOT_EXCLUDED = "RuntimeFilesNotExcluded"

    # The API server.
    UNREACHABLE = "APIServerUnreachable"
    API_SERVER_ERROR = "APIServerError"
    UNAUTHORIZED = "Unauthorized"
    RBAC_DENIED = "RBACDenied"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    RESOURCE_VERSION_EXPIRED = "ResourceVersionExpired"
    TOO_MANY_REQUESTS = "TooManyRequests"
    REJECTED = "Rejected"
    LEADERSHIP_LOST = "LeadershipLost"

    # Git.
    REF_RESOLVED = "RefResolved"
    REF_NOT_FOUND = "RefNotFound"
    REF_AMBIGUOUS = "RefAmbiguous"
    REF_UPDATED = "RefUpdated"
    HISTORY_REWRITTEN = "HistoryRewritten"
    SIGNATURE_MISSING = "SignatureMissing"
    SIGNATURE_INVALID = "SignatureInvalid"
    SOURCE_UNREACHABLE = "SourceUnreachable"
    SOURCE_AUTH_FAILED = "SourceAuthFailed"
    HOST_KEY_NOT_TRUSTED = "HostKeyNotTrusted"
    SOURCE_TOO_LARGE = "SourceTooLarge"
    SOURCE_EMPTY = "SourceEmpty"
    GIT_FAILED = "GitFailed"

    # Writing to git. The first three are the words of the reverser's paper.
    AUTH_FAILED = "AuthFailed"
    NON_FAST_FORWARD = "NonFastForwardAfterRetry"
    NETWORK_ERROR = "NetworkError"
    PUSH_DECLINED = "PushDeclined"
    PUSH_TOO_LARGE = "PushTooLarge"
    PUSH_FAILED = "PushFailed"
    SIGNING_FAILED = "SigningFailed"

    # The data folder.
    STAGING_CONTAINS_RUNTIME_FILES = "StagingDirectoryContainsRuntimeFiles"
    DELETION_BUDGET_EXCEEDED = "DeletionBudgetExceeded"
    SYNC_IN_PROGRESS = "SyncInProgress"
    DATA_VOLUME_FAILED = "DataVolumeFailed"
    INVALID_JSON = "InvalidJSON"
    BINARY_REFUSED = "BinaryRefused"
    HOOK_FAILED = "HookFailed"
    NEVER_SYNCED = "NeverSynced"

    # The gateway.
    TOKEN_MALFORMED = "TokenMalformed"
    TOKEN_REJECTED = "TokenRejected"
    LEVEL_NOT_GRANTED = "LevelNotGranted"
    SECURE_REQUIRED = "SecureRequired"
    GATEWAY_STARTING = "GatewayStarting"
    GATEWAY_FAULTED = "GatewayFaulted"
    NOT_COMMISSIONED = "NotCommissioned"
    GATEWAY_UNREACHABLE = "GatewayUnreachable"
    CERTIFICATE_NOT_TRUSTED = "CertificateNotTrusted"
    GATEWAY_ERROR = "GatewayError"
    NOT_IGNITION_83 = "NotIgnition83"
    SCAN_LOCK_HELD = "ScanLockHeld"
    DESIGNER_SESSION_ACTIVE = "DesignerSessionActive"
    WAITING_FOR_PRIMARY = "WaitingForPrimary"
    PRIMARY_UNAVAILABLE = "PrimaryUnavailable"

    # The agent and what it is told.
    WRONG_POD = "WrongPod"
    METADATA_NOT_FOUND = "MetadataNotFound"
    METADATA_INVALID = "MetadataInvalid"
    METADATA_NOT_TRUSTED = "MetadataNotTrusted"
    PROTOCOL_TOO_NEW = "ProtocolTooNew"
    REF_NOT_RESOLVED = "RefNotResolved"
    TERMINATING = "Terminating"

    # Admission: what is put into pods, and what is said about a resource before it is stored.
    SIDECAR_INJECTED = "SidecarInjected"
    SIDECAR_OUTDATED = "SidecarOutdated"
    RESOURCE_NOT_FOUND = "ResourceNotFound"
    RESOURCE_AMBIGUOUS = "ResourceAmbiguous"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    POD_NOT_SELECTED = "PodNotSelected"
    DATA_VOLUME_NOT_FOUND = "DataVolumeNotFound"
    DATA_VOLUME_AMBIGUOUS = "DataVolumeAmbiguous"
    PORT_IN_USE = "PortInUse"
    IMAGE_NOT_PINNED = "ImageNotPinned"
    RUNS_AS_ROOT = "RunsAsRoot"
    DESTINATION_NOT_FOUND = "DestinationNotFound"
    FOLDERS_OVERLAP = "FoldersOverlap"
    BRANCH_NOT_ALLOWED = "BranchNotAllowed"
    APPROVER_MISMATCH = "ApproverMismatch"

    # The webhook receiver.
    LISTENER_ACTIVE = "ListenerActive"
    LISTENER_OFF = "ListenerOff"
    NO_CREDENTIAL = "NoCredential"
    PORT_MISMATCH = "PortMismatch"
    WEBHOOK_DISABLED = "WebhookDisabled"

    # A resource and its gateways, as the controller sees them.
    REF_RESOLVING = "RefResolving"
    GATEWAYS_SYNCING = "GatewaysSyncing"
    GATEWAYS_SYNCED = "GatewaysSynced"
    NO_GATEWAYS = "NoGateways"
    REPO_CLONED = "RepoCloned"
    SYNC_COMPLETED = "SyncCompleted"
    SYNC_FAILED = "SyncFailed"
    AGENT_STARTING = "AgentStarting"
    AGENT_HEALTHY = "AgentHealthy"
    AGENT_UNREACHABLE = "AgentUnreachable"
    SIDECAR_MISSING = "SidecarMissing"
    REF_SKEW_DETECTED = "RefSkewDetected"
    GATEWAY_FILES_MODIFIED = "GatewayFilesModified"
    DEPENDENCY_WAITING = "DependencyWaiting"
    DEPENDENCIES_SATISFIED = "DependenciesSatisfied"
    VERIFIED = "Verified"
    NONE_FOUND = "NoneFound"
    PROFILE_USABLE = "ProfileUsable"
    CONFLICT_DETECTED = "ConflictDetected"
    INVALID_ACCESS_MODE = "InvalidAccessMode"
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound"
    SHARED_MIRROR_BEHIND = "SharedMirrorBehind"
    GITHUB_APP_NOT_PERMITTED = "GitHubAppNotPermitted"

    # What a pass found.
    PAUSED = "Paused"
    SYNC_PARTIAL = "SyncPartial"
    NOT_VERIFIED = "NotVerified"
    PLAN_PENDING = "PlanPending"
    DRY_RUN = "DryRun"
    ORPHANS_KEPT = "OrphansKept"
