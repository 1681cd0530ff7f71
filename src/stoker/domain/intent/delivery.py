"""How a commit reaches a fleet: triggers, order, stages, approval, alerts.

The controller evaluates these policies; an agent sees only the result, the commit that
it may apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret

MIN_POLLING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PollingPolicy:
    """How often the controller resolves the ref without a trigger."""

    enabled: bool = True
    interval: float = 60.0

    def __post_init__(self) -> None:
        if self.enabled and self.interval < MIN_POLLING_SECONDS:  # an interval of 0 would be a busy loop
            raise InvalidValue(
                f"polling.interval of {self.interval:g} s is shorter than {MIN_POLLING_SECONDS:g} s;"
                " to look only when told to, set polling.enabled to false"
            )


@dataclass(frozen=True, slots=True)
class ReceiverPolicy:
    """Which requests the webhook receiver accepts for this resource."""

    enabled: bool = True
    port: int = 8443
    hmac_key: SecretKey | None = None
    bearer: SecretKey | None = None
    allowed_refs: tuple[str, ...] = ()
    """Globs of the refs that a request may name besides the spec's own."""
    allowed_namespaces: tuple[str, ...] = ()


class VolumeAccessMode(StrEnum):
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE = "ReadWriteOnce"


@dataclass(frozen=True, slots=True)
class SharedVolumePolicy:
    """A shared repository volume, which replaces the agents' own clones."""

    storage_class: str = ""
    size_bytes: int = 1 << 30
    access_mode: VolumeAccessMode = VolumeAccessMode.READ_WRITE_MANY


class RolloutStrategy(StrEnum):
    ALL_AT_ONCE = "all-at-once"
    CANARY = "canary"


@dataclass(frozen=True, slots=True)
class StagePolicy:
    name: str
    gateways: tuple[str, ...]
    wait_after: float = 0.0
    health_check_url: str = ""
    require_approval: bool = False


@dataclass(frozen=True, slots=True)
class GatewayOrderPolicy:
    gateway: str
    weight: int = 0
    depends_on: tuple[str, ...] = ()


class RollbackTrigger(StrEnum):
    SCAN_FAILURE = "scanFailure"
    PROJECT_LOAD_ERROR = "projectLoadError"
    CONFIG_ERROR = "configError"


@dataclass(frozen=True, slots=True)
class DeploymentPolicy:
    strategy: RolloutStrategy = RolloutStrategy.ALL_AT_ONCE
    stages: tuple[StagePolicy, ...] = ()
    order: tuple[GatewayOrderPolicy, ...] = ()
    auto_rollback: tuple[RollbackTrigger, ...] = ()


@dataclass(frozen=True, slots=True)
class RateLimitPolicy:
    """`max_concurrent` unset means half of the gateways, at least one."""

    max_concurrent: int | None = None
    per_minute: int | None = None
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    required: bool = False
    timeout: float = 24 * 3600.0
    teams: tuple[str, ...] = ()
    webhook_url: str = ""

    @property
    def names_approvers(self) -> bool:
        """Whether an approval must name the approving user; a plan digest alone is not enough."""
        return self.required or bool(self.teams)


def needs_approval(gateway: str, approval: ApprovalPolicy, deployment: DeploymentPolicy) -> bool:
    """Return whether a change of this gateway needs approval, by the resource or by one of its stages."""
    return approval.required or any(
        stage.require_approval and gateway in stage.gateways for stage in deployment.stages
    )


class AlertKind(StrEnum):
    SLACK = "slack"
    PAGERDUTY = "pagerduty"
    TEAMS = "teams"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """Where an alert goes and for which reasons; no reason means every warning.

    An address or key written into the resource itself is accepted, with a warning.
    """

    kind: AlertKind
    on: tuple[str, ...] = ()
    secret: SecretKey | None = None
    inline: Secret | None = None


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    repository: str = ""
    tag: str = ""
    digest: str = ""
    pull_policy: str = "IfNotPresent"


class SidecarMode(StrEnum):
    NATIVE = "native"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class AgentPodPolicy:
    """The injected container; an empty image means the image of the webhook itself."""

    image: ImagePolicy = field(default_factory=ImagePolicy)
    requests: tuple[tuple[str, str], ...] = (("cpu", "50m"), ("memory", "64Mi"))
    limits: tuple[tuple[str, str], ...] = (("cpu", "200m"), ("memory", "256Mi"))
    sidecar_mode: SidecarMode = SidecarMode.NATIVE
    startup_budget: float = 300.0
