"""Fields that are reported as being without effect."""

from __future__ import annotations

import msgspec
import pytest

from stoker.api.kinds.ignitionsync import IgnitionSyncSpec
from stoker.api.kinds.stoker import Stoker, StokerSpec
from stoker.controller.spec.unused_fields import IN_EFFECT, fields_without_effect

GIT = {"repo": "https://git.test/plant.git", "ref": "main"}


def test_what_is_set_and_runs_nowhere_is_named_in_order() -> None:
    spec = {"git": GIT, "rateLimit": {"burstLimit": 3}, "approval": {"required": True}, "paused": None}
    metadata = {"name": "line", "namespace": "plant"}
    resource = msgspec.convert({"metadata": metadata, "spec": spec}, Stoker)
    assert fields_without_effect(resource, frozenset({"git"})) == ("approval", "rateLimit")
    assert fields_without_effect(resource) == ()


@pytest.mark.parametrize(
    ("spec", "idle"), [(StokerSpec, set()), (IgnitionSyncSpec, {"storage"})], ids=["Stoker", "IgnitionSync"]
)
def test_every_field_is_in_effect_but_storage_without_shared_volumes(
    spec: type[msgspec.Struct], idle: set[str]
) -> None:
    assert {one.encode_name for one in msgspec.structs.fields(spec)} - IN_EFFECT == idle
