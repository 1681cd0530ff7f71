"""Names that are too long for one file name, to the letter: another path would move files in git."""

from __future__ import annotations

import pytest

from stoker.reverser.manifest.path import MAX_PART_LENGTH, ManifestKey, manifest_path, object_at_path


def key(name: str) -> ManifestKey:
    return ManifestKey("", "v1", "configmaps", "shop", name)


@pytest.mark.parametrize(("length", "parts"), [(MAX_PART_LENGTH, 5), (MAX_PART_LENGTH + 1, 6)])
def test_a_name_is_one_part_up_to_its_limit(length: int, parts: int) -> None:
    path = manifest_path(key("a" * length), "")
    assert len(path.split("/")) == parts
    assert object_at_path(path, "") == key("a" * length)


@pytest.mark.parametrize("before", range(MAX_PART_LENGTH - 4, MAX_PART_LENGTH + 2))
def test_an_escape_is_never_cut_in_two(before: int) -> None:
    named = key("a" * before + "Z" * 3)
    path = manifest_path(named, "")
    assert object_at_path(path, "") == named
    assert all(part.count("%5a") == part.count("%") for part in path.split("/")), "each escape is whole"


def test_the_api_version_has_its_group_unless_it_is_the_core() -> None:
    assert ManifestKey("apps", "v1", "deployments", "shop", "web").api_version == "apps/v1"
    assert key("web").api_version == "v1"
