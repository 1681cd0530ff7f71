"""Where the snapshots of one gateway are stored: beside its ledger, on a claim, or in a bucket.

Many gateways can share a claim or a bucket. There the path contains namespace, kind and name of the resource,
so that gateways of the same name do not mix.

If the configured storage is missing, no other storage is used instead: a snapshot that is not where an
operator expects it is useless when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.domain.intent.policies import SnapshotPolicy as Policy
from stoker.domain.intent.policies import SnapshotScope, SnapshotStorageKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.pods.injection import BUCKET_KEYS
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.engine.layout.protected_paths import STATE
from stoker.snapshots.folder_storage import FolderStorage
from stoker.snapshots.ids import safe_name
from stoker.snapshots.repository import SnapshotRepository
from stoker.snapshots.storage import ObjectStorage

SNAPSHOTS = "snapshots"

# Only temporary credentials have a session token.
_OPTIONAL = frozenset({"sessionToken"})


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """The agent's own facts about the storage, besides the resource's policy."""

    data_dir: Path
    gateway: str
    mount: Path | None = None
    """The mount path of a volume for snapshots, if there is one."""
    secret: Callable[[SecretKey], bytes] | None = None
    """Reads a key of a Secret; raises if it is missing."""
    owner: str = ""
    """The owner as returned by `owner_of`; a data volume has only one gateway and needs none."""

    def snapshots(self, policy: Policy) -> SnapshotRepository:
        """Open the repository; blocks to open a bucket and raises if the storage is missing."""
        return SnapshotRepository(self.storage(policy), self.gateway)

    def owner_at(self, policy: Policy) -> str:
        """Return the owner that a snapshot in this storage records."""
        return (
            self.owner if policy.storage is not SnapshotStorageKind.PVC or self._mounted is not None else ""
        )

    @property
    def _mounted(self) -> Path | None:
        return self.mount if self.mount is not None and self.mount.is_dir() else None

    def storage(self, policy: Policy) -> ObjectStorage:
        own = safe_name(self.gateway)
        if policy.storage is not SnapshotStorageKind.PVC:
            return self._bucket(policy)
        if (mounted := self._mounted) is not None:
            return FolderStorage(mounted, f"{self.owner}/{own}" if self.owner else own)
        if policy.claim_name:
            raise Misconfigured(
                f"claim {policy.claim_name!r} for snapshots is not mounted into this pod; delete the pod so "
                "that it is recreated with the volume",
                reason=Reason.SNAPSHOT_FAILED,
            )
        return FolderStorage(self.data_dir, f"{STATE}/{SNAPSHOTS}/{own}")

    def _bucket(self, policy: Policy) -> ObjectStorage:
        from stoker.snapshots import bucket_storage  # noqa: PLC0415 - only needed for a bucket

        opened = (
            bucket_storage.s3_storage
            if policy.storage is SnapshotStorageKind.S3
            else bucket_storage.gcs_storage
        )
        prefix = "/".join(filter(None, (policy.bucket.key_prefix, self.owner)))
        return opened(replace(policy.bucket, key_prefix=prefix), self.gateway, self._credentials(policy))

    def _credentials(self, policy: Policy) -> dict[str, Secret] | None:
        name = policy.bucket.credentials_secret
        if not name or self.secret is None:
            return None  # use the pod's own identity
        found: dict[str, Secret] = {}
        for key in BUCKET_KEYS[policy.storage]:
            try:
                found[key] = Secret(self.secret(SecretKey(name, key)).strip())
            except Misconfigured:
                if key not in _OPTIONAL:
                    raise
        return found


def owner_of(namespace: str, kind: str, resource: str) -> str:
    return "/".join(map(safe_name, (namespace, kind, resource)))


def local_rollback_policy(policy: Policy) -> Policy:
    """Return the policy for rollback without configured snapshots: only the last state, stored locally."""
    return replace(
        policy, scope=SnapshotScope.MANAGED, storage=SnapshotStorageKind.PVC, claim_name="", retention_count=1
    )
