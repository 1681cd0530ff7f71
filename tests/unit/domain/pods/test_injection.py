"""Images and sidecars: what the injector and the controller must agree about."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import ImagePolicy
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.pods.images import ImageRef, agent_image
from stoker.domain.pods.injection import minted_secret_name

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("stoker", ("stoker", "", "")),
        ("stoker:1.0", ("stoker", "1.0", "")),
        ("host:5000/a/b", ("host:5000/a/b", "", "")),
        ("host:5000/a/b:1", ("host:5000/a/b", "1", "")),
        (f"a/b@{DIGEST}", ("a/b", "", DIGEST)),
        (f"a/b:1@{DIGEST}", ("a/b", "1", DIGEST)),
    ],
)
def test_an_address_has_up_to_three_parts(text: str, parts: tuple[str, str, str]) -> None:
    found = ImageRef.parse(text)
    assert (found.repository, found.tag, found.digest) == parts
    assert ImageRef.parse(str(found)).repository == found.repository


@pytest.mark.parametrize(
    "text",
    ["", " ", "a b", "a:", "a@sha256:1", "-a", "a//b", "a\n", "https://a/b", "a" * 513, "a:1:2", "{{x}}"],
)
def test_what_no_registry_could_serve_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        ImageRef.parse(text)


def test_a_resource_with_a_broken_repository_is_refused() -> None:
    with pytest.raises(InvalidValue):
        agent_image(ImagePolicy(repository="no such thing"), ImageRef("stoker", "1"))


def test_the_minted_token_is_in_a_secret_of_the_resource() -> None:
    assert minted_secret_name(SyncResourceKind.STOKER, "plant") == "stoker-git-token-plant"
    assert minted_secret_name(SyncResourceKind.IGNITION_SYNC, "plant") == "ignition-sync-git-token-plant"
