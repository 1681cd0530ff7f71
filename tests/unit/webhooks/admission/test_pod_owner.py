"""The resource of a pod, and the refusal where it is not clear."""

from __future__ import annotations

import msgspec
import pytest

from stoker.api.registry import KINDS
from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.reasons import Reason
from stoker.kube.client.objects import ObjectHeader
from stoker.webhooks.admission.lookups import SYNCED_KINDS
from stoker.webhooks.admission.pod_owner import OwnerCandidate, choose_owner, wanted_kinds

BY_NAME = {kind.name: kind for kind in KINDS}


def candidate(kind: str, name: str, *, going: bool = False) -> OwnerCandidate:
    metadata = {"name": name, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})}
    return OwnerCandidate(BY_NAME[kind], msgspec.convert({"metadata": metadata}, ObjectHeader), b"")


def pod(resource: str = "", kind: str = "") -> PodSettings:
    return PodSettings(gateway="filler", resource=resource, resource_kind=kind)


def refusal(settings: PodSettings, *candidates: OwnerCandidate) -> Stalled:
    with pytest.raises(Stalled) as raised:
        choose_owner(settings, "site", candidates)
    return raised.value


def test_the_only_one_is_meant() -> None:
    assert str(choose_owner(pod(), "site", [candidate("Stoker", "plant")])) == "Stoker plant"
    assert (
        str(choose_owner(pod("plant"), "site", [candidate("IgnitionSync", "plant")])) == "IgnitionSync plant"
    )


def test_one_that_goes_away_does_not_count() -> None:
    both = [candidate("Stoker", "old", going=True), candidate("Stoker", "new")]
    assert choose_owner(pod(), "site", both).name == "new"
    found = refusal(pod("old"), candidate("Stoker", "old", going=True))
    assert found.reason is Reason.RESOURCE_NOT_FOUND
    assert "is being deleted" in found.message


def test_a_missing_resource_is_reported_by_name() -> None:
    assert refusal(pod("plant")).message == "namespace site has no IgnitionSync or Stoker 'plant'"
    assert refusal(pod("plant", "Stoker")).message == "namespace site has no Stoker 'plant'"
    assert "names no resource" in refusal(pod()).message


def test_several_are_listed_with_the_annotation_that_decides() -> None:
    found = refusal(pod(), candidate("Stoker", "a"), candidate("IgnitionSync", "b"))
    assert found.reason is Reason.RESOURCE_AMBIGUOUS
    assert "Stoker a, IgnitionSync b" in found.message
    assert "stoker.io/cr-name" in found.message
    found = refusal(pod("a"), candidate("Stoker", "a"), candidate("IgnitionSync", "a"))
    assert "stoker.io/cr-kind" in found.message
    found = refusal(pod(), *(candidate("Stoker", f"s{number}") for number in range(6)))
    assert "s4 …" in found.message


def test_only_kinds_that_sync_can_be_asked_for() -> None:
    assert [kind.name for kind in wanted_kinds(pod(), SYNCED_KINDS)] == ["IgnitionSync", "Stoker"]
    assert [kind.name for kind in wanted_kinds(pod(kind="Stoker"), SYNCED_KINDS)] == ["Stoker"]
    with pytest.raises(InvalidValue, match=r"stoker\.io/cr-kind is 'SyncProfile'"):
        wanted_kinds(pod(kind="SyncProfile"), SYNCED_KINDS)
