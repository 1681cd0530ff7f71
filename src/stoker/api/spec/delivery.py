"""How a commit reaches many gateways and how it is rolled back: snapshots, rollback, deployment."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from stoker.api.field_docs import Block, FieldRule, describe, list_bounds, text_bounds
from stoker.api.meta import LocalRef
from stoker.api.scalars import Duration, GatewayName, HealthCheckUrl, HttpUrl, Label, Limit, ObjectName

_KeyPrefix = Annotated[str, text_bounds(512)]
_BucketName = Annotated[str, text_bounds(255)]


class SnapshotVolumeSpec(Block):
    """A volume for snapshots."""

    claim_name: Annotated[
        ObjectName | None, describe("Name of the PersistentVolumeClaim, in the namespace of the gateway.")
    ] = None


class SnapshotS3Spec(Block):
    """A bucket with an S3 API."""

    bucket: Annotated[_BucketName | None, describe("Name of the bucket.")] = None
    key_prefix: Annotated[_KeyPrefix | None, describe("Prefix of every object key.")] = None
    endpoint: Annotated[HttpUrl | None, describe("Endpoint of an S3-compatible server other than AWS.")] = (
        None
    )
    region: Annotated[Annotated[str, text_bounds(64, least=1)] | None, describe("Region of the bucket.")] = (
        None
    )
    credentials_secret_ref: Annotated[
        LocalRef | None,
        describe("A Secret with the keys accessKeyId and secretAccessKey. Left out: the pod's own identity."),
    ] = None


class SnapshotGcsSpec(Block):
    """A bucket in Google Cloud Storage."""

    bucket: Annotated[_BucketName | None, describe("Name of the bucket.")] = None
    key_prefix: Annotated[_KeyPrefix | None, describe("Prefix of every object key.")] = None
    credentials_secret_ref: Annotated[
        LocalRef | None,
        describe("A Secret with the key serviceAccount.json. Left out: the pod's own identity."),
    ] = None


class SnapshotStorageSpec(Block):
    """Storage of snapshots."""

    type: Annotated[Literal["pvc", "s3", "gcs"] | None, describe("Kind of storage.")] = None
    pvc: Annotated[SnapshotVolumeSpec | None, describe("The volume, for type pvc.")] = None
    s3: Annotated[SnapshotS3Spec | None, describe("The bucket, for type s3.")] = None
    gcs: Annotated[
        SnapshotGcsSpec | None, describe("The bucket, for type gcs.", stability="experimental")
    ] = None


class SnapshotSpec(Block):
    """Copies of a gateway's files, taken before each sync."""

    enabled: Annotated[bool | None, describe("True takes a snapshot before each sync.")] = None
    retention_count: Annotated[
        Limit | None, describe("Snapshots to keep per gateway; older ones are deleted.")
    ] = None
    scope: Annotated[
        Literal["managed", "all"] | None,
        describe("managed: the files that syncs write. all: the whole data folder except caches."),
    ] = None
    storage: Annotated[SnapshotStorageSpec | None, describe("Storage of snapshots.")] = None


class RollbackSpec(Block):
    """A rollback request; each distinct value is carried out once."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!(has(self.toSnapshot) && self.toSnapshot != '' && has(self.toCommit) && self.toCommit != '')",
            "toSnapshot and toCommit exclude each other: set one of them",
            lambda it: not (it.to_snapshot and it.to_commit),
            at="toSnapshot",
        ),
    )

    to_snapshot: Annotated[
        Annotated[str, text_bounds(253)] | None,
        describe("Name of the snapshot to restore, as in status; empty: none."),
    ] = None
    to_commit: Annotated[
        Annotated[
            str,
            text_bounds(
                64,
                FieldRule(
                    "self.matches(r'^([0-9a-f]{40}|[0-9a-f]{64})?$')",
                    "must be a full commit id of 40 or 64 hexadecimal digits, or empty",
                    lambda value: len(value) in (0, 40, 64) and set(value) <= set("0123456789abcdef"),
                ),
            ),
        ]
        | None,
        describe("Full id of the commit to roll back to and stay at; empty: none."),
    ] = None


class DeploymentStageSpec(Block):
    """A stage: gateways that receive a new commit together."""

    name: Annotated[Label, describe("Name of the stage.")]
    gateways: Annotated[
        Annotated[tuple[GatewayName, ...], list_bounds(256, least=1, unique=True)],
        describe("Names of its gateways."),
    ]
    post_sync_wait: Annotated[
        Duration | None, describe("Wait time after the last gateway of the stage, before the health check.")
    ] = None
    health_check_url: Annotated[
        HealthCheckUrl | None,
        describe("Address that must answer 200 within 10 seconds; a leading GET is accepted and dropped."),
    ] = None
    require_approval: Annotated[bool | None, describe("True makes the stage wait for approval.")] = None


class SyncOrderSpec(Block):
    """Weight and dependencies of one gateway in the sync order."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!has(self.dependsOn) || !(self.name in self.dependsOn)",
            "dependsOn must not name the gateway itself",
            lambda it: it.name not in (it.depends_on or ()),
            at="dependsOn",
        ),
    )

    name: Annotated[GatewayName, describe("Name of the gateway.")]
    weight: Annotated[
        Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] | None,
        describe("Gateways with a higher weight sync first, those with the same weight together."),
    ] = None
    depends_on: Annotated[
        Annotated[tuple[GatewayName, ...], list_bounds(64, unique=True)] | None,
        describe("Gateways that must be synced before this one starts."),
    ] = None


class AutoRollbackSpec(Block):
    """Automatic rollback of a failed sync."""

    enabled: Annotated[bool | None, describe("True rolls a failed sync back automatically.")] = None
    triggers: Annotated[
        Annotated[
            tuple[Literal["scanFailure", "projectLoadError", "configError"], ...], list_bounds(3, unique=True)
        ]
        | None,
        describe("Which failures trigger the rollback."),
    ] = None


class DeploymentSpec(Block):
    """The order in which gateways receive a new commit."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!has(self.stages) || size(self.stages) == 0 || has(self.strategy) && self.strategy == 'canary'",
            "stages must be empty unless strategy is canary",
            lambda it: not it.stages or it.strategy == "canary",
            at="stages",
        ),
        FieldRule(
            "!has(self.strategy) || self.strategy != 'canary' || has(self.stages) && size(self.stages) > 0",
            "stages must not be empty when strategy is canary",
            lambda it: it.strategy != "canary" or bool(it.stages),
            at="stages",
        ),
        FieldRule(
            "!has(self.stages) || self.stages.all(one, self.stages.exists_one(other, other.name == "
            "one.name))",
            "stages must have different names",
            lambda it: len({stage.name for stage in it.stages or ()}) == len(it.stages or ()),
            at="stages",
        ),
    )

    strategy: Annotated[
        Literal["all-at-once", "canary"] | None, describe("All gateways together, or stage by stage.")
    ] = None
    stages: Annotated[
        Annotated[tuple[DeploymentStageSpec, ...], list_bounds(32)] | None,
        describe("The stages in order; only with strategy canary."),
    ] = None
    sync_order: Annotated[
        Annotated[tuple[SyncOrderSpec, ...], list_bounds(256, keyed_by=("name",))] | None,
        describe("Weights and dependencies between gateways."),
    ] = None
    auto_rollback: Annotated[AutoRollbackSpec | None, describe("Automatic rollback after a failure.")] = None
