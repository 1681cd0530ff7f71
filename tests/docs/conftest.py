"""Fixtures of the documentation tests: the pages, and the check of their commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stoker.cli.commands import cli
from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.docs_checks.command_check import CommandCheck
from stoker_testkit.docs_checks.markdown_page import Page, all_pages
from stoker_testkit.docs_checks.server_dry_run import ServerDryRun, install_kinds_of_others
from stoker_testkit.docs_checks.tool_help import Tool


@pytest.fixture(scope="session")
def pages() -> list[Page]:
    return all_pages()


@pytest.fixture(scope="session")
def kubectl(kinds: ClusterAccess) -> Tool:
    return Tool(kinds.binaries / "kubectl")


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterAccess]:
    """A cluster in which Argo CD, Flux and others have been installed, as far as their kinds go.

    One of its own: the shared one is read by tests that count kinds.
    """
    with ControlPlane.start(tmp_path_factory.mktemp("foreign")) as plane:
        install_kinds_of_others(plane)
        plane.create_namespace("documents")
        yield plane


@pytest.fixture(scope="session")
def others(foreign: ClusterAccess) -> ServerDryRun:
    return ServerDryRun(foreign, "documents")


@pytest.fixture(scope="session")
def examiner(kinds: ClusterAccess, foreign: ClusterAccess) -> CommandCheck:
    """Knows the product's command line, the real kubectl and helm, and what the API servers serve."""
    served = spellings(kinds) | spellings(foreign)
    return CommandCheck(cli, kinds.binaries / "kubectl", assets.helm(), lambda: served)


def spellings(cluster: ClusterAccess) -> frozenset[str]:
    """Every way to say a kind to kubectl."""
    found = {"all"}
    groups: Any = cluster.request("GET", "/apis").json()
    versions = ["/api/v1", *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in groups["groups"])]
    for version in versions:
        answer = cluster.request("GET", version)
        if answer.status == 404:  # a kind of another test that has just gone; the list forgets it later
            continue
        listed: Any = answer.json()
        group = version.split("/")[2] if version.startswith("/apis/") else ""
        for one in listed["resources"]:
            names = {one["name"], one["singularName"], one["kind"].lower(), *one.get("shortNames", ())}
            found |= names | {f"{name}.{group}" for name in names if group} | set(one.get("categories", ()))
    return frozenset(found)
