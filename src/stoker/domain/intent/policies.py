"""How and when a gateway may be changed, and the checks after a change.

Durations are seconds and sizes are bytes: only the adapter parses the spelling of a
manifest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stoker.domain.intent.files import BinaryPolicy
from stoker.domain.intent.source import SecretKey
from stoker.domain.refs import CommitId


class ScanOrder(StrEnum):
    PROJECTS_FIRST = "projectsFirst"
    CONFIG_FIRST = "configFirst"


@dataclass(frozen=True, slots=True)
class GatewayAccessPolicy:
    """How to reach the gateway's own API."""

    port: int = 8043
    tls: bool = True
    api_key: SecretKey | None = None
    api_key_header: str = "X-Ignition-API-Token"
    ca: SecretKey | None = None
    insecure_skip_verify: bool = False
    scan_order: ScanOrder = ScanOrder.PROJECTS_FIRST
    files_only: bool = False
    """Send no request to the gateway."""


class DesignerPolicy(StrEnum):
    WAIT = "wait"
    PROCEED = "proceed"
    FAIL = "fail"


class PerspectivePolicy(StrEnum):
    NONE = "none"
    GRACEFUL = "graceful"
    CLOSE = "close"


class RedundancyRole(StrEnum):
    STANDALONE = ""
    PRIMARY = "primary"
    BACKUP = "backup"


class TagInheritance(StrEnum):
    """Selects the tag type definitions for a gateway whose parent has some of them already."""

    FULL = "full"
    LEAF_ONLY = "leaf-only"


@dataclass(frozen=True, slots=True)
class IgnitionPolicy:
    """Settings that apply only to an Ignition gateway."""

    designer_sessions: DesignerPolicy = DesignerPolicy.WAIT
    designer_timeout: float = 300.0
    perspective_sessions: PerspectivePolicy = PerspectivePolicy.NONE
    redundancy_role: RedundancyRole = RedundancyRole.STANDALONE
    peer_gateway: str = ""
    binaries: BinaryPolicy = BinaryPolicy.ALLOW
    tag_provider: str = "default"
    tag_inheritance: TagInheritance = TagInheritance.FULL
    module_order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidationPolicy:
    """Checks that must pass before a file is changed."""

    dry_run_before: bool = False
    webhook_url: str = ""
    webhook_timeout: float = 10.0


class DriftMode(StrEnum):
    OFF = "off"
    REPORT = "report"
    RESTORE = "restore"
    CAPTURE = "capture"


@dataclass(frozen=True, slots=True)
class DriftIgnorePolicy:
    path: str
    json_pointer: str = ""


@dataclass(frozen=True, slots=True)
class DriftPolicy:
    """The reaction to a managed file that was changed on the gateway."""

    mode: DriftMode = DriftMode.REPORT
    interval: float = 300.0
    ignore: tuple[DriftIgnorePolicy, ...] = ()


class SnapshotScope(StrEnum):
    MANAGED = "managed"
    ALL = "all"


class SnapshotStorageKind(StrEnum):
    PVC = "pvc"
    S3 = "s3"
    GCS = "gcs"


@dataclass(frozen=True, slots=True)
class SnapshotBucketPolicy:
    """A location in an object store; the storage type determines which fields apply."""

    name: str = ""
    key_prefix: str = ""
    endpoint: str = ""
    region: str = ""
    credentials_secret: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """The snapshot that is taken before each sync."""

    enabled: bool = False
    retention_count: int = 5
    scope: SnapshotScope = SnapshotScope.MANAGED
    storage: SnapshotStorageKind = SnapshotStorageKind.PVC
    claim_name: str = ""
    bucket: SnapshotBucketPolicy = field(default_factory=SnapshotBucketPolicy)


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """A requested rollback, executed once for each distinct value."""

    to_snapshot: str = ""
    to_commit: CommitId | None = None


class ConflictStrategy(StrEnum):
    GIT_WINS = "gitWins"
    GATEWAY_WINS = "gatewayWins"
    MANUAL = "manual"


class ForgeKind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


@dataclass(frozen=True, slots=True)
class ForgePolicy:
    kind: ForgeKind
    url: str = ""
    token: SecretKey | None = None


@dataclass(frozen=True, slots=True)
class BidirectionalPolicy:
    """Bidirectional sync: a change made on the gateway becomes a pull request."""

    enabled: bool = False
    watch_paths: tuple[str, ...] = ()
    target_branch: str = "gateway-changes/{{.Namespace}}"
    debounce: float = 30.0
    create_pr: bool = True
    pr_labels: tuple[str, ...] = ("gateway-change", "auto-generated")
    conflicts: ConflictStrategy = ConflictStrategy.GIT_WINS
    max_file_bytes: int = 10 << 20
    max_files_per_pr: int = 100
    excludes: tuple[str, ...] = ("**/.resources/**", "**/secrets/**", "**/*.jar")
    forge: ForgePolicy | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceWindowPolicy:
    """Changes are applied only from each `cron` time on, for `duration` seconds."""

    cron: str
    duration: float
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class GatewayPolicies:
    """Every policy that the agent of one gateway follows."""

    access: GatewayAccessPolicy = field(default_factory=GatewayAccessPolicy)
    ignition: IgnitionPolicy = field(default_factory=IgnitionPolicy)
    validation: ValidationPolicy = field(default_factory=ValidationPolicy)
    drift: DriftPolicy = field(default_factory=DriftPolicy)
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    bidirectional: BidirectionalPolicy = field(default_factory=BidirectionalPolicy)
    maintenance_windows: tuple[MaintenanceWindowPolicy, ...] = ()
