"""Where the snapshots of a gateway are stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.rollback.storage import SnapshotLocation, owner_of
from stoker.domain.intent.policies import SnapshotBucketPolicy, SnapshotPolicy, SnapshotStorageKind


@pytest.mark.parametrize(
    ("owner", "prefix", "where"),
    [
        (owner_of("a", "Stoker", "plant"), "", "a/Stoker/plant/filler"),
        (owner_of("a", "Stoker", "plant"), "x/", "x/a/Stoker/plant/filler"),
        (owner_of("a", "IgnitionSync", "plant"), "x", "x/a/IgnitionSync/plant/filler"),
        ("", "x", "x/filler"),
    ],
)
def test_a_bucket_keeps_the_gateways_of_resources_apart(
    tmp_path: Path, owner: str, prefix: str, where: str
) -> None:
    policy = SnapshotPolicy(
        enabled=True,
        storage=SnapshotStorageKind.S3,
        bucket=SnapshotBucketPolicy("copies", key_prefix=prefix, endpoint="http://x"),
    )
    place = SnapshotLocation(tmp_path, "filler", owner=owner)
    assert place.storage(policy).where == f"s3://copies/{where}"
    assert place.owner_at(policy) == owner


def test_a_data_volume_has_one_gateway_whichever_resource_owns_it(tmp_path: Path) -> None:
    place, policy = (
        SnapshotLocation(tmp_path, "filler", owner=owner_of("a", "Stoker", "plant")),
        SnapshotPolicy(enabled=True),
    )
    assert place.storage(policy).where == str(tmp_path / ".sync-state/snapshots/filler")
    assert place.owner_at(policy) == ""
