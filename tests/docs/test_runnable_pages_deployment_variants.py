"""Pages with a stage of their own are played, and what they promise besides their commands is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stoker_testkit.docs_checks.markdown_page import all_pages
from stoker_testkit.docs_runner.cluster_manifests import GATEWAYS, NAMESPACE
from stoker_testkit.docs_runner.deployment_variants_environment import MORE, DeploymentVariants
from stoker_testkit.docs_runner.deployment_variants_manifests import BOTTLING, CELLAR
from stoker_testkit.docs_runner.section_runner import DocsSection, play_and_check, plays
from stoker_testkit.wait_until import eventually

pytestmark = [pytest.mark.xdist_group("documents"), pytest.mark.long]

SECONDS = 240.0
PATIENCE = 60.0
PLAYS = {one.stage: one for one in plays(all_pages()) if one.stage in MORE}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeploymentVariants]:
    with DeploymentVariants(tmp_path_factory.mktemp("stages")) as made:
        yield made


def played(stages: DeploymentVariants, stage: str) -> DocsSection:
    stages.set_up(stage)
    one = PLAYS[stage]
    play_and_check(one, stages, SECONDS)
    return one


def found(stages: DeploymentVariants, *words: str) -> Any:
    """What kubectl finds in the plant's namespace."""
    return json.loads(stages.cluster.kubectl("-n", NAMESPACE, "get", *words, "-o", "json").stdout)


def test_a_canary_asks_a_service_fails_rolls_back_and_begins_again(stages: DeploymentVariants) -> None:
    played(stages, "canary")
    answers = [status for path, status in stages.service.answers if path == "/StatusPing"]
    assert answers[0] == 503, "the first release is refused"
    assert answers[-1] == 200, "the last one is not"
    release = found(stages, "stoker", "line-1")["status"]["release"]
    assert [one["state"] for one in release["stages"]] == ["Passed"] * len(release["stages"])


def test_a_fetcher_fills_the_volume_that_all_gateways_read(stages: DeploymentVariants) -> None:
    played(stages, "shared-storage")
    for name in GATEWAYS:
        spec = found(stages, "pod", f"{name}-0")["spec"]
        claims = [one.get("persistentVolumeClaim", {}).get("claimName") for one in spec["volumes"]]
        secrets = [one.get("secret", {}).get("secretName") for one in spec["volumes"]]
        assert f"ignition-sync-repo-{BOTTLING}" in claims
        assert "git-credentials" not in secrets
    stages.push()
    for name in GATEWAYS:
        path = f"projects/{name}/project.json"
        eventually(
            lambda path=path, name=name: '"description"' in (stages.delivered(name, path) or ""),  # type: ignore[misc]
            PATIENCE,
            stages.describe,
        )


def test_every_namespace_belongs_to_one_shard(stages: DeploymentVariants) -> None:
    played(stages, "two-sites")
    commit = stages.push()
    for index, namespace in enumerate((NAMESPACE, CELLAR)):
        eventually(
            lambda namespace=namespace: published_commit(stages, namespace) == commit,  # type: ignore[misc]
            PATIENCE,
            stages.describe,
        )
        shard, label = stages.shard(index), f'{{controller="stoker-controller-{index}"}}'
        assert set(shard.readings("ignition_sync_resource_ready")) == {
            f'{{cr="line-1",namespace="{namespace}"}}'
        }
        assert shard.readings("ignition_sync_shard_resources") == {label: 1.0}
        assert shard.readings("ignition_sync_shard_waits") == {label: 0.0}


def published_commit(stages: DeploymentVariants, namespace: str) -> str:
    """The commit that a resource is at."""
    output = stages.cluster.kubectl("-n", namespace, "get", "stoker", "line-1", "-o", "json").stdout
    return str(json.loads(output).get("status", {}).get("lastSyncCommit", ""))


def test_image_and_configuration_come_from_a_registry_that_wants_a_login(stages: DeploymentVariants) -> None:
    played(stages, "private-registry")
    registry = stages.registry
    assert registry is not None
    digest = stages.environment["DIGEST"]
    for name in GATEWAYS:
        spec = found(stages, "pod", f"{name}-0")["spec"]
        agent = next(one for one in spec["initContainers"] if one["name"] == "stoker-agent")
        assert agent["image"] == f"{registry.host}/stoker@{digest}"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert stages.delivered(name, f"projects/{name}/project.json") is not None
    pulls = [one for one in registry.requests() if one.endswith(f"/v2/stoker/manifests/{digest}")]
    assert len(pulls) >= len(GATEWAYS), "one for each pod at least"
    assert not [one for one in registry.requests() if "/v2/line-1/manifests/v12" in one and "PUT" not in one]


def test_a_fetcher_is_pulled_with_the_secret_that_the_chart_names(stages: DeploymentVariants) -> None:
    """As the page says of a shared volume."""
    if stages.registry is None:
        played(stages, "private-registry")
    assert stages.registry is not None
    before = len(stages.registry.requests())
    stages.share_a_volume()
    name = f"deployment/ignition-sync-fetcher-{BOTTLING}"
    stages.cluster.kubectl("-n", NAMESPACE, "wait", name, "--for=create", "--timeout=60s")
    stages.cluster.kubectl("-n", NAMESPACE, "rollout", "status", name, "--timeout=60s")
    digest = stages.environment["DIGEST"]
    pulls = [
        one for one in stages.registry.requests()[before:] if one.endswith(f"/stoker/manifests/{digest}")
    ]
    assert pulls, "its image was asked for"
