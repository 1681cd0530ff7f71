"""Pages that are played: their commands are run in order, on real stages, and do what the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_testkit.docs_checks.markdown_page import all_pages, read_page
from stoker_testkit.docs_runner import forge_and_alerts_environment, upgrade_environment
from stoker_testkit.docs_runner.cluster_environment import Cluster
from stoker_testkit.docs_runner.deployment_variants_environment import MORE
from stoker_testkit.docs_runner.reader_environment import Standalone
from stoker_testkit.docs_runner.section_runner import (
    MARKS,
    NOT_PLAYED,
    DocsSection,
    DocsSectionFailed,
    play_and_check,
    plays,
)

pytestmark = pytest.mark.xdist_group("documents")

PAGES = all_pages()
PLAYS = plays(PAGES)
SECONDS = 150.0
IN_CLUSTER = ("empty-cluster", "cluster", "plant", "cluster-to-git")
"""In this order each stage finds most of what it needs."""
MUST_BE_PLAYED = (
    "docs/quick-start/gateway.md",
    "docs/quick-start/platform.md",
    "docs/quick-start/cluster-to-git.md",
    "docs/runbook.md",
)
LEFT_OUT: dict[str, str] = {
    "docs/how-to/sign-and-verify.md: kubectl -n plant rollout restart statefulset filler packer": (
        "the gateways of the stage are pods without anybody who makes them again"
    ),
    "docs/how-to/secrets-and-api-keys.md: ssh-keyscan git.example.net > known_hosts": (
        "it asks a server of the reader's own"
    ),
    "docs/how-to/run-as-a-service.md: chown -R ignition:ignition /etc/stoker/secrets && "
    "chmod -R go= /etc/stoker/secrets": "it takes a user ignition, and systemd",
    "docs/how-to/upgrade-and-uninstall.md: systemctl restart 'stoker-sync@*'": "it takes systemd",
}
"""Fences of played sections that are not, by the page and their first line, and why."""


LONG = {
    "docs/how-to/add-a-gateway.md",
    "docs/how-to/mirror-a-namespace.md",
    "docs/how-to/sign-and-verify.md",
    "docs/how-to/watch-with-prometheus.md",
}
"""Pages that upgrade the release, or wait for gateways to start."""


def by_name(play: DocsSection) -> str:
    return play.name


def test_the_quick_starts_and_the_runbook_are_played() -> None:
    assert set(MUST_BE_PLAYED) <= {one.page for one in PLAYS}
    elsewhere = {*MORE, *forge_and_alerts_environment.STAGES, upgrade_environment.STAGE}
    assert {one.stage for one in PLAYS} <= {"standalone", *IN_CLUSTER, *elsewhere}


def test_what_is_left_out_is_in_the_list() -> None:
    found = {
        f"{fence.page}: {fence.first}": fence.mark(NOT_PLAYED)
        for one in PLAYS
        for fence in one.fences
        if fence.mark(NOT_PLAYED) is not None
    }
    assert found == LEFT_OUT


def test_every_mark_is_known_and_is_before_a_fence() -> None:
    wrong = []
    for page in PAGES:
        marked = {mark for fence in page.fences if fence.stage for mark in fence.marks}
        wrong += [
            f"{page.name}:{mark.line}: {mark.text}"
            for mark in page.marks
            if mark.text.partition(":")[0].strip() in MARKS and mark.text not in marked
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("one", [one for one in PLAYS if one.stage == "standalone"], ids=by_name)
def test_a_page_is_played_without_a_cluster(one: DocsSection, tmp_path: Path) -> None:
    with Standalone(tmp_path) as stage:
        play_and_check(one, stage, SECONDS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as stage:
        yield stage


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, marks=[pytest.mark.long] if one.page in LONG else [])
        for stage in IN_CLUSTER
        for one in PLAYS
        if one.stage == stage
    ],
    ids=by_name,
)
def test_a_page_is_played_in_a_cluster(one: DocsSection, cluster: Cluster) -> None:
    cluster.set_up(one.stage)
    play_and_check(one, cluster, SECONDS)


def check_played(text: str, folder: Path) -> None:
    (one,) = plays([read_page(f"# Page\n\n<!-- stage: standalone -->\n\n{text}", "docs/page.md")])
    with Standalone(folder) as stage:
        play_and_check(one, stage, SECONDS)


def test_a_command_that_fails_is_named_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(DocsSectionFailed, match=r"docs/page.md:10 ended with 2:"):
        check_played("```sh\ntrue\n```\n\n```sh\nstoker verify --data-dir /nowhere\n```\n", tmp_path)


def test_marks_say_what_a_fence_has_to_do(tmp_path: Path) -> None:
    check_played(
        "```yaml\n# a.yaml\nb: c\n```\n\n<!-- shows: b: c -->\n```sh\ncat a.yaml\n```\n\n"
        "<!-- exit: 3 -->\n```sh\n(exit 3)\n```\n\n<!-- runs on -->\n```sh\nsleep 600\n```\n\n"
        "<!-- not played: reason -->\n```sh\nfalse\n```\n",
        tmp_path,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- shows: two -->\n```sh\necho one\n```\n", "does not show 'two'"),
        ("<!-- exit: 3 -->\n```sh\ntrue\n```\n", "ended with 1"),
    ],
)
def test_what_a_fence_does_not_do_is_found(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DocsSectionFailed, match=message):
        check_played(text, tmp_path)
