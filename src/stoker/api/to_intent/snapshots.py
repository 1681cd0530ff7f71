"""`spec.snapshots`; the type of the storage decides which of its blocks applies."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.api.manifests.codec import to_wire
from stoker.api.spec import delivery as blocks
from stoker.api.to_intent.values import parse_choice, value_or_default
from stoker.domain.intent.intent import Notice
from stoker.domain.intent.policies import SnapshotBucketPolicy, SnapshotPolicy, SnapshotStorageKind
from stoker.domain.reasons import Reason


def snapshots_of(block: blocks.SnapshotSpec | None) -> SnapshotPolicy:
    default, block = SnapshotPolicy(), block or blocks.SnapshotSpec()
    storage = block.storage or blocks.SnapshotStorageSpec()
    kind = parse_choice(storage.type, default.storage)
    return SnapshotPolicy(
        enabled=value_or_default(block.enabled, default.enabled),
        retention_count=value_or_default(block.retention_count, default.retention_count),
        scope=parse_choice(block.scope, default.scope),
        storage=kind,
        claim_name=_claim(kind, storage),
        bucket=_bucket(kind, storage),
    )


def snapshot_notices(block: blocks.SnapshotSpec | None) -> Iterator[Notice]:
    """Yield notices about unused storage blocks, so that no user relies on a bucket that stays empty."""
    storage = (block and block.storage) or blocks.SnapshotStorageSpec()
    used = parse_choice(storage.type, SnapshotStorageKind.PVC)
    for kind, described in (("pvc", storage.pvc), ("s3", storage.s3), ("gcs", storage.gcs)):
        if kind != used and described and any(to_wire(described).values()):
            yield Notice(
                Reason.FIELD_IGNORED,
                f"snapshots.storage.{kind} is not used: snapshots.storage.type is {used}",
            )


def _claim(kind: SnapshotStorageKind, storage: blocks.SnapshotStorageSpec) -> str:
    if kind is SnapshotStorageKind.PVC and storage.pvc:
        return storage.pvc.claim_name or ""
    return ""


def _bucket(kind: SnapshotStorageKind, storage: blocks.SnapshotStorageSpec) -> SnapshotBucketPolicy:
    if kind is SnapshotStorageKind.S3 and (s3 := storage.s3):
        return SnapshotBucketPolicy(
            name=s3.bucket or "",
            key_prefix=s3.key_prefix or "",
            endpoint=s3.endpoint or "",
            region=s3.region or "",
            credentials_secret=s3.credentials_secret_ref.name if s3.credentials_secret_ref else "",
        )
    if kind is SnapshotStorageKind.GCS and (gcs := storage.gcs):
        return SnapshotBucketPolicy(
            name=gcs.bucket or "",
            key_prefix=gcs.key_prefix or "",
            credentials_secret=gcs.credentials_secret_ref.name if gcs.credentials_secret_ref else "",
        )
    return SnapshotBucketPolicy()
