"""Other namespaces need the owner's consent, and Secrets get to git only where that was asked for."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.wait_until import eventually

STOKERS = "/apis/stoker.io/v1alpha1/namespaces/{}/stokers"


def secret_path(site: ReverserSite, name: str) -> str:
    return f"{BASE}/core/v1/secrets/{site.namespace}/{name}.yaml"


@pytest.fixture
def owner(site: ReverserSite) -> ReverserSite:
    """Another namespace of the same cluster, with a repository."""
    other = ReverserSite(site.cluster, f"{site.namespace}-owner", site.folder, site.url)
    site.cluster.create_namespace(other.namespace)
    other.repo_config()
    return other


@pytest.mark.smoke
def test_another_namespaces_repository_is_refused_until_it_allows_that(
    site: ReverserSite, owner: ReverserSite, prod: Repository
) -> None:
    site.destination(repoRef={"name": "repo", "namespace": owner.namespace})
    site.rule()
    site.config_map("prices")
    site.start(f"--watch-namespaces={site.namespace},{owner.namespace}")
    message = site.until("GitDestination", "production", "RepoPolicyDenied")
    assert "spec.allowedNamespaces" in message
    assert not prod.has_branch("main")
    owner.repo_config(allowedNamespaces=[site.namespace])
    site.until_files(prod, {site.map_path("prices"): "value"})


def test_another_namespaces_destination_is_refused_until_it_allows_that(
    site: ReverserSite, owner: ReverserSite, prod: Repository
) -> None:
    owner.destination()
    to = {"name": "production", "namespace": owner.namespace}
    site.apply("WatchRule", "maps", {"destinationRef": to, "rules": [{"resources": ["configmaps"]}]})
    site.config_map("prices")
    site.start(f"--watch-namespaces={site.namespace},{owner.namespace}")
    site.until("WatchRule", "maps", "DestinationPolicyDenied")
    assert site.map_path("prices") not in files_of(prod)
    owner.destination(allowedNamespaces=[site.namespace])
    site.until_files(prod, {site.map_path("prices"): "value"})


@pytest.mark.smoke
@pytest.mark.parametrize("flags", [(), ("--include-secrets",)], ids=["not read", "read"])
def test_without_a_word_about_secrets_none_is_written_and_a_condition_says_so(
    site: ReverserSite, prod: Repository, flags: tuple[str, ...]
) -> None:
    site.repo_config()
    site.destination()
    site.rule("all", ["secrets", "configmaps"])
    site.secret("password", word="hidden")
    site.start(*flags)
    site.until("GitDestination", "production", "SecretsExcluded", "SecretsExcluded")
    site.config_map("probe")
    site.until_files(prod, {site.map_path("probe"): "value"})
    assert secret_path(site, "password") not in files_of(prod)


@pytest.mark.smoke
def test_secrets_that_our_resources_name_or_own_are_never_written(
    site: ReverserSite, prod: Repository
) -> None:
    stokers = STOKERS.format(site.namespace)
    body = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "line", "namespace": site.namespace},
        "spec": {
            "git": {
                "repo": "https://git.example.com/a.git",
                "ref": "main",
                "auth": {"token": {"secretRef": {"name": "token", "key": "token"}}},
            },
            "gateway": {"apiKeySecretRef": {"name": "gateway-key", "key": "key"}},
        },
    }
    answer = site.cluster.request("POST", stokers, body)
    assert answer.status == 201, answer.body[:500]
    made: Any = answer.json()
    uid = made["metadata"]["uid"]
    site.repo_config()
    site.destination(secretPolicy="Include")
    site.rule("all", ["secrets"])
    # What the controller makes for a GitHub App: known by its name, or by its owner.
    site.secret("stoker-git-token-line", token="hidden")
    site.secret("owned", token="hidden")
    reference = {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker", "name": "line", "uid": uid}
    site.patch("Secret", "owned", {"metadata": {"ownerReferences": [reference]}})
    for name in ("token", "gateway-key", "by-default", "people"):
        site.secret(name, token="hidden")
    site.start("--include-secrets")
    clear = base64.b64encode(b"hidden").decode()
    # Until the controller has published what the resource uses by base and defaults, none is written.
    waits = "has no status.secretNames yet"
    eventually(lambda: waits in str(site.status("GitDestination", "production")), 30.0, "they wait")
    assert not [path for path in files_of(prod) if "/secrets/" in path]
    published = {"status": {"secretNames": ["by-default", "gateway-key", "token"]}}
    answer = site.cluster.request(
        "PATCH", f"{stokers}/line/status", published, content_type="application/merge-patch+json"
    )
    assert answer.status == 200, answer.body[:500]
    site.until_files(prod, {secret_path(site, "people"): clear})
    site.until("WatchRule", "all", "Initialized")
    site.secret("probe", token="hidden")
    files = site.until_files(prod, {secret_path(site, "probe"): clear})
    written = {path.rpartition("/")[2] for path in files if "/secrets/" in path}
    assert written == {"people.yaml", "probe.yaml"}
    # A Secret that is named later leaves git again.
    named = {"spec": {"gateway": {"apiKeySecretRef": {"name": "people", "key": "key"}}}}
    answer = site.cluster.request(
        "PATCH", f"{stokers}/line", named, content_type="application/merge-patch+json"
    )
    assert answer.status == 200, answer.body[:500]
    site.until_files(prod, {secret_path(site, "people"): None})
