"""Two mappings that own one destination."""

from __future__ import annotations

import pytest

from stoker.api.kinds.stoker import SyncProfile
from stoker.api.manifests.codec import from_wire
from stoker.controller.mapping_conflicts import mapping_conflicts


def profile(*destinations: str) -> SyncProfile:
    mappings = [{"source": f"s{number}", "destination": one} for number, one in enumerate(destinations)]
    return from_wire({"metadata": {"name": "p"}, "spec": {"mappings": mappings}}, SyncProfile)


@pytest.mark.parametrize(
    ("destinations", "pairs"),
    [
        (("projects", "config"), 0),
        (("projects", "projects/site"), 0),
        (("projects", "projects"), 1),
        (("projects", "./projects/", "projects/."), 2),
        ((".", "./"), 1),
        (("projects/{{.GatewayName}}", "projects/{{.GatewayName}}/"), 1),
        (("projects/{{.GatewayName}}", "projects/{{.Namespace}}"), 0),
    ],
)
def test_the_same_place_is_the_same_place_however_it_is_written(
    destinations: tuple[str, ...], pairs: int
) -> None:
    assert len(list(mapping_conflicts(profile(*destinations)))) == pairs


def test_both_are_named_and_what_happens() -> None:
    (said,) = mapping_conflicts(profile("a", "b", "a/"))
    assert (
        said == "mappings[0] (s0) and mappings[2] (s2) both own a: where both have a file, the later one wins"
    )
