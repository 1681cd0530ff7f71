"""The pod that fetches for all gateways of a resource runs no image that an agent could not run."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import intent_for, merge_spec
from stoker.controller.cache.objects import CachedResource, OwnedHeader, OwnedMeta, ResourceKey
from stoker.controller.owned.fetcher_deployments import fetcher_deployment
from stoker.domain.errors import Stalled
from stoker.domain.pods.images import ImageRef
from stoker.domain.pods.injection import AgentInstallation
from stoker.domain.reasons import Reason
from stoker.kube.watch.store import ObjectKey

DIGEST = f"sha256:{'a' * 64}"
KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))


def image_of(installation: AgentInstallation, **image: str) -> str:
    spec = {"git": {"repo": "https://git.example.test/p.git", "ref": "main"}, "gateway": {"filesOnly": True}}
    wire = {"metadata": {"name": "line", "namespace": "plant"}, "spec": {**spec, "agent": {"image": image}}}
    intent = intent_for(merge_spec(from_wire(wire, Stoker)))
    kept = CachedResource(OwnedHeader(metadata=OwnedMeta(name="line", namespace="plant", uid="u")), b"")
    made: dict[str, Any] = fetcher_deployment(KEY, kept, intent, installation, "claim")
    return str(made["spec"]["template"]["spec"]["containers"][0]["image"])


def test_where_digests_are_demanded_the_fetcher_takes_no_tag() -> None:
    strict = AgentInstallation(ImageRef.parse("registry.test/stoker:1.0"), require_digest=True)
    with pytest.raises(Stalled) as refused:
        image_of(strict)
    assert refused.value.reason is Reason.IMAGE_NOT_PINNED
    assert image_of(strict, digest=DIGEST) == f"registry.test/stoker@{DIGEST}"


def test_the_fetcher_takes_no_image_of_a_repository_that_is_not_allowed() -> None:
    own = ImageRef.parse("registry.test/stoker:1.0")
    with pytest.raises(Stalled) as refused:
        image_of(AgentInstallation(own), repository="evil/stoker")
    assert refused.value.reason is Reason.IMAGE_NOT_ALLOWED
    mirror = AgentInstallation(own, image_repositories=("mirror/",))
    assert image_of(mirror, repository="mirror/stoker") == "mirror/stoker:1.0"
