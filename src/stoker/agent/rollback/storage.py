"""Where the snapshots of one gateway lie: beside its ledger, on a claim, or in a bucket.

On a claim or in a bucket, which many may share, they lie below the namespace, the kind and
the name of the resource: a gateway of the same name elsewhere has its own.

Nothing is looked for elsewhere when the place that was asked for is not there: a copy
that nobody finds on the day it is needed is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.domain.injection import BUCKET_KEYS
from stoker.domain.intent.policies import SnapshotPolicy as Policy
from stoker.domain.intent.policies import SnapshotScope, SnapshotStorageKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.engine.layout.protected_paths import STATE
from stoker.snapshots.folder_storage import FolderStorage
from stoker.snapshots.ids import safe_name
from stoker.snapshots.repository import SnapshotRepository
from stoker.snapshots.storage import ObjectStorage

SNAPSHOTS = "snapshots"

# The token of a login that lasts for hours; a key that lasts has none.
_OPTIONAL = frozenset({"sessionToken"})


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """What is known of the place beside what the resource says."""

    data_dir: Path
    gateway: str
    mount: Path | None = None
    """Where a volume for snapshots is mounted, if there is one."""
    secret: Callable[[SecretKey], bytes] | None = None
    """Reads a key of a Secret; raises where it is missing."""
    owner: str = ""
    """Whose gateway it is, as `owner_of` says it; a data volume needs none, for it has one gateway."""

    def snapshots(self, policy: Policy) -> SnapshotRepository:
        """Blocks where a bucket has to be opened; raises where the place is not there."""
        return SnapshotRepository(self.storage(policy), self.gateway)

    def owner_at(self, policy: Policy) -> str:
        """What a snapshot there says of its owner."""
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
                f"claim {policy.claim_name!r} for snapshots is not mounted into this pod; restart it, so "
                "that it is made anew",
                reason=Reason.SNAPSHOT_FAILED,
            )
        return FolderStorage(self.data_dir, f"{STATE}/{SNAPSHOTS}/{own}")

    def _bucket(self, policy: Policy) -> ObjectStorage:
        from stoker.snapshots import bucket_storage  # noqa: PLC0415 - an object store's client, for those who have one

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
            return None  # the pod's own identity
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
    """For whoever wants no snapshots and must be able to take a change back all the same."""
    return replace(
        policy, scope=SnapshotScope.MANAGED, storage=SnapshotStorageKind.PVC, claim_name="", retention_count=1
    )
